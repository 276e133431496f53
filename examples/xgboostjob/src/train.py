"""Train trees on data that is spread over the pods of an XGBoostJob: each pod has its own rows, all get one model.

MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE come from the operator. The master is rank 0 and runs the tracker, at
which the ranks meet, beside its own share of the training.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import time

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker


def reach(host: str, port: int, seconds: float = 120) -> str:
    """Return the address of a host, waiting until it listens: the pods of a job start in any order."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((host, port)) as connection:
                return str(connection.getpeername()[0])
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def rows_of(rank: int, rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that this rank alone has: ten features, and whether a point lies within a shell."""
    random = np.random.default_rng(rank)
    points = random.normal(size=(rows, 10))
    return points, (np.square(points).sum(axis=1) > 9.34).astype(np.float32)


def train(rounds: int) -> None:
    rank, world_size = collective.get_rank(), collective.get_world_size()
    points, labels = rows_of(int(os.environ["RANK"]))
    print(f"rank {rank} of {world_size}: {len(points)} rows on {socket.gethostname()}", flush=True)
    data = xgb.DMatrix(points, labels)
    history: dict[str, dict[str, list[float]]] = {}
    options = {"objective": "binary:logistic", "max_depth": 4, "eval_metric": "error", "nthread": 1}
    # The histograms of each round, and the metric after it, are summed over all ranks.
    model = xgb.train(
        options, data, rounds, evals=[(data, "train")], evals_result=history, verbose_eval=False
    )
    errors = history["train"]["error"]
    trees = hashlib.sha256("".join(model.get_dump()).encode()).hexdigest()[:12]
    print(f"error {errors[0]:.4f} -> {errors[-1]:.4f} over the rows of all ranks, model {trees}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Distributed XGBoost")
    parser.add_argument("--rounds", type=int, default=20, help="trees to grow (default: 20)")
    rounds = parser.parse_args().rounds
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"])
    tracker = None
    if rank == 0:
        address = socket.gethostbyname(socket.gethostname())
        tracker = RabitTracker(n_workers=world_size, host_ip=address, port=port, sortby="task")
        tracker.start()
    else:
        address = reach(os.environ["MASTER_ADDR"], port)
    # The tracker sorts by task, so that a rank of XGBoost is the rank that the operator gave.
    with collective.CommunicatorContext(
        dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=f"{rank:04}", dmlc_retry=60
    ):
        train(rounds)
    if tracker is not None:
        tracker.wait_for(timeout=60)


if __name__ == "__main__":
    main()
