"""How many threads the numeric libraries of a rank start, when nobody says.

On a cluster the ranks of a job mostly have a machine each. Here they share one, and OpenMP would start a thread
per core in every rank: with three ranks on two cores, training the example took five times as long (threads
that wait by spinning take the cores from those that work). torchrun sets OMP_NUM_THREADS=1 for the same reason
when it starts several processes.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "OMP_NUM_THREADS"


def default_threads(variables: Mapping[str, str], cores: int) -> dict[str, str]:
    """Return the default for a container with these variables; empty when it is not one of several ranks.

    The pod's own OMP_NUM_THREADS wins over this, as every declared variable does.
    """
    ranks = _ranks(variables)
    if ranks < 2 or VARIABLE in variables:
        return {}
    return {VARIABLE: str(max(cores // ranks, 1))}


def _ranks(variables: Mapping[str, str]) -> int:
    """Return how many pods train together, as the operator tells them: WORLD_SIZE, or PET_NNODES `min:max`."""
    found = [variables.get("WORLD_SIZE", ""), variables.get("PET_NNODES", "").rpartition(":")[2]]
    return max((int(text) for text in found if text.isdigit()), default=1)
