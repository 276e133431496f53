"""The long runs: `python -m tests.hostile [escapes|leaks|crash|fuzz] [--pods N] [--points N] [--requests N]`.

A line of figures per suite; the exit status is not 0 after the first violation. Takes root for the half of the escapes
that is run as an ordinary user; without it the suite runs as whoever calls it. `--seed` repeats a draw.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.cluster_fixture import Cluster
from tests.hostile import crash, fuzz
from tests.hostile.leaks import leaks
from tests.hostile.suites import escapes


def run_escapes(seconds: float) -> str:
    """Return the line of the escape suite. Raises AssertionError with what was got hold of."""
    began = time.monotonic()
    counts = []
    with tempfile.TemporaryDirectory(prefix="trainshed-hostile-") as directory:
        homes = [("root" if os.geteuid() == 0 else "this user", Path(directory) / "state")]
        for whose, home in (*homes, *([("an ordinary user", None)] if os.geteuid() == 0 else [])):
            found = {name: printed for name, printed in escapes(home, seconds).items() if printed}
            assert not found, f"as {whose}: " + "; ".join(
                f"{name}: {text[:300]}" for name, text in found.items()
            )
            counts.append(whose)
    from tests.hostile.attempts import ATTEMPTS

    return (
        f"escapes: {len(ATTEMPTS)} programs, races of {seconds:.0f} s, as {' and '.join(counts)}: nothing got hold of, "
        f"{time.monotonic() - began:.0f} s"
    )


def run_leaks(pods: int) -> str:
    """Return the line of the leak suite. Raises AssertionError with what was left behind."""
    with tempfile.TemporaryDirectory(prefix="trainshed-hostile-") as directory:
        cluster = Cluster(Path(directory) / "state", Path(directory))
        try:
            cluster.up()
            cluster.until_operator()
            return leaks(cluster, pods)
        finally:
            cluster.purge()


def main() -> int:
    """Run the suites that are asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("suites", nargs="*", help="escapes, leaks, crash, fuzz; all when none is named")
    parser.add_argument("--pods", type=int, default=2000, help="how many the leak suite runs")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each race goes on")
    parser.add_argument("--points", type=int, default=500, help="how often the crash harness kills")
    parser.add_argument("--requests", type=int, default=150_000, help="how many the fuzz sends")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    seed = arguments.seed
    suites = {
        "escapes": lambda: run_escapes(arguments.seconds),
        "leaks": lambda: run_leaks(arguments.pods),
        "crash": lambda: crash.crash(arguments.points, seed),
        "fuzz": lambda: asyncio.run(fuzz.fuzz(arguments.requests, seed)),
    }
    wanted = arguments.suites or list(suites)
    if unknown := set(wanted) - set(suites):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    for name in wanted:
        try:
            print(suites[name](), flush=True)
        except (AssertionError, crash.Violation, fuzz.Violation) as violation:
            print(f"{name}: VIOLATED: {violation}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
