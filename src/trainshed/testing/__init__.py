"""Tools for testing what runs on Kubernetes: a pytest plugin, builders, waiting with deadlines, fake nodes.

    fixtures `trainshed_home`, `trainshed_cluster`, `trainshed_namespace`    a cluster per session, purged at its end
    `make_job`, `make_replica`, `make_pod`, `make_pod_spec`                  objects, by what differs
    `until`, `until_async`                                                   waits that say what they waited for
    `FakeNodes`, `Lifecycle`, `Stage`                                        nodes that play pods from data

pytest loads the plugin by itself where trainshed is installed; nothing else of trainshed imports this package.
"""

from trainshed.testing.builders import make_job, make_pod, make_pod_spec, make_replica
from trainshed.testing.lifecycle import Lifecycle, Stage, read_lifecycles
from trainshed.testing.nodes import FakeNodes
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
