"""Nodes of the local cluster that run nothing, and what becomes of their pods: kept for later starts."""

from __future__ import annotations

import msgspec

from trainshed.cluster.node.fake.lifecycle import RUNS, Lifecycle, read_lifecycles
from trainshed.cluster.paths import StateError, StatePaths, write_private


class Fakes(msgspec.Struct, frozen=True):
    """How many fake nodes, and the text of their lifecycles (YAML or JSON): empty for pods that run for ever."""

    count: int
    lifecycles: str = ""


def keep_fakes(paths: StatePaths, fakes: Fakes) -> None:
    """Keep what the next start is to show. Raises StateError, naming the field of a lifecycle that is wrong."""
    if fakes.lifecycles:
        _read(fakes.lifecycles)
    write_private(paths.fake_nodes, msgspec.json.encode(fakes))


def kept_fakes(paths: StatePaths) -> tuple[int, tuple[Lifecycle, ...]]:
    """Return how many were kept, and their lifecycles: pods run for ever where none are given.

    Raises:
        StateError: the file was damaged.
    """
    try:
        kept = msgspec.json.decode(paths.fake_nodes.read_bytes(), type=Fakes)
    except FileNotFoundError:
        return 0, (RUNS,)
    except msgspec.MsgspecError as error:
        raise StateError(f"{paths.fake_nodes} cannot be read: {error}", "delete it") from error
    return kept.count, _read(kept.lifecycles) if kept.lifecycles else (RUNS,)


def _read(text: str) -> tuple[Lifecycle, ...]:
    try:
        return read_lifecycles(text)
    except msgspec.MsgspecError as error:
        raise StateError(
            f"the lifecycles of fake nodes cannot be read: {error}", "see docs/how-to/place-pods.md"
        ) from error
