"""Which fields of a pod that exists may still change.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.ephemeral import ephemeral_change_causes
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object

_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def change_causes(spec: Object, old: Object, subresource: str) -> Iterator[Cause]:
    """Yield what an update of a pod's spec may not do."""
    if len(spec.get("containers") or ()) != len(old.get("containers") or ()):
        yield causes.forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    yield from _deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _tolerations(spec.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gates(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if subresource == "ephemeralcontainers":
        yield from ephemeral_change_causes(spec, old)
    gated = bool(old.get("schedulingGates"))
    if _fixed(spec, subresource, gated) != _fixed(old, subresource, gated):
        before, after = old.get("terminationGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")
        if not (before is not None and before < 0 and after == 1):
            yield causes.forbidden("spec", _UPDATE_TEXT)


def _fixed(spec: Object, subresource: str, gated: bool) -> Object:
    """Return the part of a pod spec that an update may not touch."""
    ignored = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    inside = {"image"}
    if subresource == "ephemeralcontainers":
        ignored.add("ephemeralContainers")
    if gated:  # KEP-3838: where a gated pod may run can still be narrowed
        ignored |= {"nodeSelector", "affinity"}
    out = {key: value for key, value in spec.items() if key not in ignored and value not in ([], {}, None)}
    for field in ("containers", "initContainers"):
        if field in out:
            out[field] = [{k: v for k, v in item.items() if k not in inside} for item in out[field]]
    return out


def _deadline(new: int | None, old: int | None) -> Iterator[Cause]:
    path = "spec.activeDeadlineSeconds"
    if old is None:
        return
    if new is None:
        yield causes.invalid(path, new, "must not update from a positive integer to nil value")
    elif new > old:
        yield causes.invalid(path, new, "must be less than or equal to previous value")


def _tolerations(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    def identity(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [identity(toleration) for toleration in new]
    for toleration in old:
        if identity(toleration) not in kept:
            text = "existing toleration can not be modified except its tolerationSeconds"
            yield causes.forbidden("spec.tolerations", text)
            return


def _gates(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    before = [gate.get("name") for gate in old]
    for index, gate in enumerate(new):
        if gate.get("name") not in before:
            text = "only deletion is allowed, but found new scheduling gate '" + gate.get("name", "") + "'"
            yield causes.forbidden(f"spec.schedulingGates[{index}].name", text)
