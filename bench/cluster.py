"""A cluster of its own for a benchmark, through the same commands that users type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TRAINSHED = str(Path(sys.executable).with_name("trainshed"))


def trainshed(home: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command against the cluster of `home`."""
    environment = {**installed_environment(), "TRAINSHED_HOME": str(home)}
    return subprocess.run(
        [TRAINSHED, *arguments], env=environment, capture_output=True, text=True, check=check, timeout=300
    )


def installed_environment() -> dict[str, str]:
    """Return the environment of an installation's commands: it has its byte code."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def cluster() -> Iterator[Path]:
    """Yield the state directory of a fresh running cluster, stopped and deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
        home = Path(folder) / "state"
        trainshed(home, "up")
        try:
            yield home
        finally:
            trainshed(home, "down", "--purge", "--yes")


def status(home: Path) -> dict[str, Any]:
    """Return what `trainshed status -o json` says."""
    found: dict[str, Any] = json.loads(trainshed(home, "status", "-o", "json").stdout)
    return found


def until(what: str, condition: Any, seconds: float = 60.0) -> Any:
    """Return the first true value of `condition()`, polled every 2 ms. TimeoutError says what it waited for."""
    deadline = time.perf_counter() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.perf_counter() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.002)
