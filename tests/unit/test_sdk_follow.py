"""Following a job to its end: nothing of its logs is lost, and what stops it is said. Virtual time on a model API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.training import JOBS, PODS, make_job
from tests.fakes.virtual_time import run_virtual
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.client import Client
from trainshed.client.transport import Response, TransportError
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.request import Request
from trainshed.sdk.follow import Follower
from trainshed.sdk.followview import Outcome, Snapshot
from trainshed.sdk.summary import failure_of


class LogStream:
    """A log that comes in `chunks`, `pause` seconds apart."""

    status = 200

    def __init__(self, chunks: Sequence[bytes], pause: float) -> None:
        self._chunks, self._pause = chunks, pause

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(self._pause)
            yield chunk

    async def read(self) -> bytes:
        return b"".join(self._chunks)


class Api(FakeApi):
    """The model API with one pod's log. Of listing pods, the next `lost` requests get no answer."""

    def __init__(self, lines: int = 3, pause: float = 0.0) -> None:
        super().__init__()
        self.log_lines = [f"line {i}" for i in range(lines)]
        self.pause = pause
        self.lost = 0
        self.watching_pods = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if self.lost and request.method == "GET" and request.path == PODS:
            self.lost -= 1
            raise TransportError("Connection timeout")
        return await super().request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        if not request.path.endswith("/log"):
            async with super().stream(request) as stream:
                yield stream
            return
        query = dict(request.query)
        lines = self.log_lines[-int(query.get("tailLines", len(self.log_lines))) :]
        stamp = "2026-01-01T00:00:00.000000000Z " if query.get("timestamps") else ""
        yield LogStream([f"{stamp}{line}\n".encode() for line in lines], self.pause if stamp else 0.0)


class Recording:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.events: list[str] = []

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        self.seen += lines

    def frame(self, replica: str, text: str) -> None:
        pass

    def update(self, snapshot: Snapshot) -> None:
        pass

    def event(self, text: str) -> None:
        self.events.append(text)


def ended(condition: str) -> Object:
    return {"conditions": [{"type": condition, "status": "True", "lastUpdateTime": "t", "message": "m"}]}


async def put_pod(
    api: FakeApi, job: Object, exit_code: int | None, index: int = 0, status: Object | None = None
) -> None:
    """Put a worker's pod, ended with the exit code, or with None running, or with another status."""
    state = {"running": {}} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    await api.put(
        f"{PODS}/job-worker-{index}",
        metadata={
            "name": f"job-worker-{index}",
            "namespace": "ns",
            "labels": {
                "training.kubeflow.org/job-name": "job",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": str(index),
            },
            "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True}],
        },
        status=status
        or {
            "phase": "Running" if exit_code is None else "Failed" if exit_code else "Succeeded",
            "containerStatuses": [{"name": "pytorch", "state": state}],
        },
    )


def follow(api: Api, condition: str, exit_code: int | None) -> tuple[Outcome, Recording]:
    """Return what following a job gives that ends a second later."""
    view = Recording()

    async def main() -> Outcome:
        job = await api.put(f"{JOBS}/job", **make_job())
        following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
        await asyncio.sleep(1)
        await put_pod(api, job, exit_code)
        lost, api.lost = api.lost, 0
        await asyncio.sleep(1)
        api.lost = lost
        await api.put(f"{JOBS}/job", status=ended(condition))
        return await following

    return run_virtual(main()), view


def test_a_log_that_goes_on_arriving_after_the_end_is_read_to_its_end() -> None:
    api = Api(lines=100, pause=1.0)
    _, view = follow(api, "Succeeded", 0)
    assert view.seen == api.log_lines


def test_a_log_that_stands_still_after_the_end_is_given_up_and_said() -> None:
    outcome, view = follow(Api(lines=1, pause=10_000), "Succeeded", 0)
    assert outcome.job is not None
    assert "kubectl logs -n ns job-worker-0 -c pytorch" in view.events[-1]


@pytest.mark.parametrize("pause", [10_000, 0.5], ids=["silent", "talking"])
def test_a_pod_that_outlives_its_job_is_not_waited_for(pause: float) -> None:
    """Parameter servers, and workers of an MPIJob, run until somebody ends them."""
    _, view = follow(Api(lines=100, pause=pause), "Succeeded", None)
    assert len(view.seen) < 10
    assert view.events[-1] == "job-worker-0 outlives the job: kubectl logs -n ns job-worker-0 -c pytorch"


async def followed_before_it_begins(view: Recording) -> tuple[Api, Object, asyncio.Task[Any]]:
    """Follow a job whose one pod has not begun; the API, the job and the follow, a second later."""
    api = Api()
    job = await api.put(f"{JOBS}/job", **make_job())
    following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
    waiting = a_pod(0, "containerStatuses")
    waiting["metadata"]["ownerReferences"] = [{"uid": job["metadata"]["uid"], "controller": True}]
    waiting["status"] = {"phase": "Pending"}
    await api.put(f"{PODS}/job-worker-0", **waiting)
    await asyncio.sleep(1)
    return api, job, following


