"""A cluster's manifests, relaxed until they run in another place: what cannot be had there is left out or scaled down.

Pure. The objects that are given stay as they are; what changed is for the caller to show.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.predicates import allocatable, unmet
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.objects import Object, copy_tree, name_of, namespace_of, section, spec_of
from trainshed.kube.wire.yamltext import documents
from trainshed.sdk.errors import UserError
from trainshed.sdk.foresight.references import references
from trainshed.sdk.foresight.templates import PodTemplate, templates
from trainshed.sdk.foresight.world import World

CLAIM_SIZE = "10Gi"
"""What a claim that has to be made asks for; the local cluster does not enforce it."""

_SHARE = Decimal("0.9")
"""How much of the nodes all replicas of a job may ask for together: others run there, too."""
_MEBI = Decimal(2**20)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What else shall be changed. `workers` is the number of workers, None for as many as there are.

    `cpu` leaves out devices also where there are some.
    """

    workers: int | None = None
    cpu: bool = False


def adapt(objects: Sequence[Object], world: World, wishes: Wishes) -> list[Object]:
    """Return copies of the objects that the world can run, after what has to be made for them.

    Raises:
        UserError: workers are wished for, and no job has any.
    """
    adapted: list[Object] = [copy_tree(obj) for obj in objects]
    if wishes.workers is not None:
        set_workers(adapted, wishes.workers)
    made = _made(adapted, world)
    whole = world.with_objects([*made, *adapted])
    for obj in adapted:
        found = templates(obj)
        for template in found:
            _relax(template, whole, wishes)
        _scale(found, whole)
        if obj.get("kind") == "PersistentVolumeClaim":
            _relax_claim(obj, whole)
    return [*made, *adapted]


def set_workers(objects: Sequence[Object], count: int) -> None:
    """Set the number of workers of every job in place; an elastic job's bounds give way. Raises UserError."""
    found = [t for obj in objects for t in templates(obj) if t.replica.lower() == "worker"]
    if not found:
        raise UserError("no job has workers, so their number cannot be set")
    for template in found:
        for specs in spec_of(template.owner).values():
            if isinstance(specs, dict) and section(specs, template.replica).get("template") is template.pod:
                specs[template.replica]["replicas"] = count
        elastic = section(template.owner, "spec", "elasticPolicy")
        for field, bound in (("minReplicas", min), ("maxReplicas", max)):
            if isinstance(elastic.get(field), int):
                elastic[field] = bound(elastic[field], count)


def _made(objects: Sequence[Object], world: World) -> list[Object]:
    """Return the namespaces and claims that are missing."""
    whole = world.with_objects(objects)
    made: dict[tuple[str, str, str], Object] = {}
    for obj in objects:
        namespace = namespace_of(obj)
        if namespace and whole.is_missing("Namespace", "", namespace):
            made.setdefault(whole.key("Namespace", "", namespace), _namespace(namespace))
    for obj in objects:
        for template in templates(obj):
            for _, kind, name, _ in references(template):
                if kind == "PersistentVolumeClaim" and whole.is_missing(kind, template.namespace, name):
                    made.setdefault(whole.key(kind, template.namespace, name), _claim(template, name))
    return list(made.values())


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _claim(template: PodTemplate, name: str) -> Object:
    namespace = {"namespace": template.namespace} if template.namespace else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": CLAIM_SIZE}},
        },
    }


def _relax_claim(claim: Object, world: World) -> None:
    """Leave out a class that is not there, in place: the default one then provisions."""
    spec = spec_of(claim)
    name = spec.get("storageClassName")
    if isinstance(name, str) and name and world.is_missing("StorageClass", "", name):
        del spec["storageClassName"]


