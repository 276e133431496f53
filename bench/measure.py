"""Medians, spreads and the table they are printed as."""

from __future__ import annotations

import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured quantity: all samples in `unit`, the promise it is held against."""

    name: str
    unit: str
    samples: Sequence[float]
    target: float
    higher_is_better: bool = False
    statistic: str = "median"

    @property
    def value(self) -> float:
        """The figure that the target speaks of."""
        ordered = sorted(self.samples)
        if self.statistic == "p99":
            return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        if self.statistic == "max":
            return ordered[-1]
        return statistics.median(ordered)

    @property
    def met(self) -> bool:
        """Whether the promise holds in this run."""
        return self.value >= self.target if self.higher_is_better else self.value <= self.target


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    rows = [
        "| figure | target | measured | median | spread (min – max) | n | met |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for f in figures:
        bound = "≥" if f.higher_is_better else "≤"
        rows.append(
            f"| {f.name} | {bound} {f.target:g} {f.unit} | {f.value:.3g} {f.unit} ({f.statistic}) "
            f"| {statistics.median(f.samples):.3g} | {min(f.samples):.3g} – {max(f.samples):.3g} "
            f"| {len(f.samples)} | {'yes' if f.met else 'no'} |"
        )
    return "\n".join(rows)


def circumstances(root: Path) -> str:
    """Return one line about where and when the run took place."""
    cores = sum(1 for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor"))
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )
