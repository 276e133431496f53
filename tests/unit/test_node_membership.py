"""Which nodes the machine shows, and what becomes of those that it shows no longer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.cluster.node.membership import node_names, settle_fakes


def node(name: str, created: str = "2026-01-01T00:00:00Z", runtime: str = "trainshed://0.1.0") -> Any:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "status": {"nodeInfo": {"containerRuntimeVersion": runtime}},
    }


@pytest.mark.parametrize(
    ("hostname", "known", "count", "names"),
    [
        ("box", [], 0, ["box"]),
        ("box", [], 3, ["box", "box-2", "box-3"]),
        ("My_Box.example.com", [], 0, ["my-box"]),
        ("___", [], 0, ["localhost"]),
        ("box", [node("box"), node("box-2")], 0, ["box", "box-2"]),
        ("box", [node("box"), node("box-2")], 1, ["box"]),
        ("renamed", [node("box-2"), node("box")], 0, ["box", "box-2"]),
        ("renamed", [node("box-2"), node("box")], 3, ["box", "box-2", "box-3"]),
        # Somebody's own Node object is no node of this machine.
        ("box", [node("fake", runtime=""), {"metadata": {"name": "bare"}}], 0, ["box"]),
    ],
)
def test_names(hostname: str, known: list[Any], count: int, names: list[str]) -> None:
    assert node_names(hostname, known, count) == names


@pytest.mark.parametrize(("count", "left"), [(None, 2), (1, 1), (0, 0)])
def test_fake_nodes_that_are_shown_no_longer_are_forgotten_with_their_pods(
    count: int | None, left: int
) -> None:
    async def main() -> None:
        api = FakeApi()
        for number in range(2):
            fake = node(f"fake-{number}", runtime="fake://1")
            await api.put(f"/api/v1/nodes/fake-{number}", **fake)
            await api.put(f"/api/v1/namespaces/ns/pods/p{number}", spec={"nodeName": f"fake-{number}"})
        await api.put("/api/v1/namespaces/ns/pods/waits", spec={})
        assert await settle_fakes(Client(api), count) == left
        names = {path.rpartition("/")[2] for path in api.objects}
        assert names == {"waits", *(f"{word}{n}" for n in range(left) for word in ("fake-", "p"))}

    run_virtual(main())
