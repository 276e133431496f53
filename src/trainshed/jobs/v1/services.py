"""The headless service of one replica: it gives the pod a DNS name before the pod has an address."""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.jobs.engine.job import Replica
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object


def service(job: Job, replica: Replica, index: int, ports: Sequence[Object]) -> Object:
    """Return the service with these ports."""
    labels = job.child_labels(replica.type, index)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": job.child_name(replica.type, index),
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": [job.owner_reference()],
        },
        "spec": {"clusterIP": "None", "selector": dict(labels), "ports": list(ports)},
    }
