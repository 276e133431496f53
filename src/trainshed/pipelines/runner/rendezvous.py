"""Workers of one step that run as tasks of their own find one another in a directory of the run.

Each writes a file of its own in one piece and waits for the others', for a limited time. Nothing of an earlier run is
there, since the directory is the run's; a worker that is started again replaces its own file.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

PORT = 12345


class Missing(Exception):
    """Not all workers came in time."""


def address() -> str:
    """Return the one address by which other pods reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent; the kernel chooses the address of the route
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostbyname(socket.gethostname())


def meet(folder: Path, index: int, workers: int, own: str, timeout: float, poll: float = 0.5) -> list[str]:
    """Return the addresses of all workers in order. Raises Missing after `timeout` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"worker-{index}.failed").unlink(missing_ok=True)
    partial = folder / f".worker-{index}.{os.getpid()}"
    partial.write_text(json.dumps({"address": own}))
    partial.replace(folder / f"worker-{index}.json")
    deadline = time.monotonic() + timeout
    while True:
        files = [folder / f"worker-{i}.json" for i in range(workers)]
        absent = [i for i, file in enumerate(files) if not file.exists()]
        if not absent:
            return [str(json.loads(file.read_text())["address"]) for file in files]
        if time.monotonic() > deadline:
            raise Missing(f"waited {timeout:g} s for worker {', '.join(map(str, absent))} of {workers}")
        time.sleep(poll)


def fail(folder: Path, index: int) -> None:
    """Tell the others that this worker failed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"worker-{index}.failed").touch()


async def failure_of_peer(folder: Path, index: int, poll: float = 1.0) -> str:
    """Return only when another worker has failed, with a sentence that says so."""
    while True:
        for file in sorted(folder.glob("worker-*.failed")):
            if file.name != f"worker-{index}.failed":
                return f"{file.stem.replace('-', ' ')} failed"
        await asyncio.sleep(poll)


def environment(strategy: str, addresses: list[str], index: int, port: int = PORT) -> Mapping[str, str]:
    """Return the variables by which a framework knows its workers."""
    common = {"NUM_WORKERS": str(len(addresses)), "WORKER_INDEX": str(index)}
    if strategy == "MultiWorkerMirroredStrategy":
        cluster = {"worker": [f"{a}:{port}" for a in addresses]}
        return common | {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        }
    if strategy == "DDP":
        return common | {
            "PET_NNODES": str(len(addresses)),
            "PET_NODE_RANK": str(index),
            "PET_MASTER_ADDR": addresses[0],
            "PET_MASTER_PORT": str(port),
        }
    if strategy == "JAX":
        return common | {
            "COORDINATOR_ADDRESS": addresses[0],
            "COORDINATOR_PORT": str(port),
            "NUM_PROCESSES": str(len(addresses)),
            "PROCESS_ID": str(index),
        }
    return common | {
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(len(addresses)),
        "RANK": str(index),
    }
