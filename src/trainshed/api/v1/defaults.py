"""What a job means where it says nothing. Applied in memory only: the stored document stays as written.

Every function returns a new document and is idempotent. Facts: the defaulting rules of the Kubeflow training
operator v1, in its order: clean-pod policy, spelling of replica types, replicas, then what one kind adds.
"""

from __future__ import annotations

import copy

from trainshed.api.kinds import PYTORCHJOB, Kind
from trainshed.kube.meta.objects import Object, container_named, objects, port_named, section


def default_pytorchjob(obj: Object) -> Object:
    """Return a copy of the PyTorchJob with every default filled in."""
    out = copy.deepcopy(obj)
    spec = _ensure(out, "spec")
    _default_run_policy(spec)
    _default_replicas(spec, PYTORCHJOB)
    _default_elastic_policy(spec)
    _default_nproc_per_node(spec)
    return out


def _default_run_policy(spec: Object) -> None:
    policy = _ensure(spec, "runPolicy")
    if policy.get("cleanPodPolicy") is None:
        policy["cleanPodPolicy"] = "None"


def _default_replicas(spec: Object, kind: Kind) -> None:
    replicas = section(spec, kind.replica_specs_field)
    for canonical in kind.replica_types:
        _normalise_type_name(replicas, canonical)
    for replica in replicas.values():
        if not isinstance(replica, dict):
            continue
        if replica.get("replicas") is None:
            replica["replicas"] = 1
        if not replica.get("restartPolicy"):
            replica["restartPolicy"] = kind.default_restart_policy
        _default_port(section(replica, "template", "spec"), kind)


def _normalise_type_name(replicas: Object, canonical: str) -> None:
    """Move `worker`, `WORKER`, ... to `Worker`; the first spelling in sorted order wins over the others."""
    spellings = sorted(key for key in replicas if key.lower() == canonical.lower() and key != canonical)
    for key in reversed(spellings):
        replicas[canonical] = replicas.pop(key)


def _default_port(pod_spec: Object, kind: Kind) -> None:
    """Give the kind's container its port; where no container has that name, the first one gets it."""
    containers = objects(pod_spec, "containers")
    target = container_named(pod_spec, kind.container_name) or (containers[0] if containers else None)
    if target is not None and port_named(target, kind.port_name) is None:
        target["ports"] = [*objects(target, "ports"), {"name": kind.port_name, "containerPort": kind.port}]


def _default_elastic_policy(spec: Object) -> None:
    elastic = spec.get("elasticPolicy")
    worker = section(spec, PYTORCHJOB.replica_specs_field).get("Worker")
    if not isinstance(elastic, dict) or not isinstance(worker, dict):
        return
    least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
    elastic["minReplicas"] = _first_set(least, most, worker["replicas"])
    elastic["maxReplicas"] = _first_set(most, least, worker["replicas"])


def _default_nproc_per_node(spec: Object) -> None:
    if spec.get("nprocPerNode") is None and section(spec, "elasticPolicy").get("nProcPerNode") is None:
        spec["nprocPerNode"] = "auto"


def _first_set(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _ensure(parent: Object, field: str) -> Object:
    """Return the object at `parent[field]`, putting an empty one there when it is absent or null."""
    if not isinstance(parent.get(field), dict):
        parent[field] = {}
    child: Object = parent[field]
    return child
