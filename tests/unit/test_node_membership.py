"""Which nodes the machine shows, and what becomes of those that it shows no longer."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.node.membership import node_names


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
