"""Nodes that are not there: pods bound to one go through stages that are data, and run nothing.

pod bound ──► its lifecycle's stages, one after the other ──► stays in the last
pod deleted ──► gone at once, as a kubelet lets go of a pod that has ended
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from trainshed import __version__
from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.cluster.node.fake.lifecycle import SUCCEEDS, Lifecycle, lifecycle_of, status_at
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)
from trainshed.kube.meta.resources import NODES, PODS
from trainshed.kube.meta.times import format_time
from trainshed.kube.patch.types import STRATEGIC

_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
"""All are required (core/v1 NodeSystemInfo)."""
Work: TypeAlias = Callable[[Object], Coroutine[Any, Any, None]]
CAPACITY = {"cpu": "1000", "memory": "1000Gi", "pods": "10000"}
RUNTIME = "fake://"
"""How `nodeInfo.containerRuntimeVersion` of such nodes starts."""
LABEL = ("type", "fake")
_RETRY_SECONDS = 0.1
_AT_ONCE = 16


class FakeNodes:
    """A few nodes on any API server, and what becomes of the pods that are bound to them.

    Args:
        client: may write nodes, pods and their status.
        count: how many nodes, `fake-0` and so on.
        lifecycles: the first that is for a pod says what becomes of it; a pod that none is for stays Pending.
        capacity: of each node.
        schedulable: whether schedulers may place pods there; without, only pods that name a node are played.
        bind: also bind pods that have no node, in turn, where there is no scheduler.
        stay: leave the nodes where they are at the end, for somebody else who will play them.
        now: returns seconds since the epoch, for times in statuses. Stages go by the event loop's time.
    """

    def __init__(
        self,
        client: Client,
        *,
        count: int = 1,
        lifecycles: Sequence[Lifecycle] = (SUCCEEDS,),
        capacity: Mapping[str, str] = CAPACITY,
        schedulable: bool = True,
        bind: bool = False,
        stay: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.names = tuple(f"fake-{i}" for i in range(count))
        self.started: list[str] = []
        """Names of pods in the order in which they were started."""
        self._client = client
        self._lifecycles = tuple(lifecycles)
        self._capacity = dict(capacity)
        self._spec = {} if schedulable else {"unschedulable": True}
        self._stay = stay
        self._binds = itertools.cycle(self.names) if bind else None
        self._now = now
        self._addresses = (f"10.99.{i // 254}.{i % 254 + 1}" for i in itertools.count())
        self._pods = Informer(client, PODS)
        self._pods.add_handler(self._changed)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Register the nodes, then play pods until cancelled; the nodes are deleted at the end."""
        for first in range(0, len(self.names), _AT_ONCE):
            await asyncio.gather(*map(self._register, self.names[first : first + _AT_ONCE]))
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._pods.run()
        finally:
            # A node that is left would still be given pods, which nobody would run.
            with contextlib.suppress(ApiError, TransportError):
                for name in () if self._stay else self.names:
                    await self._client.delete(NODES, name)

    async def _register(self, name: str) -> None:
        node = {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, LABEL[0]: LABEL[1]}},
            "spec": self._spec,
        }
        try:
            await self._client.create(NODES, node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastTransitionTime": format_time(self._now()),
        }
        info = {**dict.fromkeys(_NODE_INFO, ""), "containerRuntimeVersion": f"{RUNTIME}{__version__}"}
        info |= {"kubeletVersion": "fake", "operatingSystem": "linux"}
        status: Object = {"capacity": self._capacity, "allocatable": self._capacity, "conditions": [ready]}
        status["nodeInfo"] = info
        await self._client.patch(NODES, name, None, {"status": status}, subresource="status")
        # Servers taint a new node until its kubelet says that it is ready.
        await self._client.patch(NODES, name, None, {"spec": {"taints": None}})

    def _changed(self, change: str, old: Object | None, pod: Object) -> None:
        uid, node = uid_of(pod), pod["spec"].get("nodeName")
        if change == "DELETED":
            for what in ("bind", "play", "remove"):
                self._end(what, uid)
        elif not node:
            if self._binds is not None and not is_terminating(pod):
                self._once("bind", uid, self._bind, pod)
        elif node in self.names:
            if is_terminating(pod):
                self._end("play", uid)
                self._once("remove", uid, self._remove, pod)
            elif status_of(pod).get("phase", "Pending") == "Pending":
                self._once("play", uid, self._play, pod)

    def _once(self, what: str, uid: str, work: Work, pod: Object) -> None:
        if (what, uid) not in self._tasks:
            self._tasks[what, uid] = self._group.create_task(work(pod))

    def _end(self, what: str, uid: str) -> None:
        if (task := self._tasks.pop((what, uid), None)) is not None:
            task.cancel()

    async def _play(self, pod: Object) -> None:
        lifecycle = lifecycle_of(pod, self._lifecycles)
        if lifecycle is None:
            return
        self.started.append(name_of(pod))
        address, started_at = next(self._addresses), self._now()
        for stage in lifecycle.stages:
            if stage.after:
                await asyncio.sleep(stage.after)
            status = status_at(pod, stage, started_at=started_at, now=self._now(), address=address)
            await self._write(partial(self._report, pod, status))

    async def _report(self, pod: Object, status: Object) -> None:
        await self._client.patch(
            PODS,
            name_of(pod),
            namespace_of(pod),
            {"metadata": {"uid": uid_of(pod)}, "status": status},
            patch_type=STRATEGIC,
            subresource="status",
        )

    async def _bind(self, pod: Object) -> None:
        assert self._binds is not None
        node = next(self._binds)
        await self._write(lambda: self._client.bind(name_of(pod), namespace_of(pod), node))

    async def _remove(self, pod: Object) -> None:
        await self._write(
            lambda: self._client.delete(PODS, name_of(pod), namespace_of(pod), grace_period_seconds=0)
        )

    async def _write(self, request: Callable[[], Awaitable[object]]) -> None:
        """Write until the server has answered; a pod that is gone, or another one by now, needs nothing more."""
        while True:
            try:
                await request()
                return
            except ApiError as error:
                if error.code in (404, 409):
                    return
                if error.code < 500 and error.code != 429:
                    raise
            except TransportError:
                pass
            await asyncio.sleep(_RETRY_SECONDS)
