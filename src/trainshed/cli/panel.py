"""The panel below the log lines: of each job its state, replicas, progress, loss and time left, in rows that fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from rich.text import Text

from trainshed.kube.meta.duration import elapsed
from trainshed.kube.meta.objects import name_of, namespace_of, status_of
from trainshed.kube.meta.times import time_or_none
from trainshed.sdk import state as jobstate
from trainshed.sdk.followview import Snapshot
from trainshed.sdk.progress import Progress, sparkline
from trainshed.sdk.state import Replica, joined_names

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_STATE_STYLES = {"Running": "green", "Succeeded": "bold green", "Failed": "bold red", "Restarting": "yellow"}
_ONE_EACH = 4
"""Up to so many replicas have a row each; of more, those that are alike share one."""
_BARS = 4
"""So many progress bars of replicas are shown."""


def replica_colour(replica: str) -> str:
    """Return the colour of a replica's prefix; the same name has the same colour in every run."""
    return _COLOURS[sum(replica.encode()) % len(_COLOURS)]


def panel(
    snapshots: Sequence[Snapshot], frames: Mapping[str, str], now: float, width: int, height: int
) -> list[Text]:
    """Return the rows, none wider than `width`, at most half of `height` of them (but six if there are so many).

    `frames` are the beginnings of lines that are drawn over themselves, by the replica's name.
    """
    most = max(height // 2, min(height - 1, 6))
    bars = _bars(frames)
    left = max(most - 1 - len(bars), 1)
    hidden = len(snapshots) - max(left - 1, 0) if len(snapshots) > left else 0
    rows = [*bars, Text("─" * width, "dim")]
    for index, snapshot in enumerate(snapshots[: len(snapshots) - hidden]):
        job = _job(snapshot, now, width, max((left - bool(hidden)) // (len(snapshots) - hidden - index), 1))
        rows += job
        left -= len(job)
    if hidden:
        rows.append(Text(f"… and {hidden} more jobs", "dim"))
    for row in rows:
        row.truncate(width, overflow="ellipsis")
    return rows[:most]


def _bars(frames: Mapping[str, str]) -> list[Text]:
    names = sorted(frames, key=jobstate.natural)
    rows = [
        Text.assemble((f"[{name}] ", replica_colour(name)), frames[name].expandtabs())
        for name in names[:_BARS]
    ]
    for row in rows:
        row.plain = "".join(c if c.isprintable() else " " for c in row.plain)
    return [*rows, Text(f"… and {len(names) - _BARS} more bars", "dim")] if len(names) > _BARS else rows


def _job(snapshot: Snapshot, now: float, width: int, most: int) -> list[Text]:
    """Return at most `most` rows of one job: the head, its progress, and as many of its replicas as fit between."""
    state = jobstate.state_of(snapshot.job)
    over = jobstate.is_finished(snapshot.job)
    completed = time_or_none(status_of(snapshot.job).get("completionTime")) if over else None
    head = Text.assemble(
        (f"{snapshot.job['kind']} ", "bold"),
        f"{namespace_of(snapshot.job)}/{name_of(snapshot.job)}  ",
        (state, _STATE_STYLES.get(state, "yellow")),
        f"  {elapsed(max((completed or now) - snapshot.started_at, 0.0))}",
    )
    how_far = None
    if jobstate.condition(snapshot.job, "Succeeded") is None:
        how_far = _how_far(snapshot.progress, None if over else now, width)
    progress = [*([how_far] if how_far else []), *_measured(snapshot.progress, width)][: max(most - 2, 0)]
    replicas = _replicas(snapshot.replicas)
    room = max(most - 1 - len(progress), 0)
    if len(replicas) > room:
        states = Counter(replica.state for replica in snapshot.replicas)
        said = ", ".join(f"{count} {name}" for name, count in states.most_common())
        replicas = [Text(f"{len(snapshot.replicas)} replicas: {said}")][:room]
    return [head, *replicas, *progress]


class _Row(msgspec.Struct, frozen=True):
    """What replicas of one row have in common."""

    type: str
    state: str
    restarts: int
    detail: str


def _replicas(replicas: Sequence[Replica]) -> list[Text]:
    if len(replicas) <= _ONE_EACH:
        groups = [(replica.name, replica) for replica in replicas]
    else:
        alike: dict[_Row, list[Replica]] = {}
        for each in replicas:
            like = _Row(each.name.rpartition("-")[0], each.state, each.restarts, each.detail)
            alike.setdefault(like, []).append(each)
        groups = [(joined_names([replica.name for replica in group]), group[0]) for group in alike.values()]
    longest = max((len(name) for name, _ in groups), default=0)
    states = max((len(replica.state) for _, replica in groups), default=0)
    rows = []
    for name, replica in groups:
        restarts = (
            f"{replica.restarts} restart{'s' if replica.restarts > 1 else ''}  " if replica.restarts else ""
        )
        rows.append(
            Text.assemble(
                (name.ljust(min(longest, 30)), replica_colour(replica.name)),
                f"  {replica.state.ljust(states)}  ",
                restarts,
                replica.detail,
            )
        )
    for row in rows:
        row.rstrip()
    return rows


def _measured(progress: Progress, width: int) -> list[Text]:
    curve = Text()
    if progress.losses:
        chart = sparkline(progress.losses, max(min(width - 40, 60), 0))
        curve.append(f"{progress.loss_name} {progress.losses[-1]:.4f} ", "bold").append(chart, "cyan")
    if progress.accuracy is not None:
        curve.append("  accuracy " if curve else "accuracy ").append(f"{progress.accuracy:.4f}", "bold green")
    return [curve] if curve else []


def _how_far(progress: Progress, now: float | None, width: int) -> Text | None:
    """Return the row of epoch, step and, at `now`, time left: of the run, or of a part where only that is known.

    None where there is nothing to say.
    """
    of = f"/{progress.epochs}" if progress.epochs and progress.fraction is not None else ""
    epoch = progress.epoch if float(progress.done_epochs or 0).is_integer() else f"{progress.done_epochs:.2f}"
    words = [] if epoch is None else [f"epoch {epoch}{of}"]
    share, left, note = progress.fraction, None if now is None else progress.eta_seconds(now), ""
    if share is None and progress.part is not None:
        share, note = progress.part, " of these steps"
        left = None if now is None else progress.part_eta_seconds(now)
        words.append(f"{progress.seen:g}/{progress.total:g}")
    elif share is None and progress.seen:
        words.append(f"step {progress.seen:g}")
    if share is None:
        return Text(" ".join(words)) if words else None
    size = max(min(30, width - 40), 8)
    done = round(share * size)
    row = Text.assemble(
        " ".join(words), " " if words else "", ("█" * done, "cyan"), ("░" * (size - done), "dim")
    )
    row.append(f" {share * 100:3.0f}%{note}")
    if left is not None:
        row.append(f"  ETA {elapsed(left)}" if not note else f", {elapsed(left)} left")
    return row