@pytest.mark.parametrize("begins", [True, False])
def test_pods_that_are_still_being_started_when_the_job_ends_are_given_a_moment(begins: bool) -> None:
    """The master of a short job is through before its workers have begun: they have something to say, too."""
    view = Recording()

    async def main() -> float:
        api, job, following = await followed_before_it_begins(view)
        await api.put(f"{JOBS}/job", status=ended("Succeeded"))
        ended_at = asyncio.get_running_loop().time()
        if begins:
            await asyncio.sleep(0.25)
            await api.put(f"{PODS}/job-worker-0", spec={"nodeName": "n"})
            await asyncio.sleep(0.25)
            await put_pod(api, job, None)
            await asyncio.sleep(0.1)
            await put_pod(api, job, 0)
        await following
        return asyncio.get_running_loop().time() - ended_at

    took = run_virtual(main())
    assert took < (0.7 if begins else 0.4)
    assert view.seen == (["line 0", "line 1", "line 2"] if begins else [])
    said = "worker-0 had not begun when the job ended: kubectl logs -n ns job-worker-0"
    assert (said in view.events) is not begins


def test_pods_that_are_deleted_before_they_begin_are_not_waited_for() -> None:
    view = Recording()

    async def main() -> float:
        api, _, following = await followed_before_it_begins(view)
        await api.remove(f"{PODS}/job-worker-0")
        await api.put(f"{JOBS}/job", status=ended("Succeeded"))
        ended_at = asyncio.get_running_loop().time()
        await following
        return asyncio.get_running_loop().time() - ended_at

    assert run_virtual(main()) < 0.1
    assert not [event for event in view.events if "begun" in event]


def test_what_holds_for_many_replicas_is_said_in_one_line() -> None:
    api, view = Api(lines=100, pause=10_000), Recording()
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}

    async def main() -> None:
        job = await api.put(f"{JOBS}/job", **make_job())
        following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
        await asyncio.sleep(1)
        for index in range(16):
            status = {"phase": "Pending", "conditions": [why]} if index < 12 and index != 4 else None
            await put_pod(api, job, None, index, status)
        await asyncio.sleep(5)
        assert view.events == ["worker-0..3,5..11 Pending: no room"]
        for index in range(12):
            await put_pod(api, job, None, index)
        await asyncio.sleep(1)
        await api.put(f"{JOBS}/job", status=ended("Succeeded"))
        await following

    run_virtual(main())
    label = "training.kubeflow.org/job-name=job"
    command = f"kubectl logs -n ns -l {label} --prefix --tail=-1"
    assert view.events[-1] == f"worker-0..15 outlive the job: {command}"
    assert len(view.events) == 3


def test_a_job_that_succeeded_is_no_error_when_requests_are_lost_at_its_end() -> None:
    api = Api()
    api.lost = 2
    outcome, view = follow(api, "Succeeded", 0)
    assert outcome.job is not None and view.seen == api.log_lines


def test_the_last_lines_of_a_failure_are_those_of_the_log() -> None:
    """Not of what has arrived: the stream may have been given up."""
    api = Api(lines=40, pause=10_000)
    outcome, _ = follow(api, "Failed", 3)
    assert failure_of(outcome).tail == tuple(api.log_lines[-15:])


def test_a_pod_that_fails_again_and_again_for_want_of_a_file_says_which_image_nothing_stands_for() -> None:
    """A job that restarts its pods may never fail, and is followed for ever."""
    api, view = Api(), Recording()
    api.log_lines = ["python3: can't open file '/opt/train.py'"]

    async def main() -> None:
        job = await api.put(f"{JOBS}/job", **make_job())
        following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
        about = {"kind": "Pod", "name": "job-worker-0"}
        await api.put("/api/v1/namespaces/ns/events/e", involvedObject=about, reason="ImageNotPulled")
        await put_pod(api, job, None)
        for restarts, wait in ((1, 10), (2, 20)):
            await asyncio.sleep(5)
            status = {
                "name": "pytorch",
                "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {wait}s"}},
                "lastState": {"terminated": {"exitCode": 2}},
            }
            await api.put(
                f"{PODS}/job-worker-0",
                spec={"containers": [{"name": "pytorch", "image": "mnist:1"}]},
                status={"phase": "Running", "containerStatuses": [status]},
            )
        await asyncio.sleep(5)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    run_virtual(main())
    advice = [event for event in view.events if "nothing stands for image mnist:1" in event]
    assert len(advice) == 1 and "trainshed image add mnist:1 --layer" in advice[0], view.events


