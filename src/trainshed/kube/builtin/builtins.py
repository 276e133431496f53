"""The built-in resources, one row each, in the order in which discovery lists groups and kinds.

Verbs, short names, categories and subresources follow the Kubernetes API reference of 1.33. Resources
whose behaviour this server does not have are stored like any other, so that manifests which carry them apply.
"""

from __future__ import annotations

from trainshed.kube.meta.resourceinfo import ALL_VERBS, ResourceInfo, ScalePaths, SubresourceInfo
from trainshed.kube.meta.resources import Resource

_STATUS = {"status": SubresourceInfo(("get", "patch", "update"))}
_SCALE = {"scale": SubresourceInfo(("get", "patch", "update"), "Scale", "autoscaling", "v1")}
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_READ = ("get", "list")
_ALL = ("all",)
_REPLICAS = ScalePaths(".spec.replicas", ".status.replicas", ".status.selector")


def _proxy(kind: str) -> dict[str, SubresourceInfo]:
    return {"proxy": SubresourceInfo(_PROXY_VERBS, kind)}


_POD_SUBRESOURCES = {
    **_STATUS,
    "attach": SubresourceInfo(("create", "get"), "PodAttachOptions"),
    "binding": SubresourceInfo(("create",), "Binding"),
    "ephemeralcontainers": SubresourceInfo(("get", "patch", "update")),
    "eviction": SubresourceInfo(("create",), "Eviction", "policy", "v1"),
    "exec": SubresourceInfo(("create", "get"), "PodExecOptions"),
    "log": SubresourceInfo(("get",)),
    "portforward": SubresourceInfo(("create", "get"), "PodPortForwardOptions"),
    **_proxy("PodProxyOptions"),
    "resize": SubresourceInfo(("get", "patch", "update")),
}


def _row(
    group_version: str,
    plural: str,
    kind: str,
    short: str = "",
    *,
    cluster: bool = False,
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: dict[str, SubresourceInfo] | None = None,
    stored: bool = True,
    view_of: Resource | None = None,
    create_on_update: bool = False,
    unconditional_update: bool = True,
    generation: bool = False,
) -> ResourceInfo:
    group, _, version = group_version.rpartition("/")
    return ResourceInfo(
        resource=Resource(group, version, plural, kind, not cluster),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=tuple(short.split()),
        categories=categories,
        verbs=verbs,
        subresources=subresources or {},
        stored=stored,
        view_of=view_of,
        create_on_update=create_on_update,
        unconditional_update=unconditional_update,
        has_generation=generation,
        scale=_REPLICAS if subresources and "scale" in subresources else None,
    )


def _review(group_version: str, plural: str, kind: str, *, cluster: bool = True) -> ResourceInfo:
    """A question answered in the response: create is the only verb and nothing is kept."""
    return _row(group_version, plural, kind, cluster=cluster, verbs=("create",), stored=False)


_CORE = (
    _row("v1", "bindings", "Binding", verbs=("create",), stored=False),
    _row("v1", "configmaps", "ConfigMap", "cm"),
    _row("v1", "endpoints", "Endpoints", "ep", create_on_update=True),
    _row("v1", "events", "Event", "ev", create_on_update=True),
    _row("v1", "limitranges", "LimitRange", "limits", create_on_update=True),
    _row(
        "v1",
        "namespaces",
        "Namespace",
        "ns",
        cluster=True,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources={"finalize": SubresourceInfo(("update",)), **_STATUS},
    ),
    _row("v1", "nodes", "Node", "no", cluster=True, subresources={**_proxy("NodeProxyOptions"), **_STATUS}),
    _row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS),
    _row("v1", "persistentvolumes", "PersistentVolume", "pv", cluster=True, subresources=_STATUS),
    _row("v1", "pods", "Pod", "po", categories=_ALL, subresources=_POD_SUBRESOURCES, generation=True),
    _row("v1", "podtemplates", "PodTemplate", generation=True),
    _row(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=_ALL,
        subresources={**_SCALE, **_STATUS},
        generation=True,
    ),
    _row("v1", "resourcequotas", "ResourceQuota", "quota", subresources=_STATUS),
    _row("v1", "secrets", "Secret"),
    _row(
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        subresources={"token": SubresourceInfo(("create",), "TokenRequest", "authentication.k8s.io", "v1")},
    ),
    _row(
        "v1",
        "services",
        "Service",
        "svc",
        categories=_ALL,
        subresources={**_proxy("ServiceProxyOptions"), **_STATUS},
        create_on_update=True,
    ),
)

