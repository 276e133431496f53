"""Replacing and deleting jobs that are over. On a model of the API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.training import JOBS, PODS, make_job
from tests.fakes.virtual_time import run_virtual
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.client import Client
from trainshed.client.transport import Response
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.request import Request
from trainshed.sdk import jobs
from trainshed.sdk.jobs import Found


async def put_pod(api: FakeApi, name: str, job_uid: str, phase: str) -> None:
    await api.put(
        f"{PODS}/{name}",
        metadata={
            "name": name,
            "namespace": "ns",
            "labels": {"training.kubeflow.org/job-name": "job"},
            "ownerReferences": [{"uid": job_uid, "controller": True}],
        },
        status={"phase": phase},
    )


@pytest.mark.parametrize(
    ("condition", "ended"), [("Succeeded", ["job-worker-0"]), ("Failed", ["job-worker-0"]), ("Running", [])]
)
def test_what_still_runs_of_a_job_that_is_over_is_not_waited_for(condition: str, ended: list[str]) -> None:
    """A job that runs has its pods' whole grace."""

    async def main() -> list[str]:
        api = FakeApi()
        status: dict[str, Any] = {"conditions": [{"type": condition, "status": "True"}]}
        job: Object = await api.put(f"{JOBS}/job", **make_job(), status=status)
        uid = job["metadata"]["uid"]
        await put_pod(api, "job-master-0", uid, "Succeeded")
        await put_pod(api, "job-worker-0", uid, "Running")
        await put_pod(api, "job-worker-1", "of another job", "Running")
        await jobs.delete(Client(api), Found(PYTORCHJOB.resource, job), wait=True)
        return [path.rpartition("/")[2] for method, path in api.calls if method == "DELETE" and PODS in path]

    assert run_virtual(main()) == ended


class SlowToGo(FakeApi):
    """A job of this API goes so many seconds after it was deleted."""

    seconds = 0.0

    async def request(self, request: Request) -> Response:
        if request.method == "DELETE" and request.path == f"{JOBS}/job":
            response = await super().request(Request("GET", request.path))
            asyncio.get_running_loop().call_later(self.seconds, self.objects.pop, request.path)
            return response
        return await super().request(request)


def test_pods_have_the_grace_that_they_were_given() -> None:
    """Ten minutes to write a checkpoint: that a job is not gone before is no error."""

    async def main() -> float:
        api = SlowToGo()
        api.seconds = 600
        job = make_job()
        for spec in job["spec"]["pytorchReplicaSpecs"].values():
            spec["template"]["spec"]["terminationGracePeriodSeconds"] = 600
        job = await api.put(f"{JOBS}/job", **job)
        await jobs.delete(Client(api), Found(PYTORCHJOB.resource, job), wait=True)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) >= 600
