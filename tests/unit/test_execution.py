"""Plans are carried out in their order, and what became of each action is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.ownwrites import OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer, Key
from trainshed.client.transport import Response
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Adopt, Create, Delete, Event, Patch, Plan, Tells, Told
from trainshed.kube.meta.resources import PODS, SERVICES
from trainshed.kube.wire.request import Request

KEY = ("ns", "owner")
SAID = Tells("Pod", "pod")
OWNER = "/api/v1/namespaces/ns/services/owner"


class FullApi(FakeApi):
    """Refuses pods beyond `room`."""

    room = 10_000

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods"):
            if self.room == 0:
                self.calls.append((request.method, request.path))
                error = ApiError(403, "Forbidden", "exceeded quota")
                return Response(403, {}, msgspec.json.encode(error.status()))
            self.room -= 1
        return await super().request(request)


class World:
    """One owner whose plans are executed. Informers are not run: what is written is never shown."""

    def __init__(self) -> None:
        self.api = FullApi()
        self.client = Client(self.api)
        self.own: OwnWrites[Key] = OwnWrites()
        self.recorder = EventRecorder(self.client, "test")
        self.executor = Executor(
            self.client,
            self.recorder,
            self.own,
            Informer(self.client, SERVICES),
            [Informer(self.client, PODS)],
        )

    async def execute(self, plan: Plan) -> None:
        await self.executor.execute(KEY, self.api.objects[OWNER], plan)

    async def events(self) -> list[str]:
        await self.recorder.close()
        found = [o for path, o in sorted(self.api.objects.items()) if "/events/" in path]
        return [f"{o['reason']}: {o['message']}" for o in found]

    def writes(self) -> list[str]:
        return [
            f"{method} {path.rpartition('/ns/')[2]}" for method, path in self.api.calls if method != "GET"
        ]


async def started() -> World:
    world = World()
    await world.api.put(OWNER, status={})
    return world


def pod(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns", **fields}}


def creation(name: str) -> Create:
    return Create(
        resource=PODS,
        given=pod(name),
        told=Told((Event("Normal", "Made", "made {name}"),), Event("Warning", "NotMade", "not made: ")),
    )


def test_the_status_comes_first_then_its_events_then_the_actions_in_order() -> None:
    async def main() -> None:
        world = await started()
        old = await world.api.put("/api/v1/namespaces/ns/pods/old")
        actions = (
            Patch(resource=PODS, object=old, patch={"spec": {"x": 1}}),
            Delete.of(PODS, old, SAID),
            creation("new"),
        )
        told = (Event("Normal", "Known", "known"),)
        await world.execute(Plan(status={"replicas": 1}, events=told, actions=actions))
        assert world.writes() == [
            "PUT services/owner/status",
            "PATCH pods/old",
            "DELETE pods/old",
            "POST pods",
        ]
        assert await world.events() == [
            "Known: known",
            "SuccessfulDeletePod: Deleted pod: old",
            "Made: made new",
        ]
        assert world.own.wait(KEY) is not None, "the key waits for what was written"

    run_virtual(main())


def test_a_status_that_is_right_is_not_written() -> None:
    async def main() -> None:
        world = await started()
        await world.execute(Plan(status={}))
        await world.execute(Plan())
        assert world.writes() == [] and world.own.wait(KEY) is None

    run_virtual(main())


def test_a_full_quota_costs_few_requests_and_one_event_and_the_status_is_written() -> None:
    async def main() -> None:
        world = await started()
        world.api.room = 2
        with pytest.raises(ApiError, match="exceeded quota"):
            await world.execute(
                Plan(status={"replicas": 0}, actions=tuple(creation(f"p{n}") for n in range(100)))
            )
        assert world.api.objects[OWNER]["status"] == {"replicas": 0}
        assert world.writes().count("POST pods") == 3, "one, then two together"
        told = await world.events()
        assert told[:2] == ["Made: made p0", "Made: made p1"]
        assert len(told) == 3 and told[2].startswith("NotMade: not made: ") and "exceeded quota" in told[2]

    run_virtual(main())


def test_what_is_gone_or_replaced_meanwhile_is_no_error() -> None:
    async def main() -> None:
        world = await started()
        taken = await world.api.put("/api/v1/namespaces/ns/pods/taken")
        gone, other = pod("gone", uid="gone"), {**taken, "metadata": {**taken["metadata"], "uid": "before"}}
        actions = (
            Patch(resource=PODS, object=gone, patch={}),
            Delete.of(PODS, gone, SAID),
            Delete.of(PODS, other, SAID),
        )
        await world.execute(Plan(actions=actions))
        assert world.api.objects["/api/v1/namespaces/ns/pods/taken"] == taken
        assert await world.events() == []

    run_virtual(main())


@pytest.mark.parametrize("failing", [409, 500])
def test_a_deletion_that_is_refused_although_the_object_stays_is_an_error(failing: int) -> None:
    """No event would come that brings the owner back; and it must not wait for a deletion that did not happen."""

    class Contended(FullApi):
        async def request(self, request: Request) -> Response:
            if request.method == "DELETE":
                error = ApiError(failing, {409: "Conflict", 500: "InternalError"}[failing], "no")
                return Response(failing, {}, msgspec.json.encode(error.status()))
            return await super().request(request)

    async def main() -> None:
        world = await started()
        old = await world.api.put("/api/v1/namespaces/ns/pods/old")
        contended = Contended()
        contended.objects = world.api.objects
        world.client.transport = contended
        with pytest.raises(ApiError) as caught:
            await world.execute(Plan(actions=(Delete.of(PODS, old, SAID),)))
        assert caught.value.code == failing
        assert world.own.wait(KEY) is None

    run_virtual(main())


@pytest.mark.parametrize("change", ["deleted", "ending", "replaced"])
def test_an_owner_that_goes_adopts_nothing(change: str) -> None:
    """The mirror may still show the owner as it was."""

    async def main() -> None:
        world = await started()
        seen = world.api.objects[OWNER]
        orphan = await world.api.put("/api/v1/namespaces/ns/pods/orphan")
        adopt = Adopt(resource=PODS, object=orphan, patch={"metadata": {"ownerReferences": [{"uid": "x"}]}})
        if change == "ending":
            await world.api.put(OWNER, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        else:
            await world.api.remove(OWNER)
            if change == "replaced":
                await world.api.put(OWNER)
        await world.executor.execute(KEY, seen, Plan(actions=(adopt,)))
        assert world.writes() == []
        if change == "deleted":
            await world.executor.execute(KEY, seen, Plan(status={"replicas": 1}, actions=(creation("p"),)))
            assert world.writes() == ["PUT services/owner/status"], (
                "nothing is made for an owner that is gone"
            )

    run_virtual(main())
