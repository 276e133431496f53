"""When a pod has to leave its node for the node's taints. Pure.

Source: "Taints and Tolerations" in the Kubernetes documentation: a taint of effect NoExecute that is not tolerated
evicts at once, one that is tolerated for some seconds after these, the first that comes counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainshed.kube.meta.nodeselection import tolerated
from trainshed.kube.meta.objects import Object, spec_of


def evict_at(pod: Object, taints: Iterable[tuple[Object, float]]) -> float | None:
    """Return when the pod has to go, in the unit in which it is said since when each taint is there; None for never."""
    due = [_leaves(pod, taint, since) for taint, since in taints if taint.get("effect") == "NoExecute"]
    return min((moment for moment in due if moment is not None), default=None)


def _leaves(pod: Object, taint: Object, since: float) -> float | None:
    tolerations: list[dict[str, Any]] = spec_of(pod).get("tolerations") or []
    found = [toleration for toleration in tolerations if tolerated(taint, [toleration])]
    if not found:
        return since
    seconds = [t["tolerationSeconds"] for t in found if t.get("tolerationSeconds") is not None]
    return since + max(min(seconds), 0) if seconds else None