_WORKLOADS = (
    _row("apps/v1", "controllerrevisions", "ControllerRevision"),
    _row("apps/v1", "daemonsets", "DaemonSet", "ds", categories=_ALL, subresources=_STATUS, generation=True),
    _row(
        "apps/v1",
        "deployments",
        "Deployment",
        "deploy",
        categories=_ALL,
        subresources={**_SCALE, **_STATUS},
        generation=True,
    ),
    _row(
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        "rs",
        categories=_ALL,
        subresources={**_SCALE, **_STATUS},
        generation=True,
    ),
    _row(
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        "sts",
        categories=_ALL,
        subresources={**_SCALE, **_STATUS},
        generation=True,
    ),
    _row(
        "events.k8s.io/v1",
        "events",
        "Event",
        "ev",
        view_of=Resource("", "v1", "events", "Event"),
        create_on_update=True,
    ),
    _review("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview"),
    _review("authentication.k8s.io/v1", "tokenreviews", "TokenReview"),
    _review("authentication.k8s.io/v1beta1", "selfsubjectreviews", "SelfSubjectReview"),
    _review(
        "authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", cluster=False
    ),
    _review("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview"),
    _row(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        categories=_ALL,
        subresources=_STATUS,
    ),
    _row(
        "autoscaling/v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        categories=_ALL,
        subresources=_STATUS,
        view_of=Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ),
    _row("batch/v1", "cronjobs", "CronJob", "cj", categories=_ALL, subresources=_STATUS, generation=True),
    _row("batch/v1", "jobs", "Job", categories=_ALL, subresources=_STATUS, generation=True),
    _row(
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "csr",
        cluster=True,
        subresources={"approval": SubresourceInfo(("get", "patch", "update")), **_STATUS},
    ),
)

_CLUSTER = (
    _row("networking.k8s.io/v1", "ingressclasses", "IngressClass", cluster=True, generation=True),
    _row("networking.k8s.io/v1", "ingresses", "Ingress", "ing", subresources=_STATUS, generation=True),
    _row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", generation=True),
    _row(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        subresources=_STATUS,
        unconditional_update=False,
        generation=True,
    ),
    _row(
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        cluster=True,
        create_on_update=True,
    ),
    _row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", cluster=True, create_on_update=True),
    _row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", create_on_update=True),
    _row("rbac.authorization.k8s.io/v1", "roles", "Role", create_on_update=True),
    _row("storage.k8s.io/v1", "csidrivers", "CSIDriver", cluster=True, unconditional_update=False),
    _row("storage.k8s.io/v1", "csinodes", "CSINode", cluster=True, unconditional_update=False),
    _row("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", cluster=True),
    _row(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        cluster=True,
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    _row(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        cluster=True,
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    _row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd crds",
        cluster=True,
        categories=("api-extensions",),
        subresources=_STATUS,
        unconditional_update=False,
        generation=True,
    ),
    _row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", cluster=True, generation=True),
    _row("coordination.k8s.io/v1", "leases", "Lease", create_on_update=True, unconditional_update=False),
    _row(
        "node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        cluster=True,
        create_on_update=True,
        unconditional_update=False,
    ),
    _row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", generation=True),
    _row("metrics.k8s.io/v1beta1", "nodes", "NodeMetrics", cluster=True, verbs=_READ, stored=False),
    _row("metrics.k8s.io/v1beta1", "pods", "PodMetrics", verbs=_READ, stored=False),
)

BUILTINS: tuple[ResourceInfo, ...] = (*_CORE, *_WORKLOADS, *_CLUSTER)
