"""What the strategies of workload kinds add when an object is created."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.builtin.defaults import job_identity
from trainshed.kube.meta.objects import Object


async def admit_job(core: Core, call: Call, obj: Object) -> Object:
    """Return a Job with the selector and labels that its uid gives it."""
    del core, call
    return job_identity(obj)