def _relax(template: PodTemplate, world: World, wishes: Wishes) -> None:
    """Leave out, in place, what keeps the pods from every node."""
    spec = template.spec
    if world.schedulers is not None and spec.get("schedulerName", "") not in ("", *world.schedulers):
        del spec["schedulerName"]
    spec.pop("imagePullSecrets", None)
    for field, kind in (("serviceAccountName", "ServiceAccount"), ("priorityClassName", "PriorityClass")):
        if isinstance(spec.get(field), str) and world.is_missing(kind, template.namespace, spec[field]):
            del spec[field]
    if spec.get("hostNetwork") is True and template.count > 1:
        del spec["hostNetwork"]
    _leave_out_devices(template, world, wishes)
    if world.nodes is None:
        return
    if spec.get("runtimeClassName"):
        del spec["runtimeClassName"]
    if not any(node.get("spec", {}).get("taints") for node in world.nodes):
        spec.pop("tolerations", None)
    probe = {"metadata": {}, "spec": {k: spec[k] for k in ("nodeSelector", "affinity") if k in spec}}
    if all(unmet(probe, node, {}) for node in world.nodes):
        spec.pop("nodeSelector", None)
        spec.pop("affinity", None)


def _leave_out_devices(template: PodTemplate, world: World, wishes: Wishes) -> None:
    offered = {name for node in world.nodes or () for name, value in allocatable(node).items() if value}
    for _, container in template.containers():
        resources = section(container, "resources")
        for field in ("requests", "limits"):
            amounts = section(resources, field)
            for name in list(amounts):
                is_device = "/" in name or name.startswith("hugepages-")
                if is_device and (wishes.cpu or (world.nodes is not None and name not in offered)):
                    del amounts[name]
            if field in resources and not amounts:
                del resources[field]
        if "resources" in container and not resources:
            del container["resources"]


def _scale(found: Sequence[PodTemplate], world: World) -> None:
    """Scale requests down, in place, until every pod fits a node and all of a job fit together."""
    if not world.nodes or not found:
        return
    needs = [(template, pod_requests(template.pod)) for template in found]
    offers = [allocatable(node) for node in world.nodes]
    for name in ("cpu", "memory", "ephemeral-storage"):
        largest = max(offer.get(name, Decimal(0)) for offer in offers)
        total = sum((offer.get(name, Decimal(0)) for offer in offers), Decimal(0)) * _SHARE
        asked = sum((t.count * need.get(name, Decimal(0)) for t, need in needs), Decimal(0))
        together = min(Decimal(1), total / asked) if asked else Decimal(1)
        for template, need in needs:
            mine = need.get(name, Decimal(0))
            alone = min(Decimal(1), largest * _SHARE / mine) if mine else Decimal(1)
            factor = min(together, alone)
            if factor < 1:
                _scale_pod(template, name, factor)


def _scale_pod(template: PodTemplate, name: str, factor: Decimal) -> None:
    for _, container in template.containers():
        asked = pod_requests({"spec": {"containers": [container]}}).get(name)
        if asked:
            requests = container.setdefault("resources", {}).setdefault("requests", {})
            requests[name] = _rounded(name, asked * factor)


def _rounded(name: str, value: Decimal) -> str:
    """Return an amount rounded down to whole millicores or mebibytes, and not to nothing."""
    if name == "cpu":
        return f"{max(int(value * 1000), 1)}m"
    return f"{max(int(value / _MEBI), 1)}Mi"


def diff(before: Sequence[Object], after: Sequence[Object]) -> list[str]:
    """Return what differs between the objects as the lines of a unified diff, an object after the other."""
    old = {(str(obj["kind"]), namespace_of(obj), name_of(obj)): obj for obj in before}
    lines: list[str] = []
    for obj in after:
        key = (str(obj["kind"]), namespace_of(obj), name_of(obj))
        name = f"{key[0]} {key[2]}"
        was = documents([old[key]]).splitlines() if key in old else []
        lines += difflib.unified_diff(
            was, documents([obj]).splitlines(), name if was else "(nothing)", name, lineterm="", n=1
        )
    return lines
