"""What a namespace that is being deleted says about its end. Pure.

Texts are upstream's: people search for them when a namespace hangs in Terminating.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from trainshed.kube.meta.objects import Object, unchanged_since


def deletion_conditions(
    remaining: Iterable[tuple[str, Object]], failures: Sequence[str], previous: Sequence[Object], now: str
) -> list[Object]:
    """Return the conditions of a terminating namespace.

    Args:
        remaining: group resource (`jobs.batch`) and object of everything left.
        failures: what went wrong with deletions in this round.
    """
    kinds: Counter[str] = Counter()
    finalizers: Counter[str] = Counter()
    for resource, obj in remaining:
        kinds[resource] += 1
        finalizers.update(obj["metadata"].get("finalizers") or ())
    # `configmaps.`, as Kubernetes writes what has no group.
    left = ", ".join(
        f"{name if '.' in name else f'{name}.'} has {count} resource instances"
        for name, count in sorted(kinds.items())
    )
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    rows = (
        (
            "NamespaceDeletionDiscoveryFailure",
            False,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            bool(failures),
            "ContentDeletionFailed" if failures else "ContentDeleted",
            "; ".join(sorted(failures)) or "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            bool(kinds),
            "SomeResourcesRemain" if kinds else "ContentRemoved",
            f"Some resources are remaining: {left}" if kinds else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(finalizers),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {held}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    )
    before = {condition["type"]: condition for condition in previous}
    return [_condition(*row, before.get(row[0]), now) for row in rows]


def _condition(
    name: str, failed: bool, reason: str, message: str, previous: Object | None, now: str
) -> Object:
    status = "True" if failed else "False"
    since = unchanged_since(previous, status, now)
    return {"type": name, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
