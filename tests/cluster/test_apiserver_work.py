"""What aimed requests cost everybody else: how much is done on the event loop in one turn, in calls, not in seconds."""

from __future__ import annotations

import asyncio
import json
import sys
from types import FrameType
from typing import Any

import pytest

from tests.cluster.api_world import MERGE, World
from tests.unit.node_builders import make_container
from trainshed.client.asgi import AsgiTransport
from trainshed.cluster.store import ADDED, Stored, StoreEvent
from trainshed.kube.builtin.parts.pod.rules import MAX_CONTAINERS
from trainshed.kube.wire import body
from trainshed.kube.wire.request import Request

MOST_CALLS = 20_000
"""About 5 ms of work."""
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
KEYS = {f"k{number}": "" for number in range(40_000)}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Turns:
    """Counts the calls between two turns of the loop, in its thread."""

    _turn = asyncio.Handle._run.__code__

    def __init__(self) -> None:
        self.most, self.where = 0, ""
        self._count = 0

    def __enter__(self) -> Turns:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is self._turn:
            self._count = 0
        elif event in ("call", "c_call"):
            self._count += 1
            self.most = max(self.most, self._count)
            if self._count == MOST_CALLS:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"


async def little(world: World, status: int, method: str, path: str, sent: Any, **options: Any) -> Any:
    """Return the answer, which has to be `status`, of a request that holds nobody else up."""
    data = sent if isinstance(sent, bytes | None) else json.dumps(sent).encode()
    with Turns() as turns:
        response = await world.raw(method, path, data, **options)
    assert response.status == status, response.body[:500]
    assert turns.most < MOST_CALLS, f"{turns.most} calls in one turn, beyond {MOST_CALLS} in {turns.where}"
    return json.loads(response.body)


class Calls:
    """Counts the calls, in this thread."""

    def __enter__(self) -> Calls:
        self.count = 0
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event in ("call", "c_call")


def pod(number: int, **fields: Any) -> dict[str, Any]:
    containers = [make_container(name=f"c{index}", **fields) for index in range(number)]
    return {"metadata": {"name": "many"}, "spec": {"containers": containers}}


def named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "large"}, **fields}


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (MAPS, named(data=KEYS)),
        (MAPS, {"metadata": {"name": "large", "labels": KEYS}}),
        (MAPS, {"metadata": {"name": "large", "finalizers": [f"a.b/{key}" for key in KEYS]}}),
        (MAPS, named(unknown=[[]] * (body.MAX_CONTAINERS - 10))),
        (MAPS, named(unknown=[[[[]]]] * 40_000)),
        (PODS, pod(1, env=[{"name": key, "value": ""} for key in KEYS])),
        (PODS, pod(MAX_CONTAINERS, env=[{"name": "A"}, {"name": "B"}])),
        (
            ROLES,
            named(
                rules=[
                    {"apiGroups": [""], "resources": [key], "verbs": ["get"]} for key in list(KEYS)[:5_000]
                ]
            ),
        ),
    ],
    ids=("keys", "labels", "finalizers", "wide", "nested", "variables", "containers", "rules"),
)
async def test_a_large_object_keeps_nobody_waiting(world: World, path: str, sent: dict[str, Any]) -> None:
    await little(world, 201, "POST", path, sent)
    mallory = World.__new__(World)
    mallory.transport = AsgiTransport(world.api, "mallory", [])
    await little(mallory, 403, "GET", PODS, None)  # who may what is looked up again, in what there is now
    await mallory.transport.close()
    change = {"metadata": {"annotations": {"a": "b"}}}
    changed = await little(
        world, 200, "PATCH", f"{path}/{sent['metadata']['name']}", change, content_type=MERGE
    )
    changed["metadata"].pop("managedFields", None)
    await little(world, 200, "PUT", f"{path}/{sent['metadata']['name']}", changed)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, APPLY])
async def test_a_large_patch_keeps_nobody_waiting(world: World, content_type: str) -> None:
    query = {"fieldManager": "me"} if content_type == APPLY else {}
    await world.ok("POST", MAPS, named(data={"a": "b"}))
    patch = {"apiVersion": "v1", "kind": "ConfigMap", **named(data=KEYS)}
    await little(world, 200, "PATCH", f"{MAPS}/large", patch, content_type=content_type, **query)


