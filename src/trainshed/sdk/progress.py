"""What a training job's log lines say about its progress. Pure: lines and instants in, figures out."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

_STEP = re.compile(r"Train Epoch:\s*(?P<epoch>\d+)\s*\[(?P<seen>\d+)/(?P<total>\d+)", re.IGNORECASE)
_LOSS = re.compile(r"\bloss[=:]\s*(?P<loss>[-+]?\d[\d.]*(?:[eE][-+]?\d+)?)", re.IGNORECASE)
_ACCURACY = re.compile(r"\baccuracy[=:]\s*(?P<accuracy>\d[\d.]*)\s*(?P<percent>%)?", re.IGNORECASE)
_EPOCHS = re.compile(r"--epochs?[= ](\d+)")
_KEPT_LOSSES = 400


class Progress(msgspec.Struct, frozen=True):
    """How far a job is. `fraction` is of the whole run, 0 to 1, when the number of epochs is known."""

    epochs: int = 1
    first_epoch: int | None = None
    epoch: int = 0
    seen: int = 0
    total: int = 0
    losses: tuple[float, ...] = ()
    accuracy: float | None = None
    first_step_at: float | None = None
    first_fraction: float = 0.0
    last_step_at: float | None = None

    @property
    def fraction(self) -> float:
        """Share of the run that is done, 0 to 1."""
        if not self.total or self.first_epoch is None:
            return 0.0
        done = (self.epoch - self.first_epoch) + min(self.seen / self.total, 1.0)
        return min(done / max(self.epochs, 1), 1.0)

    def eta_seconds(self, now: float) -> float | None:
        """Return the seconds left at the pace since the first step; None while there is no pace yet."""
        if self.first_step_at is None or self.last_step_at is None:
            return None
        gained = self.fraction - self.first_fraction
        spent = self.last_step_at - self.first_step_at
        if gained <= 0 or spent <= 0:
            return None
        left = (1.0 - self.fraction) * spent / gained
        return max(left - (now - self.last_step_at), 0.0)


def epochs_of(command: str) -> int:
    """Return the number of epochs that a command line asks for, 1 when it does not say."""
    found = _EPOCHS.search(command)
    return int(found.group(1)) if found else 1


def advance(progress: Progress, line: str, now: float) -> Progress:
    """Return the progress after one log line; a line that says nothing about it changes nothing.

    Understands the format of the PyTorch examples (`Train Epoch: 1 [640/60000 (1%)] loss=2.2`), any
    `loss=<number>` and `accuracy=<number>`.
    """
    step = _STEP.search(line)
    if step:
        epoch, seen, total = int(step["epoch"]), int(step["seen"]), int(step["total"])
        first_epoch = epoch if progress.first_epoch is None else progress.first_epoch
        progress = msgspec.structs.replace(
            progress, first_epoch=first_epoch, epoch=epoch, seen=seen, total=total, last_step_at=now
        )
        if progress.first_step_at is None:
            progress = msgspec.structs.replace(progress, first_step_at=now, first_fraction=progress.fraction)
    loss = _LOSS.search(line)
    if loss:
        try:
            value = float(loss["loss"])
        except ValueError:
            pass
        else:
            progress = msgspec.structs.replace(progress, losses=(*progress.losses, value)[-_KEPT_LOSSES:])
    accuracy = _ACCURACY.search(line)
    if accuracy:
        value = float(accuracy["accuracy"].rstrip("."))
        if accuracy["percent"] or value > 1:
            value /= 100
        progress = msgspec.structs.replace(progress, accuracy=value)
    return progress


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: tuple[float, ...], width: int) -> str:
    """Return the values as a line of bars of at most `width` characters, each the mean of its share."""
    # A diverged loss (nan, inf, or on its way there) has no place on a scale.
    finite = [v for v in values if abs(v) < 1e100]
    if not finite or width < 1:
        return ""
    if len(finite) > width:
        edges = [round(i * len(finite) / width) for i in range(width + 1)]
        finite = [sum(finite[a:b]) / (b - a) for a, b in pairwise(edges) if b > a]
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    return "".join(_BARS[round((v - low) / span * (len(_BARS) - 1))] for v in finite)
