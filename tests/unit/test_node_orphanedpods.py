"""Pods that nobody looks after say so."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import make_pod
from trainshed.cluster.node.orphanedpods import why_orphaned


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {}, ""),
        ({"nodeName": "here"}, {}, ""),
        ({"nodeName": "other"}, {}, 'node "other" is not one of this cluster\'s: here'),
        ({"nodeName": "other"}, {"phase": "Failed"}, ""),
    ],
)
def test_why(spec, status, expected):
    pod = {**make_pod(**spec), "status": status}
    if "nodeName" not in spec:
        pod["spec"].pop("nodeName", None)
    assert why_orphaned(pod, {"here"}) == expected
