"""`run --watch`: runs again whenever a file is saved. The run itself is another process, which is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.markup import escape

from trainshed.cli.console import note
from trainshed.sdk.errors import UserError

_SECONDS = 0.25
"""How often files are looked at. A stat of each costs microseconds; there is no need of a library for it."""
_MOST = 5_000
_SUFFIXES = frozenset({".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".txt", ".sh"})
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "venv", "site-packages"})
_DETACH_SECONDS = 10.0

Stamps = dict[str, tuple[int, int]]
"""Path → time of the last change and size."""


def stamps(places: Sequence[Path]) -> Stamps:
    """Return what the files look like now: those that are named, and sources and manifests below directories.

    Raises:
        UserError: there are too many to watch.
    """
    found: Stamps = {}
    for file in _files(places):
        try:
            stat = file.stat()
        except OSError:
            continue  # saved by replacing it, and this was the moment between
        found[str(file)] = (stat.st_mtime_ns, stat.st_size)
        if len(found) > _MOST:
            raise UserError(f"more than {_MOST} files to watch", "run from a directory of the project")
    return found


def _files(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            yield from _below(place)
        else:
            yield place


def _below(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _PASSED_OVER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
        elif entry.suffix in _SUFFIXES:
            yield entry


def changed(before: Stamps, after: Stamps) -> str:
    """Return a file that is not what it was, empty when all are."""
    return next((path for path in {**before, **after} if before.get(path) != after.get(path)), "")


def run_again(arguments: Sequence[str], places: Sequence[Path]) -> int:
    """Run `trainshed run` with the arguments, and again with --replace after each change, until Ctrl-C.

    Returns the exit code of the last run; raises UserError as `stamps` does.
    """
    seen = stamps(places)
    note(f"watching {len(seen)} file{'' if len(seen) == 1 else 's'}; Ctrl-C ends it")
    code = 0
    # Ctrl-C reaches the run by itself, as it is in the same group: it detaches and says how to go on.
    child: subprocess.Popen[bytes] | None = _start(arguments)
    try:
        while True:
            time.sleep(_SECONDS)
            now = stamps(places)
            if child is not None and child.poll() is not None:
                code, child = child.returncode, None
                note("waiting for a file to be saved; Ctrl-C ends it")
            file = changed(seen, now)
            if file:
                seen = now
                if child is not None:
                    _interrupt(child)
                note(f"{escape(Path(file).name)} was saved: running again")
                child = _start(["--replace", *arguments])
    except KeyboardInterrupt:
        if child is not None:
            code = child.wait()
        return code


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "trainshed.cli.main", "run", *arguments])


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_DETACH_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
