"""The Fashion-MNIST example with three ranks: in pods, and under bare torchrun on the same machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from bench.cluster import TRAINSHED, cluster, trainshed
from bench.measure import Figure

RANKS = 3
SOURCE = Path(__file__).parent.parent / "examples/fashion-mnist/src"
_STEP = re.compile(r"Train Epoch: \d+ \[(\d+)/")


def measure(repetitions: int) -> list[Figure]:
    """Return ratios of the job against bare torchrun, taken alternately."""
    first, throughput = [], []
    with cluster() as home:
        data = home.parent / "data"
        subprocess.run(
            [sys.executable, SOURCE / "make_data.py", data, "--train", "30000", "--test", "1000"], check=True
        )
        trainshed(home, "image", "add", "bench:1", "--layer", f"{SOURCE}:/opt/mnist/src")
        manifest = home.parent / "job.yaml"
        manifest.write_text(MANIFEST.format(data=data / "idx"))
        for number in range(repetitions):
            bare = _timed(_bare_command(data / "idx", home.parent / f"bare-{number}"), {})
            pods = _timed([TRAINSHED, "run", str(manifest)], {"TRAINSHED_HOME": str(home), "NO_COLOR": "1"})
            first.append(pods[0] / bare[0])
            throughput.append(pods[1] / bare[1])
    return [
        Figure("apply to first training step, against bare torchrun", "×", first, 1.15),
        Figure("training throughput, against bare torchrun", "×", throughput, 0.98, higher_is_better=True),
    ]


def _bare_command(data: Path, output: Path) -> list[str]:
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    return [
        torchrun, "--nproc_per_node", str(RANKS), str(SOURCE / "mnist_training.py"),
        f"--data={data}", f"--models={output}", f"--dir={output}/logs",
    ]  # fmt: skip


def _timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return (seconds to the first logged step, images per second between the first and the last one)."""
    steps: list[tuple[float, int]] = []
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            found = _STEP.search(line)
            if found:
                steps.append((time.perf_counter(), int(found[1])))
        if process.wait() or len(steps) < 2:
            raise RuntimeError(f"{command[0]} failed:\n{''.join(output)[-3000:]}")
    (first_at, first_seen), (last_at, last_seen) = steps[0], steps[-1]
    return first_at - started, (last_seen - first_seen) / (last_at - first_at)


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bench
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: bench:1
              command: [python3, /opt/mnist/src/mnist_training.py]
              args: [--data=/mnt/data, --models=/tmp/models, --dir=/tmp/logs]
              volumeMounts: [{{name: data, mountPath: /mnt/data}}]
          volumes:
            - name: data
              hostPath: {{path: {data}}}
    Worker:
      <<: *replica
      replicas: 2
"""
