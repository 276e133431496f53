"""The objects that install the operator. One definition for the YAML manifests and the embedded cluster.

Names, labels, ports and probes are those of the training operator v1, so that an installation can be
replaced in place. The permissions are fewer: exactly what this operator asks for, by file:

    execution.py, reconciler.py, manager.py   jobs, and what their kinds declare to own
    client/events.py                          events
    client/leader.py                          leases, in the operator's own namespace
    customruns.py                             CustomRuns of distributed steps, and the jobs made for them
    certificates.py                           one Secret and one webhook configuration, with the webhook only
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainshed import __version__
from trainshed.api.registry import KINDS
from trainshed.jobs.engine.model import DEFAULTS, OperatorOptions
from trainshed.jobs.registry import all_grants, all_verbs
from trainshed.kube.meta.objects import Object
from trainshed.operator.flags import CERTIFICATE_SECRET, DEFAULT_LEASE
from trainshed.tekton.resources import CUSTOMRUNS

NAME = "training-operator"
NAMESPACE = "kubeflow"
IMAGE = f"trainshed/training-operator:{__version__}"
LABELS = {"control-plane": "kubeflow-training-operator"}
COMMAND = ("python", "-m", "trainshed.operator")
WEBHOOK_CONFIGURATION = "validator.training-operator.kubeflow.org"
_RBAC = "rbac.authorization.k8s.io"


def namespace() -> Object:
    """Return the Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def service_account() -> Object:
    """Return the identity of the operator."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(NAME)}


def cluster_role(options: OperatorOptions = DEFAULTS) -> Object:
    """Return what an operator with these options may do in every namespace."""
    rules = [_rule("", ["events"], ["create", "get", "list", "patch"])]
    rules += [_rule(owned.group, [owned.plural], [*verbs]) for owned, verbs in all_verbs(options).items()]
    rules += [_rule(grant.group, [grant.resource], [*grant.verbs]) for grant in all_grants()]
    for group, plurals in _plurals().items():
        rules += [
            _rule(group, plurals, ["create", "delete", "get", "list", "watch"]),
            # Children block the deletion of their job in the foreground; clusters may ask for this right then.
            _rule(group, [f"{plural}/finalizers" for plural in plurals], ["update"]),
            _rule(group, [f"{plural}/status" for plural in plurals], ["get", "patch", "update"]),
        ]
    runs = CUSTOMRUNS.plural
    rules += [
        _rule(CUSTOMRUNS.group, [runs], ["get", "list", "watch"]),
        _rule(CUSTOMRUNS.group, [f"{runs}/finalizers"], ["update"]),
        _rule(CUSTOMRUNS.group, [f"{runs}/status"], ["get", "patch", "update"]),
    ]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": LABELS},
        "rules": rules,
    }


def cluster_role_binding() -> Object:
    """Return the grant of the ClusterRole."""
    return _cluster_role_binding(NAME)


def gang_roles(options: OperatorOptions, name: str) -> list[Object]:
    """Return what gang scheduling needs beside the ClusterRole, as ClusterRole `name`, and its grant."""
    without = all_verbs(DEFAULTS)
    more = {owned: verbs for owned, verbs in all_verbs(options).items() if without.get(owned) != verbs}
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": LABELS},
        "rules": [_rule(owned.group, [owned.plural], [*verbs]) for owned, verbs in more.items()],
    }
    return [role, _cluster_role_binding(name)]


def election_role() -> Object:
    """Return what `--leader-elect` needs, in the operator's namespace."""
    lease = _rule("coordination.k8s.io", ["leases"], ["get", "update"])
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(f"{NAME}-leader-election"),
        "rules": [
            {**lease, "resourceNames": [DEFAULT_LEASE]},
            _rule("coordination.k8s.io", ["leases"], ["create"]),
        ],
    }


def election_role_binding() -> Object:
    """Return the grant of the Role."""
    return _role_binding(f"{NAME}-leader-election")


def service() -> Object:
    """Return the Service of metrics and webhook."""
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "8080",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"app": NAME},
            "annotations": annotations,
        },
        "spec": {
            "type": "ClusterIP",
            "selector": LABELS,
            "ports": [
                {"name": "monitoring-port", "port": 8080, "targetPort": 8080},
                {"name": "webhook-server", "port": 443, "targetPort": 9443, "protocol": "TCP"},
            ],
        },
    }


