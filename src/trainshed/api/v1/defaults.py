"""What a job means where it says nothing. Applied in memory only: the stored document stays as written.

Every function that is public here returns a new document or changes only one that its caller owns. Facts: the
defaulting rules of the Kubeflow training operator v1, in its order: clean-pod policy, spelling of replica types,
replicas, then what one kind adds.
"""

from __future__ import annotations

from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object, copy_tree, objects, section
from trainshed.kube.meta.pods import container_named, port_named


def default_job(obj: Object, kind: JobKind) -> Object:
    """Return a copy of the job with the defaults that all kinds share."""
    out: Object = copy_tree(obj)
    spec = _ensure(out, "spec")
    policy = _ensure(spec, "runPolicy")
    if policy.get("cleanPodPolicy") is None:
        policy["cleanPodPolicy"] = "None"
    _default_replicas(spec, kind)
    return out


def default_elastic_bounds(out: Object, kind: JobKind, type_: str) -> None:
    """Fill in the bounds of an elastic policy of a defaulted job: each from the other, both from the type's count."""
    elastic = out["spec"].get("elasticPolicy")
    replica = section(out, "spec", kind.replica_specs_field).get(type_)
    if not isinstance(elastic, dict) or not isinstance(replica, dict):
        return
    least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
    elastic["minReplicas"] = _first_set(least, most, replica["replicas"])
    elastic["maxReplicas"] = _first_set(most, least, replica["replicas"])


def _default_replicas(spec: Object, kind: JobKind) -> None:
    replicas = section(spec, kind.replica_specs_field)
    for type_ in kind.replica_types:
        if type_.any_case:
            _normalise_type_name(replicas, type_.name)
    for name, replica in replicas.items():
        if not isinstance(replica, dict):
            continue
        if replica.get("replicas") is None:
            replica["replicas"] = kind.replica_type(name).default_replicas
        if not replica.get("restartPolicy"):
            replica["restartPolicy"] = kind.default_restart_policy
        _default_port(section(replica, "template", "spec"), kind)


def _normalise_type_name(replicas: Object, canonical: str) -> None:
    """Move `worker`, `WORKER`, ... to `Worker`; the first spelling in sorted order wins over the others."""
    spellings = sorted(key for key in replicas if key.lower() == canonical.lower() and key != canonical)
    for key in reversed(spellings):
        replicas[canonical] = replicas.pop(key)


def _default_port(pod_spec: Object, kind: JobKind) -> None:
    """Give the kind's container its port; where no container has that name, the first one gets it."""
    if kind.port is None:
        return
    containers = objects(pod_spec, "containers")
    target = container_named(pod_spec, kind.container_name) or (containers[0] if containers else None)
    if target is not None and port_named(target, kind.port.name) is None:
        port = {"name": kind.port.name, "containerPort": kind.port.number}
        target["ports"] = [*objects(target, "ports"), port]


def _ensure(parent: Object, field: str) -> Object:
    """Return the object at `parent[field]`, putting an empty one there when it is absent or null."""
    if not isinstance(parent.get(field), dict):
        parent[field] = {}
    child: Object = parent[field]
    return child


def _first_set(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
