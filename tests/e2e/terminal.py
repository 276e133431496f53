"""A terminal, on which a command of the command line runs."""

from __future__ import annotations

import os
import pty
import subprocess
import threading

from tests.e2e.cluster_fixture import Cluster


def on_a_terminal(cluster: Cluster, *arguments: str, types: str = "", rc: int = 0, **environment: str) -> str:
    """Return what the command writes to a terminal, on which somebody has typed ahead, and ends with `rc`."""
    outer, inner = pty.openpty()
    os.write(outer, types.encode())
    chunks: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(outer, 65536):
                chunks.append(chunk)
        except OSError:  # EIO: the last writer has closed it
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        done = subprocess.run(
            cluster.trainshed_command(*arguments),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**cluster.environment, "TERM": "xterm-256color", **environment},
            timeout=60,
        )
    finally:
        os.close(inner)
        reader.join(10)
        os.close(outer)
    shown = b"".join(chunks).decode()
    assert done.returncode == rc, shown
    return shown
