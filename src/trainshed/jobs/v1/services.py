"""The headless service of one replica: it gives the pod a DNS name before the pod has an address."""

from __future__ import annotations

from trainshed.jobs.engine.job import Job, Replica
from trainshed.jobs.engine.plan import CreateService
from trainshed.kube.meta.objects import Object, container_named, objects, section


def create_service(job: Job, replica: Replica, index: int) -> CreateService:
    """Return the creation of the service of one replica."""
    return CreateService(service(job, replica, index))


def service(job: Job, replica: Replica, index: int) -> Object:
    """Return the service with the ports of the kind's container, sorted by name.

    Ports are keyed by name, so that unnamed ones collapse into the last; all are TCP.
    """
    container = container_named(section(replica.template, "spec"), job.kind.container_name) or {}
    ports = {str(port.get("name") or ""): port.get("containerPort") for port in objects(container, "ports")}
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
        "spec": {
            "clusterIP": "None",
            "selector": dict(labels),
            "ports": [{"name": n, "port": p} if n else {"port": p} for n, p in sorted(ports.items())],
        },
    }
