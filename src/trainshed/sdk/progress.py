"""How far a training job is, by what its log lines say. Pure: lines and instants in, figures out.

What nobody said is not guessed: without the number of epochs there is no share of the run and no time left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from trainshed.sdk.logformats import Reading, Scope, read

_EPOCHS = re.compile(
    r"(?:^|\s)(?:--?|[\w.]*\.)?(?:num[_-]train[_-]|num[_-]|max[_-]|n[_-]|total[_-]|train[_-])?"
    r"epochs?[= ]+(\d{1,9})(?!\S)"
    r"|(?:^|\s)-e[= ](\d{1,9})(?!\S)",
    re.IGNORECASE,
)
_KEPT_LOSSES = 400


class Progress(msgspec.Struct, frozen=True):
    """How far a job is. Nothing in it is a guess: what the log does not tell is None.

    `epochs` is how many the run has, `epoch` the one that was printed last, `seen` of `total` the step, which counts
    in an epoch, in the run, or in what nobody says (`scope`). `accuracy` is a share, 0 to 1, of validation data if the
    log has one; `metrics` holds the last value of each metric. Instants are in seconds since the epoch: of the first
    step, of the last that brought the run on, and of the last line that told anything.
    """

    epochs: int | None = None
    first_epoch: int | None = None
    epoch: int | None = None
    done_epochs: float | None = None
    seen: float = 0
    total: float = 0
    scope: Scope = ""
    losses: tuple[float, ...] = ()
    loss_name: str = "loss"
    accuracy: float | None = None
    metrics: Mapping[str, float] = {}
    in_percent: bool = False
    seconds_left: float | None = None
    first_step_at: float | None = None
    first_fraction: float = 0.0
    last_step_at: float | None = None
    told_at: float | None = None

    @property
    def is_told(self) -> bool:
        """Whether any line said anything."""
        return self.told_at is not None

    @property
    def fraction(self) -> float | None:
        """Share of the run that is done, 0 to 1; None when the log does not tell."""
        if self.scope == "run" and self.total:
            return min(self.seen / self.total, 1.0)
        done = self._done()
        if done is None or not self.epochs or done > self.epochs + 1e-6:
            return None
        return min(done / self.epochs, 1.0)

    @property
    def part(self) -> float | None:
        """Share of the stretch that `seen` and `total` count, 0 to 1; None when there is none."""
        return min(self.seen / self.total, 1.0) if self.total else None

    def _done(self) -> float | None:
        """Return how many epochs are done."""
        if self.done_epochs is not None:
            return self.done_epochs
        base = _base(self)
        if base is None or self.epoch is None or not (self.scope == "epoch" or not self.total):
            return None
        return self.epoch - base + (self.part or 0.0)

    def eta_seconds(self, now: float) -> float | None:
        """Return the seconds left at the pace since the first step; None while there is no pace yet."""
        fraction = self.fraction
        if fraction is None or self.first_step_at is None or self.last_step_at is None:
            return None
        gained = fraction - self.first_fraction
        spent = self.last_step_at - self.first_step_at
        if gained <= 0 or spent <= 0:
            return None
        left = (1.0 - fraction) * spent / gained
        return max(left - max(now - self.last_step_at, 0.0), 0.0)

    def part_eta_seconds(self, now: float) -> float | None:
        """Return the seconds that a progress bar itself says are left of its stretch; None without one."""
        if self.seconds_left is None or self.told_at is None:
            return None
        return max(self.seconds_left - max(now - self.told_at, 0.0), 0.0)


def epochs_of(command: str) -> int | None:
    """Return the number of epochs that a command line asks for, None when it does not say."""
    found = _EPOCHS.search(command)
    return int(found[1] or found[2]) if found else None


def _base(progress: Progress) -> int | None:
    """Return the number of the first epoch of the run, None when it may be one of two.

    A run that goes on at epoch 3 of 10 has either had two, or is told to do ten more.
    """
    first, epochs = progress.first_epoch, progress.epochs
    if first is None or epochs is None:
        return None
    return first if first <= 1 or first > epochs else None


def advance(progress: Progress, line: str, now: float) -> Progress:
    """Return the progress after one log line of one replica; a line that says nothing about it changes nothing."""
    reading = read(line)
    return progress if reading is None else after(progress, reading, now)


def after(progress: Progress, reading: Reading, now: float) -> Progress:
    """Return the progress after a reading that was printed at `now` (epoch seconds)."""
    before = progress
    progress = msgspec.structs.replace(progress, told_at=now)
    if reading.metrics:
        progress = _measured(progress, reading)
    if reading.epochs is not None:
        progress = msgspec.structs.replace(progress, epochs=reading.epochs)
    if reading.epoch is None and reading.step is None and reading.done_epochs is None:
        return progress
    progress = msgspec.structs.replace(_placed(progress, reading), seconds_left=reading.seconds_left)
    fraction, earlier = progress.fraction, before.fraction
    if fraction is None:
        return msgspec.structs.replace(progress, first_step_at=None)
    if progress.first_step_at is None or fraction < (earlier or 0.0):  # it began, or began anew
        progress = msgspec.structs.replace(progress, first_step_at=now, first_fraction=fraction)
    return progress if fraction == earlier else msgspec.structs.replace(progress, last_step_at=now)


def _placed(progress: Progress, reading: Reading) -> Progress:
    epoch, step, steps, scope = reading.epoch, reading.step, reading.steps, reading.scope
    if reading.done_epochs is not None:
        progress = msgspec.structs.replace(
            progress, done_epochs=reading.done_epochs, epoch=math.floor(reading.done_epochs)
        )
    if epoch is not None:
        if epoch != progress.epoch:
            if (
                progress.scope != "run"
                and scope == "epoch"
                and step is not None
                and _goes_on(progress, step, steps)
            ):
                scope = "run"
            progress = msgspec.structs.replace(progress, seen=0, total=0, scope="", done_epochs=None)
        first = epoch if progress.first_epoch is None else min(epoch, progress.first_epoch)
        progress = msgspec.structs.replace(progress, epoch=epoch, first_epoch=first)
        if step is None and reading.metrics and (base := _base(progress)) is not None:
            # Epoch and loss alone in a line: printed at the epoch's end.
            progress = msgspec.structs.replace(progress, done_epochs=float(epoch - base + 1))
    if step is None:
        return progress
    if steps is None:
        steps = progress.total if step <= progress.total and scope == "" else 0
        scope = progress.scope if steps else ""
    elif scope == "epoch" and progress.scope == "run" and steps == progress.total:
        scope = "run"
    if scope == "epoch":
        progress = msgspec.structs.replace(progress, done_epochs=None)
    return msgspec.structs.replace(progress, seen=step, total=steps, scope=scope)


def _goes_on(progress: Progress, step: float, steps: float | None) -> bool:
    """Return whether steps are counted on from epoch to epoch: then they are of the run."""
    return progress.scope == "epoch" and progress.total == steps and step > progress.seen > 0


def _measured(progress: Progress, reading: Reading) -> Progress:
    metrics, in_percent = dict(reading.metrics), progress.in_percent
    for name in ("accuracy", "val_accuracy"):
        value = metrics.get(name)
        if value is None:
            continue
        if reading.is_bare and 1 < value <= 100:
            in_percent = True
        if reading.is_bare and in_percent:
            value /= 100
        if 0 <= value <= 1:
            metrics[name] = value
        else:
            del metrics[name]
    known = {**progress.metrics, **metrics}
    progress = msgspec.structs.replace(
        progress,
        metrics=known,
        in_percent=in_percent,
        accuracy=known.get("val_accuracy", known.get("accuracy")),
    )
    curve = _curve(progress, metrics)
    if curve is None:
        return progress
    earlier = progress.losses if curve == progress.loss_name else ()
    return msgspec.structs.replace(
        progress, losses=(*earlier, metrics[curve])[-_KEPT_LOSSES:], loss_name=curve
    )


def _curve(progress: Progress, metrics: Mapping[str, float]) -> str | None:
    """Return the metric that the curve shows, if it is among these: the loss, or the error of a run without one."""
    if "loss" in metrics:
        return "loss"
    if progress.losses:
        return progress.loss_name if progress.loss_name in metrics else None
    errors = [name for name in metrics if not name.startswith("val_") and not name.endswith("accuracy")]
    return errors[0] if errors else None


def first_told(progresses: Iterable[Progress]) -> Progress | None:
    """Return the first that any line told something of: of several replicas, in the order of ranks, the one to show."""
    return next((progress for progress in progresses if progress.is_told), None)


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
