"""Builders of jobs and pods: a test names only what it is about, everything else has a default. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from trainshed.api.registry import KINDS
from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object

IMAGE = "example.com/train:1"
"""Where nothing is pulled, any name will do."""
JOB_KINDS = {name: kind for name, kind in KINDS.items() if isinstance(kind, JobKind)}
KIND = next(iter(JOB_KINDS))
"""The kind of a job that does not say."""


def make_pod_spec(
    script: str | None = None,
    *,
    name: str = "main",
    image: str = IMAGE,
    mounts: Mapping[str, str | PathLike[str]] | None = None,
    grace_seconds: int | None = None,
    **container: Any,
) -> Object:
    """Return a pod spec with one container.

    Args:
        script: what `sh` runs; without it the container has no command.
        name: of the container.
        image: of the container.
        mounts: path in the container → directory of the host.
        grace_seconds: between SIGTERM and SIGKILL; `sh` as the first process of a container ignores SIGTERM.
        container: further fields of the container, e.g. `env=[…]`.
    """
    spec: Object = {"containers": [{"name": name, "image": image}]}
    if script is not None:
        spec["containers"][0]["command"] = ["sh", "-c", script]
    spec["containers"][0].update(container)
    if grace_seconds is not None:
        spec["terminationGracePeriodSeconds"] = grace_seconds
    if mounts:
        names = {path: path.strip("/").replace("/", "-") or "root" for path in mounts}
        spec["containers"][0]["volumeMounts"] = [{"name": names[p], "mountPath": p} for p in mounts]
        spec["volumes"] = [
            {"name": names[path], "hostPath": {"path": fspath(source), "type": "Directory"}}
            for path, source in mounts.items()
        ]
    return spec


def make_pod(
    name: str,
    spec: Object | None = None,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Object:
    """Return a pod that runs once; `fields` are further fields of its spec, e.g. `nodeName="a"`."""
    metadata = _metadata(name, namespace=namespace, labels=labels, annotations=annotations)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", **(make_pod_spec() if spec is None else spec), **fields},
    }


def make_replica(
    replicas: int | None = 1,
    pod_spec: Object | None = None,
    *,
    restart_policy: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Object:
    """Return the spec of a replica type; None leaves a field out.

    Its container has the name that jobs of the usual kind want; `fields` are further fields of the spec.
    """
    if pod_spec is None:
        pod_spec = make_pod_spec(name=JOB_KINDS[KIND].container_name)
    template: Object = {"spec": pod_spec}
    if metadata := _metadata(None, labels=labels, annotations=annotations):
        template["metadata"] = metadata
    spec: Object = {"template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    if restart_policy is not None:
        spec["restartPolicy"] = restart_policy
    return {**spec, **fields}


def make_job(
    name: str = "train",
    *replicas: Object | int | None,
    kind: str = KIND,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Object | None = None,
    **run_policy: Any,
) -> Object:
    """Return a training job.

    Args:
        name: of the job.
        replicas: for each replica type of the kind in its order (`Master`, `Worker` …): its spec, or how many;
            None, or nothing, leaves the type out.
        kind: of the job.
        namespace, labels, annotations, metadata: of the job; what is None is left out.
        spec: further fields of the spec, e.g. `{"elasticPolicy": …}`.
        status: of the job.
        run_policy: fields of the run policy, e.g. `cleanPodPolicy="All"`; left out when there is none.
    """
    facts = JOB_KINDS[kind]
    given = dict(zip(facts.type_names, replicas))
    assert len(given) == len(replicas), f"{kind} has the replica types {facts.type_names}"
    container = make_pod_spec(name=facts.container_name)
    specs = {
        type_: make_replica(replica, container) if isinstance(replica, int) else replica
        for type_, replica in given.items()
        if replica is not None
    }
    job: Object = {
        "apiVersion": facts.api_version,
        "kind": kind,
        "metadata": {
            **_metadata(name, namespace=namespace, labels=labels, annotations=annotations),
            **(metadata or {}),
        },
        "spec": {facts.replica_specs_field: specs, **(spec or {})},
    }
    if run_policy:
        job["spec"]["runPolicy"] = run_policy
    if status is not None:
        job["status"] = status
    return job


def _metadata(
    name: str | None,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    given = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {key: value for key, value in given.items() if value is not None}
