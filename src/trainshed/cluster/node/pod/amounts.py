"""What containers ask for and may use, as numbers the kernel takes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.quantity import parse

LEAST_OOM_SCORE = 100
"""Above the control plane's own. The kubelet goes below zero for Guaranteed pods, which takes root of the machine."""
_BEST_EFFORT = 1000


def in_bytes(amount: str | int | None) -> int:
    """Return a quantity as a whole number, 0 for none."""
    return 0 if amount is None else int(parse(amount))


def in_milli(amount: str | int | None) -> int:
    """Return a quantity in thousandths, rounded up, 0 for none."""
    return 0 if amount is None else math.ceil(parse(amount) * 1000)


def limits_of(container: Object) -> Mapping[str, Any]:
    """Return `resources.limits` of a container."""
    return section(container, "resources", "limits")


def requests_of(container: Object) -> Mapping[str, Any]:
    """Return `resources.requests` of a container."""
    return section(container, "resources", "requests")


def oom_score(pod: Object, container: Object, machine_bytes: int) -> int:
    """Return how readily the kernel ends a container when the machine's memory runs out (`oom_score_adj`).

    As the kubelet does by quality of service, but not below `LEAST_OOM_SCORE` (pkg/kubelet/qos/policy.go).
    """
    kind = qos_class(pod["spec"])
    if kind == "BestEffort":
        return _BEST_EFFORT
    if kind == "Guaranteed":
        return LEAST_OOM_SCORE
    asked = in_bytes(requests_of(container).get("memory"))
    score = 1000 - 1000 * asked // max(1, machine_bytes)
    return max(LEAST_OOM_SCORE, min(_BEST_EFFORT - 1, score))


def pids_limit(cores: int, most: int) -> int:
    """Return how many processes and threads a pod may have on a machine that has `most` numbers for them."""
    return min(max(4096, 256 * cores), most // 2)
