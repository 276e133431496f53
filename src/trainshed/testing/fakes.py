"""Nodes that are not there, as `trainshed up --fake-nodes` has them."""

from trainshed.cluster.node.fake.lifecycle import Lifecycle, Stage, read_lifecycles
from trainshed.cluster.node.fake.nodes import FakeNodes

__all__ = ("FakeNodes", "Lifecycle", "Stage", "read_lifecycles")