@pytest.mark.parametrize("field", ["containers", "initContainers", "volumes"])
async def test_a_pod_has_no_more_parts_than_a_machine_has_room_for(world: World, field: str) -> None:
    wanted = pod(1)
    wanted["spec"][field] = [{"name": f"n{index}", "image": "i"} for index in range(20_000)]
    if field == "volumes":
        wanted["spec"][field] = [{"name": f"n{index}", "emptyDir": {}} for index in range(20_000)]
    refused = await little(world, 422, "POST", PODS, wanted)
    (cause,) = refused["details"]["causes"]
    assert (cause["field"], cause["reason"]) == (f"spec.{field}", "FieldValueTooMany")
    assert "must have at most 1000 items" in cause["message"]


async def test_what_an_ordinary_write_costs(world: World) -> None:
    """How many writes a second the server takes is decided here: each bound is a tenth above what was counted."""
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    await world.ok("POST", PODS, pod(1))  # what is made once is made
    await world.ok("PATCH", f"{PODS}/many/status", {"status": status}, content_type=STRATEGIC)
    for most, method, path, sent, content_type in (
        (1_750, "POST", PODS, {**pod(1), "metadata": {"name": "one"}}, "application/json"),
        (1_290, "PATCH", f"{PODS}/one/status", {"status": status}, STRATEGIC),
        (370, "GET", f"{PODS}/one", None, "application/json"),
    ):
        with Calls() as calls:
            await world.ok(method, path, sent, content_type=content_type)
        assert calls.count <= most, f"{method} {path} takes {calls.count} calls"


@pytest.mark.parametrize(
    "query",
    [{}, {"labelSelector": "a=7"}, {"labelSelector": "a!=7"}, {"fieldSelector": "status.phase=Running"}],
)
async def test_a_long_list_keeps_nobody_waiting(world: World, query: dict[str, str]) -> None:
    for number in range(6_000):
        held = {"apiVersion": "v1", "kind": "Pod", **pod(1)}
        held["metadata"] = {"name": f"p{number}", "namespace": "default", "labels": {"a": str(number % 100)}}
        world.store._index.apply(StoreEvent(ADDED, stored_of(f"/core/pods/default/p{number}", held), None))
    found = await little(world, 200, "GET", PODS, None, **query)
    assert len(found["items"]) == {"a=7": 60, "a!=7": 5_940}.get(
        query.get("labelSelector", ""), 0 if query else 6_000
    )


def stored_of(key: str, obj: dict[str, Any]) -> Stored:
    obj["metadata"]["resourceVersion"] = "2"
    return Stored(key, 2, 2, json.dumps(obj).encode())


async def test_a_role_whose_rules_multiply_is_refused_to_who_does_not_hold_it(world: World) -> None:
    """Four lists of a thousand names are 30 kB, and 10^12 combinations to compare with what the user holds."""
    writes = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["*"]}
    await world.ok(
        "POST", ROLES, {"metadata": {"name": "writer"}, "rules": [{**writes, "verbs": ["create"]}]}
    )
    await world.ok(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "writer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
            "subjects": [{"kind": "User", "name": "mallory"}],
        },
    )
    names = [f"n{number}" for number in range(1_000)]
    rule = {"verbs": names, "apiGroups": names, "resources": names, "resourceNames": names}
    mallory = World.__new__(World)
    mallory.transport = AsgiTransport(world.api, "mallory", [])
    refused = await little(mallory, 403, "POST", ROLES, named(rules=[rule]))
    assert "more than 20000 combinations" in refused["message"]
    some = named(rules=[{**rule, "verbs": ["get"], "resourceNames": [], "apiGroups": [""]}])
    assert "currently held" in (await little(mallory, 403, "POST", ROLES, some))["message"]
    await mallory.transport.close()


async def test_who_asks_without_end_keeps_nobody_else_waiting(world: World) -> None:
    pod = AsgiTransport(world.api, "system:serviceaccount:default:default", ["system:authenticated"])
    review = json.dumps({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).encode()
    asked = Request("POST", REVIEWS, body=review, content_type="application/json")
    crowd = [asyncio.create_task(pod.request(asked)) for _ in range(500)]
    await asyncio.sleep(0)
    await world.ok("GET", MAPS)
    first = sum(task.done() for task in crowd)
    assert first < 50, f"{first} of another user were answered first"
    assert {answer.status for answer in await asyncio.gather(*crowd)} == {201}
