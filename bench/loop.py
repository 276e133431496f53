"""What the loop of a user costs: following a chatty job, running a short one again, help and check."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench.cluster import TRAINSHED, cluster, trainshed
from bench.measure import Figure

LINES = 300_000
_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: &template
        spec:
          containers:
            - {name: pytorch, image: bench, command: [bash, -c, 'SCRIPT']}
    Worker: {replicas: 2, restartPolicy: Never, template: *template}
"""
_TALK = f'[ "$RANK" != 0 ] || seq -f "step %.0f of nothing in particular" {LINES}'


def measure(repetitions: int) -> list[Figure]:
    """Return CPU per line, into a pipe and on a terminal, and the time of reruns."""
    piped, shown, reruns, helps, checks = [], [], [], [], []
    with cluster() as home, tempfile.TemporaryDirectory() as folder:
        talk, short = Path(folder, "talk.yaml"), Path(folder, "short.yaml")
        talk.write_text(_JOB.replace("NAME", "talk").replace("SCRIPT", _TALK))
        short.write_text(_JOB.replace("NAME", "short").replace("SCRIPT", "echo hi"))
        trainshed(home, "run", str(talk))
        for _ in range(repetitions):
            piped.append(_cpu_per_line(home, terminal=False))
            shown.append(_cpu_per_line(home, terminal=True))
        trainshed(home, "run", str(short))
        for _ in range(17):
            began = time.perf_counter()
            trainshed(home, "run", str(short))
            reruns.append(time.perf_counter() - began)
        for _ in range(repetitions * 3):
            helps.append(_seconds(home, "--help"))
            checks.append(_seconds(home, "check", "--offline", str(short)))
    return [
        Figure("following a log into a pipe, CPU per line", "µs", piped, 50),
        Figure("following a log on a terminal, CPU per line", "µs", shown, 100),
        Figure("running a finished job again, to its end", "s", reruns, 1.5, statistic="max"),
        Figure("trainshed --help", "s", helps, 0.15),
        Figure("trainshed check --offline of a job", "s", checks, 0.4),
    ]


def _seconds(home: Path, *arguments: str) -> float:
    """Return how long a command takes."""
    began = time.perf_counter()
    trainshed(home, *arguments)
    return time.perf_counter() - began


def _cpu_per_line(home: Path, *, terminal: bool) -> float:
    """Return the microseconds of CPU that a `follow` of the finished job takes per line."""
    environment = {**os.environ, "TRAINSHED_HOME": str(home), "TERM": "xterm-256color"}
    before = _children_seconds()
    if terminal:
        outer, inner = pty.openpty()
        reader = threading.Thread(target=_read_all, args=(outer,), daemon=True)
        reader.start()
        subprocess.run([TRAINSHED, "follow", "talk"], env=environment, stdout=inner, stderr=inner, check=True)
        os.close(inner)
        reader.join(10)
        os.close(outer)
    else:
        subprocess.run(
            [TRAINSHED, "follow", "talk"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return (_children_seconds() - before) / LINES * 1e6


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read_all(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:  # EIO: the last writer has closed it
        return
