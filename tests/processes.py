"""What /proc says of the processes of this machine (proc(5))."""

from __future__ import annotations

import os
from pathlib import Path


def processes_with(word: str) -> list[int]:
    """Return the processes, this one left out, that have `word` in their command line."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if word.encode() in (directory / "cmdline").read_bytes():
                    found.append(int(directory.name))
            except OSError:
                continue
    return sorted(found)


def is_running(pid: int) -> bool:
    """Return whether a process lives; a zombie that nobody has reaped does not."""
    fields = _stat(pid)
    return fields is not None and fields[0] != "Z"


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, None when it is gone."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def resident_bytes(pid: int) -> int:
    """Return how much memory a process has, shared pages included. Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name of a process: its state, its parent and more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
