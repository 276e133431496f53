"""Threads per rank, for 0009: `PYTHON docs/decisions/measure/threads.py` with an interpreter that has torch.

Trains the example's network with several ranks on this machine for a fixed number of steps, with OMP_NUM_THREADS
unset (a thread per core in every rank), 1, and what `thread_environment` chooses. Rounds alternate.
"""
# ruff: noqa: T201

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from figures import alternate, median, print_table, print_versions

from trainshed.cluster.node.pod.environment import thread_environment

RANKS = 3
STEPS = 40
ROUNDS = 3
SOURCE = Path(__file__).parents[3] / "examples/fashion-mnist/src"
TRAIN = """
import sys, time
import torch, torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
sys.path.insert(0, sys.argv[1])
from fashion_mnist.model import Net
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
for step in range(int(sys.argv[2]) + 5):
    if step == 5:
        dist.barrier()
        started = time.perf_counter()
    optimizer.zero_grad()
    F.nll_loss(model(images), labels).backward()
    optimizer.step()
dist.barrier()
if dist.get_rank() == 0:
    print(time.perf_counter() - started)
dist.destroy_process_group()
"""
_port = 29600


def train(threads: str, ranks: int) -> float:
    """Return images per second of all ranks together."""
    global _port
    _port += 1
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_port), "WORLD_SIZE": str(ranks)}
    if threads:
        environment["OMP_NUM_THREADS"] = threads
    command = [sys.executable, "-c", TRAIN, str(SOURCE), str(STEPS)]
    children = [
        subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outputs = [child.communicate(timeout=240)[0] for child in children]
    return STEPS * 64 * ranks / float(outputs[0])


def main() -> None:
    print_versions("torch")
    cores = os.cpu_count() or 1
    rows = []
    for ranks in (1, RANKS):
        chosen = thread_environment({"WORLD_SIZE": str(ranks)}, cores).get("OMP_NUM_THREADS", "")
        samples = alternate(
            ROUNDS,
            {text or "unset": lambda text=text: train(text, ranks) for text in ("", "1")},  # type: ignore[misc]  # noqa: B023
        )
        base = median(samples["unset"])
        for name, found in samples.items():
            mark = ", the default here" if name == (chosen or "unset") else ""
            spread = f"{min(found):,.0f} to {max(found):,.0f}"
            row = [f"{ranks}", name + mark, f"{median(found):,.0f}", spread, f"{median(found) / base:.2f}"]
            rows.append(row)
    print(f"{cores} cores, images per second of all ranks\n")
    print_table(["ranks", "OMP_NUM_THREADS", "median", "spread", "against unset"], rows)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - started:.0f} s")
