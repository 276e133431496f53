"""One pod of a job: its template, the labels that say which replica it is, and what its framework needs."""

from __future__ import annotations

import copy

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Job, Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.engine.plan import CreatePod
from trainshed.jobs.v1.frameworks.framework import Framework
from trainshed.kube.meta.objects import Object, objects, section, texts


def create_pod(
    job: Job, framework: Framework, replica: Replica, index: int, options: OperatorOptions
) -> CreatePod:
    """Return the creation of the pod of one replica."""
    overrides = bool(section(replica.template, "spec").get("restartPolicy"))
    return CreatePod(pod(job, framework, replica, index, options), overrides_restart_policy=overrides)


def pod(job: Job, framework: Framework, replica: Replica, index: int, options: OperatorOptions) -> Object:
    """Return the pod: the template, and over it what makes it this replica.

    The template's variables come first and ours are appended, so that ours win where a name repeats.
    """
    template = copy.deepcopy(replica.template)
    spec = section(template, "spec")
    addition = framework.contribute(job, replica, index, options)
    for container in objects(spec, "containers"):
        container["env"] = [*objects(container, "env"), *copy.deepcopy(addition.env)]
    if addition.init_containers:
        spec["initContainers"] = [*objects(spec, "initContainers"), *copy.deepcopy(addition.init_containers)]
    spec["restartPolicy"] = pod_restart_policy(replica)
    metadata: Object = {
        "name": job.child_name(replica.type, index),
        "namespace": job.namespace,
        "labels": _labels(job, framework, replica, index, options),
        "ownerReferences": [job.owner_reference()],
    }
    template_metadata = section(template, "metadata")
    for field in ("annotations", "finalizers"):
        if template_metadata.get(field):
            metadata[field] = template_metadata[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pod_restart_policy(replica: Replica) -> str:
    """Return what the node does about a failed container; under ExitCode the operator decides instead."""
    return "Never" if replica.restart_policy == "ExitCode" else replica.restart_policy


def _labels(
    job: Job, framework: Framework, replica: Replica, index: int, options: OperatorOptions
) -> dict[str, str]:
    ours = job.child_labels(replica.type, index)
    if framework.is_master(job, replica, index):
        ours[c.LABEL_JOB_ROLE] = c.JOB_ROLE_MASTER
    legacy = {}
    if options.legacy_labels:
        legacy = {short: ours[label] for label, short in c.LEGACY_LABELS.items() if label in ours}
    # A template may use a short name for itself; the current ones are the operator's.
    return {**legacy, **texts(section(replica.template, "metadata"), "labels"), **ours}
