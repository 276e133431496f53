"""PodSecurity: pods of a namespace keep to the standard that its labels name.

`enforce` refuses pods; `warn` tells whoever writes a pod or what makes pods, `audit` the audit log.
"""

from __future__ import annotations

from functools import partial

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import forbidden, invalid
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.meta.resources import NAMESPACES, PODS
from trainshed.kube.policy import security

_VIOLATIONS = "pod-security.kubernetes.io/audit-violations"


def check(core: Core, call: Call, new: Object, old: Object | None, subresource: str) -> None:
    """Raise `ApiError` 403 for a pod, and warn of a pod or a template, that violates a standard."""
    resource = call.kind.resource
    if resource == NAMESPACES:
        if not subresource:
            _check_namespace(core, call, new, old)
        return
    if resource == PODS:
        if old is None or subresource == "ephemeralcontainers" or (not subresource and _changed(new, old)):
            _check_pod(core, call, new)
        return
    if subresource:
        return
    template = security.template_of(resource.group, resource.plural, new)
    if template is not None and (
        old is None or template != security.template_of(resource.group, resource.plural, old)
    ):
        _warn(call, _namespace(core, call), template)


def _namespace(core: Core, call: Call) -> Object:
    stored = core.store.get(keys.of(NAMESPACES, None, call.route.namespace or ""))
    return stored.obj if stored is not None else {}


def _changed(new: Object, old: Object) -> bool:
    """Return whether an update changes more than images and tolerations, which no rule looks at."""

    def regarded(pod: Object) -> object:
        spec = {key: value for key, value in spec_of(pod).items() if key != "tolerations"}
        return section(pod, "metadata", "annotations"), spec

    return regarded(new) != regarded(old)


def _check_pod(core: Core, call: Call, pod: Object) -> None:
    namespace = _namespace(core, call)
    wanted = security.standard(namespace, "enforce")
    call.request.annotate("pod-security.kubernetes.io/enforce-policy", str(wanted))
    found = security.violations(wanted, metadata_of(pod), spec_of(pod))
    if found:
        why = f'violates PodSecurity "{wanted}": {security.described(found)}'
        raise forbidden("pods", "", pod["metadata"].get("name", ""), why)
    _warn(call, namespace, pod)


def _warn(call: Call, namespace: Object, pod: Object) -> None:
    for mode, tell in (("warn", call.request.warn), ("audit", partial(call.request.annotate, _VIOLATIONS))):
        wanted = security.standard(namespace, mode)
        if mode == "audit" and call.request.trail is None:
            continue
        found = security.violations(wanted, metadata_of(pod), spec_of(pod))
        if found:
            tell(f'would violate PodSecurity "{wanted}": {security.described(found)}')


def _check_namespace(core: Core, call: Call, new: Object, old: Object | None) -> None:
    found = list(security.label_causes(new))
    if found and (old is None or found != list(security.label_causes(old))):
        raise invalid("Namespace", "", new["metadata"]["name"], found)
    wanted = security.standard(new, "enforce")
    if old is None or wanted.level == "privileged" or wanted == security.standard(old, "enforce"):
        return
    name = new["metadata"]["name"]
    pods = [
        stored.obj
        for stored in core.store.list(keys.under(PODS, name))[0]
        if status_of(stored.obj).get("phase") not in ("Succeeded", "Failed")
    ]
    for text in security.existing_violations(wanted, name, pods):
        call.request.warn(text)
