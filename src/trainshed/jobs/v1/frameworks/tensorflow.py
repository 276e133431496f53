"""TensorFlow: who is where through `TF_CONFIG`, which `tf.distribute` reads.

Dense, every pod knows every replica. Sparse, where workers are dynamic, a worker knows itself and the parameter
servers, a parameter server itself: so workers come and go and nobody's variable becomes untrue.
Source: the environment table of the Kubeflow training operator v1; `TFConfigClusterResolver` of `tf.distribute`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainshed.api.v1.tensorflow import ALL_WORKERS, CHIEF, MASTER, PS, TFJOB, WORKER
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import exit_code
from trainshed.jobs.engine.conditions import find
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.v1.frameworks.base import (
    ContainerPatch,
    Failing,
    Framework,
    PodPatch,
    Seen,
    port_of,
    variable,
)
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import phase as pod_phase

_DOMAIN = "tf-cluster-domain"

_json = json.JSONEncoder(separators=(",", ":")).encode


class TensorFlowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's flags say about TFJobs. `domain` ends the host names in `TF_CONFIG`; empty for none."""

    domain: str = ""


class TensorFlow(Framework):
    """The framework of TFJob."""

    kind = TFJOB
    flags = (
        Flag(
            name=_DOMAIN,
            variable="CUSTOM_CLUSTER_DOMAIN",
            help="domain of the cluster, which then ends the host names in TF_CONFIG",
        ),
    )

    def options(self, values: Mapping[str, Any]) -> TensorFlowOptions | None:
        """Return what the flags say about host names, None where that is nothing."""
        return TensorFlowOptions(domain=values[_DOMAIN]) if values[_DOMAIN] else None

    def leader(self, job: Job) -> Replica | None:
        """The chief, by either name, else the workers; parameter servers and evaluators never end a job."""
        return job.replica(CHIEF) or job.replica(MASTER) or job.replica(WORKER)

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """Every chief if there is one, else the first worker."""
        leader = self.leader(job)
        return leader is not None and replica.type == leader.type and (leader.type != WORKER or index == 0)

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return `TF_CONFIG` for the training container, unless the job is one pod that has nobody to meet."""
        if job.total_replicas == 1:
            return PodPatch()
        domain = _options(options).domain
        config = _sparse if job.spec.enable_dynamic_worker else _dense
        text = config(job, replica, index, domain)
        return PodPatch(containers=(ContainerPatch(of="training", env=(variable("TF_CONFIG", text),)),))

    def has_succeeded(self, job: Job, leader: Replica, seen: Seen) -> bool:
        """The chief decides if there is one; else all workers, or the first, unless all are asked for."""
        if super().has_succeeded(job, leader, seen):
            return True
        return (
            leader.type == WORKER and job.spec.success_policy != ALL_WORKERS and _first_worker_is_done(seen)
        )

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        """Yield the types of which pods failed. While pods are being replaced, no other failure counts.

        A restart is seen in the condition of an earlier pass, which stays for as long as anything has failed, or in
        a pod that is replaced in this one, which says so itself.
        """
        failed = [(replica, n) for replica in job.replicas if (n := seen.tallies[replica.type].failed) > 0]
        if not failed or self._replaces_a_pod(job, seen):
            return
        restarting = find(list(seen.conditions), c.RESTARTING)
        for replica, count in failed:
            if restarting is not None:
                yield Failing(replica.type, count, True, str(restarting.get("message")))
            elif replica.type != WORKER or not job.spec.enable_dynamic_worker:
                yield Failing(replica.type, count, False, self.failing_message(job, replica, count, False))

    def _replaces_a_pod(self, job: Job, seen: Seen) -> bool:
        wanted = ((slot.replica, slot.pod) for slot in seen.children.slots if slot.wanted and slot.pod)
        return any(
            self.restart(job, replica, exit_code(pod, job.kind.container_name)) == "replace"
            for replica, pod in wanted
            if pod_phase(pod) == "Failed"
        )

    def running_message(self, job: Job) -> str:
        """As with PyTorch without a master."""
        return f"{job.kind.name} {job.namespace}/{job.name} is running."

    def succeeded_message(self, job: Job) -> str:
        """As with PyTorch without a master."""
        return f"{job.kind.name} {job.namespace}/{job.name} successfully completed."

    def failing_message(self, job: Job, replica: Replica, failed: int, restarts: bool) -> str:
        """Return the message of the condition Failed; a restart keeps the message that it has."""
        name = f"{job.kind.name} {job.namespace}/{job.name}"
        return f"{name} has failed because {failed} {replica.type} replica(s) failed."


def _first_worker_is_done(seen: Seen) -> bool:
    pod = seen.pod(WORKER, 0)
    return pod is not None and pod_phase(pod) == "Succeeded" and exit_code(pod, TFJOB.container_name) == 0


def _dense(job: Job, replica: Replica, index: int, domain: str) -> str:
    """Return the whole cluster, types in alphabetical order, as JSON. What is the same for all is written once."""

    def cluster() -> str:
        return _json({r.slug: _hosts(job, r, domain) for r in sorted(job.replicas, key=lambda r: r.slug)})

    return (
        f'{{"cluster":{job.once("cluster", cluster)},"task":{_task(replica, index)},"environment":"cloud"}}'
    )


def _sparse(job: Job, replica: Replica, index: int, domain: str) -> str:
    """Return what one pod may know of a cluster whose workers come and go, as JSON."""
    servers = job.replica(PS)
    worker: Object = {}
    ps = "[]"
    if replica.type == WORKER:
        worker[str(index)] = _host(job, replica, index, domain)
        ps = job.once("servers", lambda: _json(None if servers is None else _hosts(job, servers, domain)))
    elif replica.type == PS:
        ps = _json([_host(job, replica, index, domain)])
    return f'{{"cluster":{{"worker":{_json(worker)},"ps":{ps}}},"task":{_task(replica, index)}}}'


def _task(replica: Replica, index: int) -> str:
    return f'{{"type":"{replica.slug}","index":{index}}}'


def _hosts(job: Job, replica: Replica, domain: str) -> list[str]:
    after = _after_name(job, replica, domain)
    return [job.child_name(replica.type, index) + after for index in range(replica.count)]


def _host(job: Job, replica: Replica, index: int, domain: str) -> str:
    """Return the address of one replica."""
    return job.child_name(replica.type, index) + _after_name(job, replica, domain)


def _after_name(job: Job, replica: Replica, domain: str) -> str:
    """Return what follows the name of a replica in its address: the rest of its service's, and the port of its type."""
    return f".{job.namespace}.svc{f'.{domain}' if domain else ''}:{port_of(job, replica)}"


def _options(options: OperatorOptions) -> TensorFlowOptions:
    chosen = options.by_kind.get(TFJOB.name)
    return chosen if isinstance(chosen, TensorFlowOptions) else TensorFlowOptions()