def test_what_the_operator_could_not_do_is_said() -> None:
    api, view = Api(), Recording()

    async def main() -> None:
        job = await api.put(f"{JOBS}/job", **make_job())
        following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
        about = {"kind": "PyTorchJob", "name": "job", "uid": job["metadata"]["uid"]}
        for number, reason in enumerate(("FailedCreatePod", "SuccessfulCreatePod", "FailedCreatePod")):
            path = f"/api/v1/namespaces/ns/events/e{number}"
            await api.put(
                path, involvedObject=about, reason=reason, message="no PriorityClass", type="Warning"
            )
        await asyncio.sleep(20)
        following.cancel()
        await asyncio.wait([following])

    run_virtual(main())
    assert view.events == ["FailedCreatePod: no PriorityClass"], "once, and nobody else is blamed"


class Watching(Recording):
    """Also keeps under which name lines came, and what was shown last."""

    def __init__(self) -> None:
        super().__init__()
        self.under: list[str] = []
        self.last: Snapshot | None = None

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        self.under.append(replica)
        await super().lines(replica, lines)

    def update(self, snapshot: Snapshot) -> None:
        self.last = snapshot


def follow_pods(job: Object, *pods: Object, lines: Sequence[str]) -> Watching:
    """Return what a follow shows of a job with these pods, each of which has printed the lines."""
    api, view = Api(), Watching()
    api.log_lines = list(lines)

    async def main() -> None:
        made = await api.put(f"{JOBS}/job", **job)
        for pod in pods:
            pod["metadata"]["ownerReferences"] = [{"uid": made["metadata"]["uid"], "controller": True}]
            await api.put(f"{PODS}/{pod['metadata']['name']}", **pod)
        following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, made, view).run())
        await asyncio.sleep(3)
        following.cancel()
        await asyncio.wait([following])

    run_virtual(main())
    return view


def a_pod(index: int, kind: str, *containers: str) -> Object:
    """Return a worker's pod whose containers of that kind of status run."""
    name = f"job-worker-{index}"
    labels = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(index),
    }
    running = [{"name": container, "state": {"running": {}}} for container in containers]
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "status": {"phase": "Running", kind: running},
    }


def test_init_containers_of_the_job_are_heard_and_those_of_the_operator_are_not() -> None:
    job = make_job()
    (replicas,) = [spec for name, spec in job["spec"].items() if name.endswith("ReplicaSpecs")]
    for spec in replicas.values():
        spec["template"]["spec"]["initContainers"] = [{"name": "fetch", "image": "i"}]
    view = follow_pods(job, a_pod(0, "initContainerStatuses", "init-pytorch", "fetch"), lines=["Downloading"])
    assert (view.under, view.seen) == (["worker-0/fetch"], ["Downloading"])


def test_progress_is_of_the_first_replica_and_time_is_the_logs_own() -> None:
    job = {**make_job(), "status": {"startTime": "2026-01-01T00:00:00Z"}}
    pods = [a_pod(index, "containerStatuses", "pytorch") for index in (1, 0)]
    view = follow_pods(job, *pods, lines=["loss: 2", "loss: 1"])
    assert view.last is not None and view.last.started_at == 1767225600.0
    assert view.last.progress.losses == (2.0, 1.0), "not those of both"
    assert view.last.progress.told_at == 1767225600.0, "not when it was read"


def test_lines_stand_under_the_pod_that_printed_them_while_others_wait() -> None:
    waiting = a_pod(0, "containerStatuses")
    waiting["status"] = {"phase": "Pending"}
    view = follow_pods(make_job(), waiting, a_pod(1, "containerStatuses", "pytorch"), lines=["mine"])
    assert (view.under, view.seen) == (["worker-1"], ["mine"])


def test_once_it_is_cancelled_no_more_of_a_long_log_is_read() -> None:
    """However much has arrived: what is asked of the loop meanwhile, such as Ctrl-C, comes after a few lines."""

    class Long(Api):
        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            if not request.path.endswith("/log"):
                async with super().stream(request) as stream:
                    yield stream
                return
            line = b"2026-01-01T00:00:00.000000000Z a line\n"
            yield LogStream([line * 30_000] * 10, 0.0)

    class Leaving(Recording):
        following: asyncio.Task[Outcome]

        async def lines(self, replica: str, lines: Sequence[str]) -> None:
            if not self.seen:
                asyncio.get_running_loop().call_soon(self.following.cancel)
            await super().lines(replica, lines)

    async def main() -> None:
        api = Long()
        job = await api.put(f"{JOBS}/job", **make_job())
        view.following = asyncio.create_task(Follower(Client(api), PYTORCHJOB.resource, job, view).run())
        await asyncio.sleep(1)
        await put_pod(api, job, None)
        with pytest.raises(asyncio.CancelledError):
            await view.following

    view = Leaving()
    run_virtual(main())
    assert 0 < len(view.seen) < 500
