"""The built-in kinds, in the order in which discovery lists groups and kinds, and what a server asks about them.

The order is part of the interface: the first match of a short name wins. Kinds whose behaviour this server does not
have are stored like any other, so that manifests which carry them apply.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainshed.kube.builtin.admissionregistration import (
    mutatingwebhookconfiguration,
    validatingadmissionpolicy,
    validatingadmissionpolicybinding,
    validatingwebhookconfiguration,
)
from trainshed.kube.builtin.apiextensions import customresourcedefinition
from trainshed.kube.builtin.apiregistration import apiservice
from trainshed.kube.builtin.apps import controllerrevision, daemonset, deployment, replicaset, statefulset
from trainshed.kube.builtin.authentication import selfsubjectreview, tokenreview
from trainshed.kube.builtin.authorization import (
    localsubjectaccessreview,
    selfsubjectaccessreview,
    selfsubjectrulesreview,
    subjectaccessreview,
)
from trainshed.kube.builtin.autoscaling import horizontalpodautoscaler, horizontalpodautoscaler_v1
from trainshed.kube.builtin.batch import cronjob, job
from trainshed.kube.builtin.certificates import certificatesigningrequest
from trainshed.kube.builtin.coordination import lease
from trainshed.kube.builtin.core import (
    binding,
    componentstatus,
    configmap,
    endpoints,
    event,
    limitrange,
    namespace,
    node,
    persistentvolume,
    persistentvolumeclaim,
    pod,
    podtemplate,
    replicationcontroller,
    resourcequota,
    secret,
    service,
    serviceaccount,
)
from trainshed.kube.builtin.discovery import endpointslice
from trainshed.kube.builtin.events import event as event_view
from trainshed.kube.builtin.flowcontrol import flowschema, prioritylevelconfiguration
from trainshed.kube.builtin.kind import Builtin
from trainshed.kube.builtin.metrics import nodemetrics, podmetrics
from trainshed.kube.builtin.networking import ingress, ingressclass, ipaddress, networkpolicy, servicecidr
from trainshed.kube.builtin.node import runtimeclass
from trainshed.kube.builtin.policy import poddisruptionbudget
from trainshed.kube.builtin.rbac import clusterrole, clusterrolebinding, role, rolebinding
from trainshed.kube.builtin.scheduling import priorityclass
from trainshed.kube.builtin.storage import (
    csidriver,
    csinode,
    csistoragecapacity,
    storageclass,
    volumeattachment,
)
from trainshed.kube.meta import causes, fieldselectors
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import Getter
from trainshed.kube.meta.objects import Object, copy_tree, status_of
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.metadata import validate_metadata

BUILTINS: tuple[Builtin, ...] = (
    binding.KIND,
    componentstatus.KIND,
    configmap.KIND,
    endpoints.KIND,
    event.KIND,
    limitrange.KIND,
    namespace.KIND,
    node.KIND,
    persistentvolumeclaim.KIND,
    persistentvolume.KIND,
    pod.KIND,
    podtemplate.KIND,
    replicationcontroller.KIND,
    resourcequota.KIND,
    secret.KIND,
    serviceaccount.KIND,
    service.KIND,
    apiservice.KIND,
    controllerrevision.KIND,
    daemonset.KIND,
    deployment.KIND,
    replicaset.KIND,
    statefulset.KIND,
    event_view.KIND,
    selfsubjectreview.KIND,
    tokenreview.KIND,
    selfsubjectreview.KIND_V1BETA1,
    localsubjectaccessreview.KIND,
    selfsubjectaccessreview.KIND,
    selfsubjectrulesreview.KIND,
    subjectaccessreview.KIND,
    horizontalpodautoscaler.KIND,
    horizontalpodautoscaler_v1.KIND,
    cronjob.KIND,
    job.KIND,
    certificatesigningrequest.KIND,
    ingressclass.KIND,
    ingress.KIND,
    ipaddress.KIND,
    networkpolicy.KIND,
    servicecidr.KIND,
    poddisruptionbudget.KIND,
    clusterrolebinding.KIND,
    clusterrole.KIND,
    rolebinding.KIND,
    role.KIND,
    csidriver.KIND,
    csinode.KIND,
    csistoragecapacity.KIND,
    storageclass.KIND,
    volumeattachment.KIND,
    mutatingwebhookconfiguration.KIND,
    validatingadmissionpolicy.KIND,
    validatingadmissionpolicybinding.KIND,
    validatingwebhookconfiguration.KIND,
    customresourcedefinition.KIND,
    priorityclass.KIND,
    lease.KIND,
    runtimeclass.KIND,
    endpointslice.KIND,
    flowschema.KIND,
    prioritylevelconfiguration.KIND,
    nodemetrics.KIND,
    podmetrics.KIND,
)
RESOURCES: tuple[ResourceInfo, ...] = tuple(kind.info for kind in BUILTINS)
_BY_PATH = {
    (info.resource.group, info.resource.version, info.resource.plural): kind
    for kind, info in zip(BUILTINS, RESOURCES, strict=True)
}


def find(resource: Resource) -> Builtin | None:
    """Return the built-in kind of a resource, None for a custom one."""
    return _BY_PATH.get((resource.group, resource.version, resource.plural))


def default_object(resource: Resource, obj: Object) -> Object:
    """Return `obj` with the defaults of its kind; the input is not changed. Custom kinds are returned as they are.

    Only defaults that follow from the object itself. What depends on others (default storage class, addresses,
    priorities) is filled in by the admission of the API server.
    """
    kind = find(resource)
    if kind is None or kind.defaults is None:
        return obj
    out = {key: copy_tree(value) if key != "metadata" else value for key, value in obj.items()}
    if isinstance(metadata := obj.get("metadata"), dict):
        # Who owns which field is most of many an object, and nothing is filled in there.
        out["metadata"] = {k: copy_tree(v) if k != "managedFields" else v for k, v in metadata.items()}
    kind.defaults(out)
    return out


def validate_object(
    resource: Resource, obj: Object, old: Object | None, *, subresource: str = ""
) -> list[Cause]:
    """Return all causes to refuse a built-in object, which has its defaults; empty when it is valid.

    Args:
        old: the object before an update, None on create.
        subresource: through which path the write comes: `status`, `ephemeralcontainers`, `resize` or empty.
    """
    kind = find(resource)
    if kind is None:
        return validate_metadata(resource, obj, old)
    out = validate_metadata(resource, obj, old, kind.name_rule)
    if kind.check is not None:
        out += kind.check(obj, old, subresource)
    for index, condition in enumerate(status_of(obj).get("conditions") or ()):
        if not condition.get("type"):  # what every reader of conditions looks for first
            out.append(causes.required(f"status.conditions[{index}].type"))
    return out


def selectable_fields(info: ResourceInfo) -> Mapping[str, Getter]:
    """Return the fields that a field selector may name, of a built-in or a custom kind."""
    kind = find(info.resource)
    extra = fieldselectors.custom(info.selectable) if kind is None else kind.fields
    known = {**fieldselectors.METADATA, **extra}
    if extra and kind is not None and not info.resource.namespaced:
        # Upstream lists by hand what kinds with fields of their own are selected by.
        del known["metadata.namespace"]
    return known
