"""Plays a scenario with one fault, and compares how it ended with how it ends without one.

What must not depend on a fault: the objects that are left, how often each pod ran, and that a status goes forward:
no outcome is taken back, no time is changed, and conditions follow each other as they do without the fault.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from tests.fakes.api import FakeApi
from tests.fakes.faults import AT_CALL, AT_EVENT, NONE, Fault, FaultyTransport
from tests.fakes.operator_world import World
from tests.fakes.scenarios import FAILS_AFTER, GRACE, SECONDS, Scenario, Shape
from tests.fakes.virtual_time import run_virtual
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object, uid_of

_PATIENCE = 900.0
"""Seconds of virtual time: longer than any backoff, deadline or wait of the operator's adds up to."""
_STAYS = 45.0
_FOREGROUND = ["foregroundDeletion"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How one play went.

    Attributes:
        calls, events: what the operator sent and was shown before the fault killed it, if it did.
        left: the objects at the end by path, without what differs from play to play.
        runs: how often each pod was started.
        path: the conditions that were newest, one after the other; per job of the name.
        backward: what was taken back in a status.
    """

    calls: int
    events: int
    left: dict[str, Any]
    runs: dict[str, int]
    path: tuple[tuple[str, ...], ...]
    backward: tuple[str, ...]


def play(shape: Shape, scenario: Scenario, fault: Fault = NONE) -> Record:
    """Return how the scenario went. AssertionError names what did not come about in time."""
    random.seed(0)
    return run_virtual(_play(shape, scenario, fault))


def faults(reference: Record) -> Iterator[Fault]:
    """Yield every fault that can happen in a play that goes as the reference did."""
    for number in range(1, reference.calls + 1):
        for at_call in AT_CALL:
            yield Fault(at_call, number)
    for number in range(1, reference.events + 1):
        for at_event in AT_EVENT:
            yield Fault(at_event, number)


def judge(shape: Shape, scenario: Scenario, fault: Fault, reference: Record) -> list[str]:
    """Return in what a play with the fault differs from how it should have gone; empty when all is well."""
    try:
        record = play(shape, scenario, fault)
    except (AssertionError, TimeoutError) as error:
        return [str(error)]
    return differences(record, reference, scenario.expected_runs(shape))


def differences(record: Record, reference: Record, expected_runs: dict[str, int]) -> list[str]:
    """Return in what a play differs from how it should have gone; empty when all is well."""
    said = list(record.backward)
    if record.runs != expected_runs:
        said.append(f"pods ran {record.runs}, not {expected_runs}")
    for path in sorted(record.left.keys() | reference.left.keys()):
        mine, other = record.left.get(path), reference.left.get(path)
        if mine != other:
            said.append(f"left at {path}: {mine}, not {other}")
    for mine, other in zip(record.path, reference.path, strict=False):
        if not _is_subsequence(mine, other):
            said.append(f"conditions went {mine}, not as {other}")
    return said


async def _play(shape: Shape, scenario: Scenario, fault: Fault) -> Record:
    failures = {} if scenario.fails is None else {shape.pods[scenario.fails]: 1}
    world = World(
        shape.kind,
        OperatorOptions(gang_scheduler=shape.gang),
        seconds=SECONDS,
        failures=failures,
        fails_after=FAILS_AFTER,
        exit_code=scenario.exit_code,
        endless=shape.endless,
        grace=GRACE,
    )
    collector = asyncio.create_task(_collect(world.api))
    transport = FaultyTransport(world.api, fault)
    await world.start(transport)
    job = shape.job(scenario.policy, **scenario.run_policy)
    await world.api.put(world.path, **job)
    if scenario.steps is not None:
        user = asyncio.create_task(scenario.steps(world, shape))
    else:
        user = asyncio.create_task(asyncio.sleep(0))

    def over() -> bool:
        return (user.done() and scenario.over(world)) or (user.done() and user.exception() is not None)

    await world.until("death or the end", lambda: transport.dead.is_set() or over(), _PATIENCE)
    if transport.dead.is_set():
        await world.kill()
        await asyncio.sleep(fault.number % 7)  # what happens meanwhile differs
        await world.start()
        await world.until("the end after a death", over, _PATIENCE)
    await user
    await asyncio.sleep(_STAYS)
    assert scenario.over(world), "and it stays so"
    record = Record(
        calls=transport.calls,
        events=transport.events,
        left=_left(world.api),
        runs=dict(Counter(world.kubelet.runs)),
        path=tuple(_path(statuses) for statuses in _histories(world)),
        backward=tuple(said for statuses in _histories(world) for said in _backward(statuses)),
    )
    await world.close()
    collector.cancel()
    await asyncio.gather(collector, return_exceptions=True)
    return record


async def _collect(api: FakeApi) -> None:
    """Be the garbage collector: what its owner has left behind goes, and a job that waits for that goes then."""
    while True:
        await asyncio.sleep(3.0)
        paths = {obj["metadata"]["uid"]: path for path, obj in api.objects.items()}
        going = {
            uid
            for uid, path in paths.items()
            if api.objects[path]["metadata"].get("finalizers") == _FOREGROUND
        }
        waits = set()
        for path, obj in list(api.objects.items()):
            owner = obj["metadata"].get("ownerReferences", [{}])[0].get("uid")
            if owner is None or (owner in paths and owner not in going):
                continue
            waits.add(owner)
            if "deletionTimestamp" not in obj["metadata"]:
                await _let_go(api, path)
        for uid in going - waits:
            await api.remove(paths[uid])


async def _let_go(api: FakeApi, path: str) -> None:
    if "/pods/" in path:
        await api.put(path, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    else:
        await api.remove(path)


_OF_ONE_PLAY = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "startTime",
        "completionTime",
        "lastUpdateTime",
        "lastTransitionTime",
    }
)


def _left(api: FakeApi) -> dict[str, Any]:
    return {path: _plain(obj) for path, obj in api.objects.items() if "/events/" not in path}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in _OF_ONE_PLAY}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _histories(world: World) -> list[list[Object]]:
    """Return the statuses that each job of the name had, one after the other."""
    by_uid: dict[str, list[Object]] = {}
    for _, change, path, obj in world.api.log:
        if path == world.path and change != "DELETED" and obj.get("status"):
            by_uid.setdefault(uid_of(obj), []).append(obj["status"])
    return list(by_uid.values())


def _path(statuses: Sequence[Object]) -> tuple[str, ...]:
    steps: list[str] = []
    for status in statuses:
        newest = status["conditions"][-1]
        step = f"{newest['type']}={newest['status']}"
        if steps[-1:] != [step]:
            steps.append(step)
    return tuple(steps)


def _backward(statuses: Sequence[Object]) -> Iterator[str]:
    for before, after in pairwise(statuses):
        held, holds = _true(before), _true(after)
        for outcome in {"Created", "Succeeded", "Failed"} & (held - holds):
            yield f"{outcome} was taken back"
        resumed = "Suspended" in held and "Suspended" not in holds
        if before.get("startTime") and before["startTime"] != after.get("startTime") and not resumed:
            yield f"startTime went from {before['startTime']} to {after.get('startTime')}"
        if before.get("completionTime") not in (None, after.get("completionTime")):
            yield f"completionTime went from {before['completionTime']} to {after.get('completionTime')}"
        if {"Succeeded", "Failed"} & held and {"Running", "Restarting"} & holds:
            yield "what was over runs"


def _true(status: Object) -> set[str]:
    return {c["type"] for c in status["conditions"] if c["status"] == "True"}


def _is_subsequence(some: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(step in rest for step in some)
