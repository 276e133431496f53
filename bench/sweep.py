"""Plays every fault of every scenario of every kind, and prints each that ends otherwise than without it.

    python -m bench.sweep                                all of them: some 75,000 plays
    python -m bench.sweep --every 20                     one in twenty, at random
    python -m bench.sweep --only "MPIJob suspend"        scenarios whose name contains this
    python -m bench.sweep --only "MPIJob suspend" --fault "call 31 409"     one play

`tests/histories/sweep.py` says what must not depend on a fault, `tests/fakes/scenarios.py` what is played.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.fakes.scenarios import Scenario, Shape, cases
from tests.histories.sweep import differences, faults, judge, play


class Outcome(NamedTuple):
    """What became of one scenario of one shape: how many faults were played, and what is wrong by fault."""

    plays: int
    wrong: dict[str, list[str]]
    cpu_seconds: float


def sweep(shape: Shape, scenario: Scenario, every: int, only: str) -> Outcome:
    """Play the scenario without a fault and then with each; `every` is how many are passed over for one."""
    logging.disable(logging.CRITICAL)
    started = time.process_time()
    reference = play(shape, scenario)
    wrong = {"no fault": differences(reference, reference, scenario.expected_runs(shape))}
    choose = random.Random(f"{shape} {scenario} {every}")
    chosen = [
        fault
        for fault in faults(reference)
        if (only in ("", str(fault)) and (every == 1 or choose.random() * every < 1))
    ]
    wrong |= {str(fault): judge(shape, scenario, fault, reference) for fault in chosen}
    found = {what: said for what, said in wrong.items() if said}
    return Outcome(len(chosen), found, time.process_time() - started)


def named(text: str) -> Iterator[tuple[Shape, Scenario]]:
    """Yield the cases whose name contains the text."""
    return ((shape, scenario) for shape, scenario in cases() if text in f"{shape} {scenario}")


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="play one fault in so many (1: all)")
    parser.add_argument("--only", default="", help="part of `<kind>[-<form>] <scenario>`")
    parser.add_argument("--fault", default="", help="play this one alone, as it was printed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    chosen = list(named(arguments.only))
    plays, cpu, wrong = 0, 0.0, 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        running = [
            (shape, scenario, pool.submit(sweep, shape, scenario, arguments.every, arguments.fault))
            for shape, scenario in chosen
        ]
        for shape, scenario, task in running:
            outcome = task.result()
            print(f"{shape} {scenario}: {outcome.plays} faults, {len(outcome.wrong)} wrong", flush=True)
            plays, cpu, wrong = plays + outcome.plays, cpu + outcome.cpu_seconds, wrong + len(outcome.wrong)
            for fault, said in outcome.wrong.items():
                print(f"{shape} {scenario}, {fault}:", *said, sep="\n    ", flush=True)
    kinds = len({shape.kind for shape, _ in chosen})
    print(
        f"crash sweep: {plays} faults in {len(chosen)} scenarios of {kinds} kinds, {wrong} ended otherwise; "
        f"{cpu:.0f} s CPU, {time.perf_counter() - started:.0f} s"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
