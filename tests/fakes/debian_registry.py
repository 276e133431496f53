"""Debian's `docker-registry`, the reference implementation, in a directory of its own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trainshed.testing import until


@contextmanager
def debian_registry(directory: Path, **settings: Any) -> Iterator[str]:
    """Yield the address of an empty registry; `tls` and `auth` are as in its configuration."""
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        pytest.skip("no docker-registry here: apt-get install docker-registry")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(directory / "registry")}},
        "http": {"addr": address, **({"tls": settings["tls"]} if "tls" in settings else {})},
        "log": {"accesslog": {"disabled": True}, "level": "error"},
        **({"auth": settings["auth"]} if "auth" in settings else {}),
    }
    file = directory / "config.yml"
    file.write_text(json.dumps(config))  # which is YAML, too
    process = subprocess.Popen(
        [program, "serve", str(file)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: _listens(address), "the registry to listen")
        yield address
    finally:
        process.kill()
        process.wait()


def _listens(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
