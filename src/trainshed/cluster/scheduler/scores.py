"""Which of the nodes that a pod may go to it had better go to. Pure.

Each view of kube-scheduler's default profile gives 0 to 100, and counts by that profile's weight. Those that only look
at one machine's images or balance are left out: nodes here share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from trainshed.cluster.scheduler.interpodaffinity import Affinities
from trainshed.cluster.scheduler.predicates import allocatable
from trainshed.cluster.scheduler.topologyspread import Spread
from trainshed.kube.meta.nodeselection import preference, tolerated
from trainshed.kube.meta.objects import Object, labels_of, section, spec_of

_ZERO = Decimal(0)
_TAINTS, _PREFERRED, _BESIDE, _SPREAD, _FREE = 3, 2, 2, 2, 1


def best(
    pod: Object,
    needs: Mapping[str, Decimal],
    nodes: Sequence[tuple[Object, Mapping[str, Decimal]]],
    affinities: Affinities,
    spread: Spread,
) -> str:
    """Return the name of the best of the nodes, each of which is given with what is in use on it; of equals the first
    by name.
    """
    loads = [load_after(needs, node, held) for node, held in nodes]
    names = [node["metadata"]["name"] for node, _ in nodes]
    preferred = _preferred(pod, [node for node, _ in nodes], affinities, spread)
    if not preferred:
        return str(min(zip(loads, names, strict=True))[1])
    totals = [
        sum(each) + _FREE * 100 * (1 - float(load)) for *each, load in zip(*preferred, loads, strict=True)
    ]
    return str(min(zip((-total for total in totals), loads, names, strict=True))[2])


def load_after(needs: Mapping[str, Decimal], node: Object, used: Mapping[str, Decimal]) -> Decimal:
    """Return the highest share of any resource in use once the pod is there, 0 to 1 (least-allocated score)."""
    return max(
        (
            (used.get(name, _ZERO) + needs.get(name, _ZERO)) / amount
            for name, amount in allocatable(node).items()
            if amount
        ),
        default=_ZERO,
    )


def _preferred(
    pod: Object, nodes: Sequence[Object], affinities: Affinities, spread: Spread
) -> list[list[float]]:
    """Return what each view that says anything gives each node."""
    views = []
    tolerations = spec_of(pod).get("tolerations") or ()
    bad = [
        sum(
            taint.get("effect") == "PreferNoSchedule" and not tolerated(taint, tolerations)
            for taint in taints or ()
        )
        for taints in (spec_of(node).get("taints") for node in nodes)
    ]
    if any(bad):
        views.append([_TAINTS * 100 * (1 - count / max(bad)) for count in bad])
    if section(spec_of(pod), "affinity", "nodeAffinity").get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    ):
        weights = [preference(pod, node) for node in nodes]
        views.append([_PREFERRED * 100 * weight / (max(weights) or 1) for weight in weights])
    if affinities.scores:
        scores = [affinities.score(labels_of(node)) for node in nodes]
        low, high = min(scores), max(scores)
        views.append([_BESIDE * 100 * (score - low) / ((high - low) or 1) for score in scores])
    if spread.soft:
        crowds = [spread.crowd(labels_of(node)) for node in nodes]
        views.append([_SPREAD * each for each in _thin(crowds)])
    return views


def _thin(crowds: Sequence[float | None]) -> list[float]:
    """Return 100 for the least crowded node, 0 for those whose labels are missing."""
    known = [crowd for crowd in crowds if crowd is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [
        0.0 if crowd is None else 100.0 if not high else 100 * (high + low - crowd) / high for crowd in crowds
    ]
