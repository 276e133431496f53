"""How long a notebook's run takes on a warm cluster, and what a step costs beside its own code.

The candies notebook has four steps one after another, whose own code takes no time. Alone: `python -m bench.pipelines`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.cluster import cluster, trainshed
from bench.measure import Figure

NOTEBOOK = Path(__file__).parent.parent / "examples/notebooks/candies.ipynb"
STEPS = 4


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of so many runs, after one that warms up the files."""
    whole: list[float] = []
    with cluster() as home:
        for number in range(repetitions + 1):
            started = time.perf_counter()
            done = trainshed(home, "notebook", "run", str(NOTEBOOK), "-o", "json")
            seconds = time.perf_counter() - started
            assert json.loads(done.stdout)["succeeded"], done.stdout
            if number:
                whole.append(seconds)
    return [
        Figure("candies notebook, 4 steps, end to end", "s", whole, 2.0),
        Figure("a step of a notebook: pod, kernel, load, save", "s", [w / STEPS for w in whole], 0.7),
    ]


def main() -> None:
    """Print the figures."""
    for figure in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(f"{figure.name}: {figure.value:.2f} {figure.unit} (promise {figure.target})")


if __name__ == "__main__":
    main()
