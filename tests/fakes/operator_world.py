"""An operator in a world of its own: a model of the API server, a kubelet that plays pods, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.fakes.api import FakeApi
from tests.fakes.training import FakeKubelet, conditions
from trainshed.client.client import Client
from trainshed.client.transport import Transport
from trainshed.jobs.engine.model import DEFAULTS, OperatorOptions
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import VOLCANO_PODGROUPS
from trainshed.operator.manager import Operator
from trainshed.testing.builders import JOB_KINDS


def now() -> float:
    """Return the time of the world, in seconds since the epoch."""
    return 1_770_000_000 + asyncio.get_running_loop().time()


class World:
    """An API, a kubelet, and an operator that can be replaced."""

    def __init__(self, kind: str = "PyTorchJob", options: OperatorOptions = DEFAULTS, **kubelet: Any) -> None:
        self.kind = JOB_KINDS[kind]
        self.options = options
        self.path = f"/apis/kubeflow.org/v1/namespaces/ns/{self.kind.plural}/job"
        self.api = FakeApi(now)
        self.kubelet = FakeKubelet(self.api, **kubelet)
        self._kubelet_task = asyncio.create_task(self.kubelet.run())
        self._scheduler_task = asyncio.create_task(self._let_in())
        self._operator_task: asyncio.Task[None] | None = None
        self.operator: Operator | None = None

    async def start(self, transport: Transport | None = None) -> None:
        """Start an operator; the one before must be dead or stopped."""
        self.operator = Operator(
            Client(transport or self.api, user_agent="training-operator"),
            self.options,
            kinds=(self.kind.name,),
            now=now,
        )
        self._operator_task = asyncio.create_task(self.operator.run())

    async def kill(self) -> None:
        """As SIGKILL: nothing more is sent."""
        assert self._operator_task is not None
        self._operator_task.cancel()
        await asyncio.wait([self._operator_task])
        assert self.operator is not None
        await self.operator.close(timeout=0)
        self.operator = None

    async def close(self) -> None:
        if self.operator is not None:
            await self.kill()
        self._kubelet_task.cancel()
        self._scheduler_task.cancel()

    async def _let_in(self) -> None:
        """Be Volcano's scheduler: a new PodGroup is let into its queue after a while."""
        while self.options.gang_scheduler:
            await asyncio.sleep(2.0)
            for path, group in list(self.api.objects.items()):
                if f"/{VOLCANO_PODGROUPS.api_version}/" in path and not group.get("status"):
                    await self.api.put(path, status={"phase": "Inqueue"})

    @property
    def job(self) -> Object:
        return self.api.objects.get(self.path, {})

    def names(self, plural: str) -> list[str]:
        return sorted(p.rpartition("/")[2] for p in self.api.objects if f"/{plural}/" in p)

    async def until(self, what: str, predicate: Callable[[], bool], seconds: float = 300) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not predicate():
            assert loop.time() < end, f"not within {seconds} s: {what}; status: {self.job.get('status')}"
            await asyncio.sleep(0.25)

    async def until_succeeded(self) -> None:
        await self.until("Succeeded", lambda: ("Succeeded", "True") in conditions(self.job))
