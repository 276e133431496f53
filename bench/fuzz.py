"""Asks the API server, the operator and `trainshed check` about any number of manifests with something wrong in them.

    python -m bench.fuzz                     20,000 manifests of all kinds, in as many processes as there are cores
    python -m bench.fuzz --count 500
    python -m bench.fuzz --first 500 --count 500    the next 500
    python -m bench.fuzz --print "JAXJob 7"  that one, as YAML

Prints each that ends neither taken nor refused at a field, and a line at the end.
`tests/fakes/manifests.py` says what may be wrong, `tests/cluster/job_fuzz.py` what is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import yaml
from tests.cluster.job_fuzz import examined, fuzzed_server
from tests.fakes.manifests import mutant, mutants


def share(numbers: range) -> tuple[Counter[str], list[str], float]:
    """Return what became of the manifests of these numbers, and the CPU seconds that it took."""
    logging.disable(logging.CRITICAL)
    started = time.process_time()

    async def main() -> tuple[Counter[str], list[str]]:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
            async with fuzzed_server(Path(home)) as world:
                return await examined(world, mutants(numbers))

    fates, wrong = asyncio.run(main())
    return fates, wrong, time.process_time() - started


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--print", metavar="NAME", help="print this manifest, as it was named, and end")
    arguments = parser.parse_args()
    if arguments.print:
        kind, _, number = arguments.print.partition(" ")
        print(yaml.safe_dump(mutant(kind, int(number)), sort_keys=False))
        return
    numbers = range(arguments.first, arguments.first + arguments.count)
    started = time.perf_counter()
    fates: Counter[str] = Counter()
    wrong: list[str] = []
    cpu = 0.0
    with ProcessPoolExecutor(arguments.processes) as pool:
        tasks = [
            pool.submit(share, numbers[offset :: arguments.processes])
            for offset in range(arguments.processes)
        ]
        for task in tasks:
            found, complaints, seconds = task.result()
            fates, wrong, cpu = fates + found, wrong + complaints, cpu + seconds
    for complaint in sorted(wrong):
        print(complaint)
    told = ", ".join(f"{fate} {number}" for fate, number in sorted(fates.items()))
    print(
        f"manifest fuzz: {len(numbers)} manifests from {arguments.first} on, {len(wrong)} wrong answers ({told}); "
        f"{cpu:.0f} s CPU, {time.perf_counter() - started:.0f} s"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