def deployment(*, image: str = IMAGE, command: Sequence[str] = COMMAND, args: Sequence[str] = ()) -> Object:
    """Return the Deployment of one replica."""

    def probe(path: str, delay: int, period: int) -> Object:
        return {
            "httpGet": {"path": path, "port": 8081},
            "initialDelaySeconds": delay,
            "periodSeconds": period,
            "timeoutSeconds": 3,
        }

    def field(name: str, path: str) -> Object:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    container: dict[str, Any] = {
        "name": NAME,
        "image": image,
        "command": list(command),
        "args": list(args),
        "env": [field("MY_POD_NAMESPACE", "metadata.namespace"), field("MY_POD_NAME", "metadata.name")],
        "ports": [
            {"containerPort": 8080, "name": "metrics"},
            {"containerPort": 8081, "name": "health"},
            {"containerPort": 9443, "name": "webhook-server"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "livenessProbe": probe("/healthz", 15, 20),
        "readinessProbe": probe("/readyz", 10, 15),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(NAME),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS, "annotations": {"sidecar.istio.io/inject": "false"}},
                "spec": {
                    "serviceAccountName": NAME,
                    "terminationGracePeriodSeconds": 10,
                    "containers": [container],
                },
            },
        },
    }


def crds() -> Iterator[Object]:
    """Yield the CustomResourceDefinition of every kind; each is several MiB in memory."""
    from trainshed.api.crd import crd  # who installs them has them written out

    return (crd(kind) for kind in KINDS.values())


def webhook_configuration() -> Object:
    """Return the validating webhooks; the operator itself fills in the caBundle."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK_CONFIGURATION, "labels": LABELS},
        "webhooks": [
            {
                "name": kind.webhook_name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"name": NAME, "namespace": NAMESPACE, "path": kind.webhook_path}
                },
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "apiGroups": [kind.group],
                        "apiVersions": [kind.version],
                        "operations": ["CREATE", "UPDATE", *(["DELETE"] if kind.deletion_warnings else [])],
                        "resources": [kind.plural],
                    }
                ],
                "sideEffects": "None",
            }
            for kind in KINDS.values()
        ],
    }


def certificate_secret() -> Object:
    """Return the empty Secret in which the operator keeps the webhook's certificate."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(CERTIFICATE_SECRET), "type": "Opaque"}


def webhook_roles() -> list[Object]:
    """Return what `--enable-webhook` needs, and its grants."""
    name = f"{NAME}-webhook"
    secret = {**_rule("", ["secrets"], ["get", "update"]), "resourceNames": [CERTIFICATE_SECRET]}
    configuration = {
        **_rule("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], ["get", "update"]),
        "resourceNames": [WEBHOOK_CONFIGURATION],
    }
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _metadata(name), "rules": [secret]},
        _role_binding(name),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": LABELS},
            "rules": [configuration],
        },
        _cluster_role_binding(name),
    ]


def aggregated_roles() -> list[Object]:
    """Return the roles that a Kubeflow installation adds to its own admin, edit and view roles."""
    read = ["get", "list", "watch"]
    write = ["create", "delete", "get", "list", "patch", "update", "watch"]
    prefix = f"{_RBAC.replace('k8s.io', 'kubeflow.org')}/aggregate-to-kubeflow"

    def role(name: str, targets: Sequence[str], rules: list[Object]) -> Object:
        labels = {f"{prefix}-{target}": "true" for target in targets}
        metadata = {"name": f"kubeflow-training-{name}", "labels": labels}
        return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}

    admin = role("admin", ["admin"], [])
    admin["aggregationRule"] = {
        "clusterRoleSelectors": [{"matchLabels": {f"{prefix}-training-admin": "true"}}]
    }
    edit, view = [], []
    for group, plurals in _plurals().items():
        status = _rule(group, [f"{plural}/status" for plural in plurals], ["get"])
        edit += [_rule(group, plurals, write), status]
        view += [_rule(group, plurals, read), status]
    edit += [
        _rule("", ["persistentvolumeclaims"], ["create", "delete", *read]),
        _rule("", ["events"], read),
    ]
    return [admin, role("edit", ["edit", "training-admin"], edit), role("view", ["view"], view)]


def _plurals() -> dict[str, list[str]]:
    """Return the names of our resources by group."""
    out: dict[str, list[str]] = {}
    for kind in KINDS.values():
        out.setdefault(kind.group, []).append(kind.plural)
    return out


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _metadata(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE, "labels": LABELS}


def _subject() -> Object:
    return {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}


def _cluster_role_binding(name: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [_subject()],
    }


def _role_binding(name: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [_subject()],
    }
