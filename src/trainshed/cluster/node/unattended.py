"""Pods that nobody here will ever run: bound to a node that is not there, or left to a scheduler that is not. Pure."""

from __future__ import annotations

from collections.abc import Collection

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_finished

SCHEDULERS = frozenset({"default-scheduler"})


def why_unattended(pod: Object, nodes: Collection[str]) -> str:
    """Return why the pod stays as it is, for its author; empty when somebody looks after it."""
    spec = pod["spec"]
    if is_finished(pod):
        return ""
    node = spec.get("nodeName")
    if node:
        return (
            ""
            if node in nodes
            else f'node "{node}" is not one of this cluster\'s: {", ".join(sorted(nodes))}'
        )
    scheduler = spec.get("schedulerName", "default-scheduler")
    if scheduler in SCHEDULERS:
        return ""
    return f'no scheduler "{scheduler}" runs here: only {", ".join(sorted(SCHEDULERS))} does'
