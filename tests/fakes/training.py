"""A kubelet that plays back what pods do, jobs to run, and transports that lose things and are late."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.api import FakeApi
from trainshed.client.transport import Response, Stream, Transport, TransportError
from trainshed.jobs.engine.constants import LABEL_REPLICA_TYPE
from trainshed.kube.meta.objects import Object, labels_of, name_of
from trainshed.kube.wire.request import Request
from trainshed.testing.builders import JOB_KINDS, make_pod_spec, make_replica
from trainshed.testing.builders import make_job as build_job

JOBS = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"
PODS = "/api/v1/namespaces/ns/pods"


def make_job(
    *,
    kind: str = "PyTorchJob",
    policy: str = "OnFailure",
    workers: int = 2,
    master: bool = True,
    **run_policy: Any,
) -> Object:
    """Return a job of a kind that has masters, with one of them and `workers` workers."""
    declared = JOB_KINDS[kind]
    counts = {"Master": int(master), "Worker": workers}

    def replica(count: int) -> Object:
        spec = make_pod_spec(name=declared.container_name, image="train:1", command=["python", "train.py"])
        return make_replica(count, spec, restart_policy=policy)

    return build_job(
        "job",
        *(replica(counts[name]) if counts.get(name) else None for name in declared.type_names),
        kind=kind,
        namespace="ns",
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
        **run_policy,
    )


def conditions(job: Object) -> list[tuple[str, str]]:
    """Return (type, status) of the job's conditions, in order."""
    return [(c["type"], c["status"]) for c in (job.get("status") or {}).get("conditions", [])]


class FakeKubelet:
    """Lets each pod run for `seconds` and succeed; a pod in `failures` fails that often, `fails_after` seconds.

    Args:
        exit_code: of a container that fails; by default it was killed, so that every policy but Never starts it again.
        endless: replica types, as labels spell them, whose pods run until they are deleted.
        grace: seconds that a pod takes to go.
    """

    def __init__(
        self,
        api: FakeApi,
        *,
        seconds: float = 5.0,
        failures: dict[str, int] | None = None,
        fails_after: float = 5.0,
        exit_code: int = 137,
        endless: Collection[str] = (),
        grace: float = 0.0,
    ) -> None:
        self._api = api
        self._seconds = seconds
        self._failures = dict(failures or {})
        self._fails_after = fails_after
        self._exit_code = exit_code
        self._endless = endless
        self._grace = grace
        self.runs: list[str] = []
        """Names of pods in the order in which they were started."""

    async def run(self) -> None:
        """Poll: the fake world has no load to spare."""
        due: dict[str, float] = {}
        going: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        while True:
            for path, pod in list(self._api.objects.items()):
                if "/pods/" not in path:
                    continue
                name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                phase = (pod.get("status") or {}).get("phase")
                if "deletionTimestamp" in pod["metadata"]:
                    if loop.time() >= going.setdefault(uid, loop.time() + self._grace):
                        await self._api.remove(path)
                elif phase is None:
                    self.runs.append(name)
                    due[uid] = loop.time() + self._length(pod)
                    spec = {**pod.get("spec", {}), "nodeName": "node"}
                    await self._api.put(path, spec=spec, status=self._status(pod, "Running"))
                elif phase == "Running" and loop.time() >= due[uid]:
                    failing = self._failures.get(name, 0) > 0
                    if failing:
                        self._failures[name] -= 1
                    await self._api.put(path, status=self._status(pod, "Failed" if failing else "Succeeded"))
            await asyncio.sleep(0.5)

    def _length(self, pod: Object) -> float:
        if self._failures.get(name_of(pod)):
            return self._fails_after
        return math.inf if labels_of(pod).get(LABEL_REPLICA_TYPE) in self._endless else self._seconds

    def _status(self, pod: Object, phase: str) -> Object:
        state: Object = {"running": {}}
        if phase != "Running":
            state = {"terminated": {"exitCode": self._exit_code if phase == "Failed" else 0}}
        name = pod["spec"]["containers"][0]["name"]
        return {"phase": phase, "containerStatuses": [{"name": name, "restartCount": 0, "state": state}]}


class KillingTransport:
    """Forwards requests until the `kill_at`th one, at which the process that sent it is dead.

    With `after`, that request still reaches the server: its answer is what gets lost.
    """

    def __init__(self, inner: Transport, *, kill_at: int, after: bool) -> None:
        self._inner = inner
        self._kill_at = kill_at
        self._after = after
        self._count = 0
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Response:
        await self._pass()
        self._count += 1
        doomed = self._count == self._kill_at
        if doomed and not self._after:
            self.dead.set()
        await self._pass()
        response = await self._inner.request(request)
        if doomed:
            self.dead.set()
        await self._pass()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await self._pass()
        async with self._inner.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        pass

    async def _pass(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()


_BAD_SECONDS = 1000.0


class FlakyTransport:
    """Loses requests, loses answers, answers 500 and lets watches lag, at random.

    Nothing is lost any more after `_BAD_SECONDS`: where a pass needs several requests in a row, few of them would come
    to their end.
    """

    def __init__(self, inner: Transport, choose: random.Random) -> None:
        self._inner = inner
        self._choose = choose
        self._probability = choose.choice([0.0, 0.1, 0.4])
        self._well_at = asyncio.get_running_loop().time() + _BAD_SECONDS
        plurals = ("pods", "services", *(kind.plural for kind in JOB_KINDS.values()))
        self._lag = {name: choose.choice([0.0, 0.0, 2.0, 9.0]) for name in plurals}

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(self._choose.choice([0.0, 0.01, 0.5]))
        if self._loses():
            if self._choose.random() < 0.3:
                return Response(500, {}, b'{"kind":"Status","code":500,"reason":"InternalError"}')
            raise TransportError("request lost by the test")
        response = await self._inner.request(request)
        await asyncio.sleep(self._choose.choice([0.0, 0.01, 0.5]))
        if self._loses():
            raise TransportError("answer lost by the test")
        return response

    def _loses(self) -> bool:
        now = asyncio.get_running_loop().time()
        return now < self._well_at and self._choose.random() < self._probability

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            yield _LaggingStream(stream, self._lag[request.path.rpartition("/")[2]])

    async def close(self) -> None:
        pass


class LaggingTransport:
    """Watches of paths that end in a key of `seconds` show each chunk that much later."""

    def __init__(self, inner: Transport, seconds: dict[str, float]) -> None:
        self._inner = inner
        self._seconds = seconds
        self.request = inner.request
        self.close = inner.close

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        lag = self._seconds.get(request.path.rpartition("/")[2], 0.0)
        async with self._inner.stream(request) as stream:
            yield _LaggingStream(stream, lag)


class _LaggingStream:
    def __init__(self, inner: Stream, lag: float) -> None:
        self._inner = inner
        self._lag = lag
        self.status = inner.status

    async def chunks(self) -> AsyncIterator[bytes]:
        """Each chunk comes `lag` seconds after it was sent, however many are on their way."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[float, bytes | BaseException | None]] = asyncio.Queue()

        async def receive() -> None:
            end: BaseException | None = None
            try:
                async for chunk in self._inner.chunks():
                    arrived.put_nowait((loop.time() + self._lag, chunk))
            except TransportError as error:
                end = error
            arrived.put_nowait((loop.time() + self._lag, end))

        task = asyncio.create_task(receive())
        try:
            while True:
                due, item = await arrived.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    return
                yield item
        finally:
            task.cancel()

    async def read(self) -> bytes:
        return await self._inner.read()
