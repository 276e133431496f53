"""Tools for testing what runs on Kubernetes: a pytest plugin, builders, waiting with deadlines, fake nodes.

    fixtures `trainshed_home`, `trainshed_cluster`, `trainshed_namespace`    a cluster per session, purged at its end
    `make_job`, `make_replica`, `make_pod`, `make_pod_spec`                  objects, by what differs
    `until`, `until_async`                                                   waits that say what they waited for
    `FakeNodes`, `Lifecycle`, `Stage`, `read_lifecycles`                     nodes that play pods from data

pytest loads the plugin by itself where trainshed is installed, which is why the rest is imported when it is first
used. Nothing else of trainshed imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed._lazy import lazily as _lazily

if TYPE_CHECKING:
    from trainshed.testing.builders import make_job, make_pod, make_pod_spec, make_replica
    from trainshed.testing.fakes import FakeNodes, Lifecycle, Stage, read_lifecycles
    from trainshed.testing.waiting import until, until_async

__all__ = (
    "FakeNodes",
    "Lifecycle",
    "Stage",
    "make_job",
    "make_pod",
    "make_pod_spec",
    "make_replica",
    "read_lifecycles",
    "until",
    "until_async",
)

_HOMES = {
    "FakeNodes": "fakes",
    "Lifecycle": "fakes",
    "Stage": "fakes",
    "make_job": "builders",
    "make_pod": "builders",
    "make_pod_spec": "builders",
    "make_replica": "builders",
    "read_lifecycles": "fakes",
    "until": "waiting",
    "until_async": "waiting",
}
"""Public name → module of this package."""

__getattr__, __dir__ = _lazily(__name__, _HOMES)
