"""Fit a line with mpi4py in the processes that `mpirun` starts: each has its own rows, all-reduce sums the gradients.

mpirun -n 4 python3 train.py
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI

WANTED = np.array([2.0, -3.0, 0.5, 1.0])


def rows_of(rank: int, rows: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that this rank alone has: inputs, and what the wanted weights make of them."""
    inputs = np.random.default_rng(rank).normal(size=(rows, len(WANTED)))
    return inputs, inputs @ WANTED


def main() -> None:
    parser = argparse.ArgumentParser(description="Distributed training over MPI")
    parser.add_argument("--steps", type=int, default=100, help="gradient steps (default: 100)")
    steps = parser.parse_args().steps
    world = MPI.COMM_WORLD
    inputs, targets = rows_of(world.rank)
    print(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()}", flush=True)
    weights, total = np.zeros(len(WANTED)), np.empty(len(WANTED))
    for _ in range(steps):
        gradient = 2 * inputs.T @ (inputs @ weights - targets) / len(inputs)
        world.Allreduce(gradient, total, op=MPI.SUM)
        weights -= 0.1 * total / world.size
    everywhere = world.gather(weights, root=0)
    if everywhere is not None:
        agree = all(np.array_equal(weights, other) for other in everywhere)
        print(
            "weights",
            *(f"{value:.3f}" for value in weights),
            "on all ranks" if agree else "differ",
            flush=True,
        )


if __name__ == "__main__":
    main()
