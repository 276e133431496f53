"""An all-reduce by gloo between two ranks: in two pods, and in two bare processes on the same machine.

Run as a program by each rank, it prints how many MiB per second one all-reduce moves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.measure import Figure

MEBIBYTES = 64
ROUNDS = 20
PROGRAM = Path(__file__)


def measure(repetitions: int) -> list[Figure]:
    """Return the ratio of pods against bare processes, taken alternately."""
    from bench.cluster import cluster, trainshed  # not at the top: in a pod there is this file alone
    from bench.measure import Figure

    ratios = []
    with cluster() as home:
        trainshed(home, "image", "add", "allreduce:1", "--layer", f"{PROGRAM.parent}:/opt/bench")
        manifest = home.parent / "allreduce.yaml"
        manifest.write_text(MANIFEST)
        for _ in range(repetitions):
            bare = _rate(_bare())
            pods = _rate(trainshed(home, "run", str(manifest)).stdout)
            ratios.append(pods / bare)
    return [Figure("gloo all-reduce of 64 MiB, pods against bare", "×", ratios, 0.95, higher_is_better=True)]


def _bare() -> str:
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc_per_node", "2", str(PROGRAM)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(torchrun, env=environment, capture_output=True, text=True, check=True).stdout


def _rate(output: str) -> float:
    return float(output.partition("MiB/s: ")[2].split()[0])


def main() -> None:
    """Reduce one tensor again and again; the first rank tells the rate."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    tensor = torch.ones(MEBIBYTES * 2**18)
    distributed.all_reduce(tensor)
    started = time.perf_counter()
    for _ in range(ROUNDS):
        distributed.all_reduce(tensor)
    if distributed.get_rank() == 0:
        print(f"MiB/s: {MEBIBYTES * ROUNDS / (time.perf_counter() - started):.1f}", flush=True)
    distributed.barrier()
    os._exit(0)


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: allreduce
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: allreduce:1
              command: [python3, /opt/bench/allreduce.py]
              env: [{name: OMP_NUM_THREADS, value: "1"}]
    Worker: *replica
"""


if __name__ == "__main__":
    main()
