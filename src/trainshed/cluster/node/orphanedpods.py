"""Pods that no node here will ever run: bound to one that is not there. Pure."""

from __future__ import annotations

from collections.abc import Collection

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_finished


def why_orphaned(pod: Object, nodes: Collection[str]) -> str:
    """Return why the pod stays as it is, for its author; empty when somebody looks after it."""
    spec = pod["spec"]
    if is_finished(pod):
        return ""
    node = spec.get("nodeName")
    if not node or node in nodes:
        return ""
    return f'node "{node}" is not one of this cluster\'s: {", ".join(sorted(nodes))}'
