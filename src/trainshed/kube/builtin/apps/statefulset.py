"""StatefulSets: replicas with claims of their own; little of the spec may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, SCALE, STATUS, Builtin, row
from trainshed.kube.builtin.parts.claims import claim_defaults
from trainshed.kube.builtin.parts.columns import Columns, age, containers, define, template_spec
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.pod.warnings import claim_spec_warnings
from trainshed.kube.builtin.parts.workload import (
    ready_of_desired,
    replicated_causes,
    template_defaults,
    template_warnings,
)
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.causes import non_negative
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.meta.resources import STATEFULSETS

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _defaults(obj: Object) -> None:
    """Fill in a StatefulSet and its claim templates."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    setdefault(spec, "podManagementPolicy", "OrderedReady")
    strategy = setdefault(spec, "updateStrategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        setdefault(strategy, "rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = setdefault(spec, "persistentVolumeClaimRetentionPolicy", {})
    setdefault(retention, "whenDeleted", "Retain")
    setdefault(retention, "whenScaled", "Retain")
    template_defaults(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim_defaults(claim)
    status = obj.setdefault("status", {})
    status.setdefault("replicas", 0)
    status.setdefault("availableReplicas", 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a StatefulSet."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    # Kubernetes says nothing of containers and claims until there is a pod of them.
    yield from replicated_causes(spec, "statefulset", judged=False)
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from non_negative(section(spec, "ordinals"), "spec.ordinals", "start")
    policy, strategy = spec.get("podManagementPolicy"), section(spec, "updateStrategy")
    if policy not in ("OrderedReady", "Parallel"):
        yield causes.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    if strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        shown = (
            f"apps.StatefulSetUpdateStrategy{{Type:{golang.text(strategy.get('type'))},"
            " RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)"
            f"({'nil' if strategy.get('rollingUpdate') is None else '0xc000000000'})}}"
        )
        yield causes.invalid_shown("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    retention = section(spec, "persistentVolumeClaimRetentionPolicy")
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in ("Retain", "Delete"):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield causes.unsupported(at, retention.get(field) or "", ("Retain", "Delete"))
    if old is None and spec.get("serviceName"):
        for why in names.dns_label(spec["serviceName"]):
            yield causes.invalid("spec.serviceName", spec["serviceName"], why)
    if old is not None:
        before = spec_of(old)
        changed = [k for k in {*spec, *before} - set(_MUTABLE) if spec.get(k) != before.get(k)]
        if changed:
            listed = ", ".join(f"'{field}'" for field in _MUTABLE[:-1])
            yield causes.forbidden(
                "spec",
                f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden",
            )


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), ready_of_desired(obj), age(obj, now), *containers(template_spec(obj))]


_of_template = template_warnings("spec", "template")


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    yield from _of_template(obj, old)
    for index, claim in enumerate(objects(spec_of(obj), "volumeClaimTemplates")):
        at = f"spec.volumeClaimTemplates[{index}]" + ("" if old is None else ".Spec")
        yield from claim_spec_warnings(spec_of(claim), at)
    if spec_of(obj).get("revisionHistoryLimit", 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


KIND = Builtin(
    info=row(
        STATEFULSETS,
        "sts",
        categories=ALL,
        subresources={**SCALE, **STATUS},
        generation=True,
    ),
    does="keeps pods with names and claims of their own, in order",
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Ready, Age, Containers*, Images*"), _row),
    viewed=("", "scale", "status"),
    edited=("", "scale"),
)
