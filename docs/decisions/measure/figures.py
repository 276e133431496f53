"""What the measuring scripts share: samples in rounds, medians, memory, one Markdown table."""
# ruff: noqa: T201

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path


def alternate(rounds: int, cases: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Return the samples of each case, taken in turn: noise of the machine hits all of them."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            samples[name].append(case())
    return samples


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """Return the value that one in a hundred exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def memory_mib(pid: int | str = "self", field: str = "Rss") -> float:
    """Return a field of /proc/<pid>/smaps_rollup (Rss, Pss, Private_Dirty ...) in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def in_fresh_process(code: str, *arguments: str, python: str = sys.executable) -> list[float]:
    """Run `code` in a new interpreter; return the numbers that it prints."""
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


_COST = """
import sys, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) / 256
before, started = resident(), time.perf_counter()
exec(sys.argv[1])
print((time.perf_counter() - started) * 1e3, resident() - before)
"""


def cost(code: str, rounds: int = 5) -> tuple[float, float]:
    """Return the median milliseconds and MiB that `code` takes in an interpreter that has imported nothing."""
    found = [in_fresh_process(_COST, code) for _ in range(rounds)]
    return median([f[0] for f in found]), median([f[1] for f in found])


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_versions(*distributions: str) -> None:
    """Print where and with what this ran."""
    parts = [f"Linux {platform.release().partition('-')[0]}", f"Python {platform.python_version()}"]
    parts += [f"{name} {metadata.version(name)}" for name in distributions]
    print(", ".join(parts), end="\n\n")
