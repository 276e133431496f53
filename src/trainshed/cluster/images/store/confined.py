"""Running the programs of `sandbox/layers`: one pipe in, one out, one line of JSON."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.sandbox import bootstrap, files

_CHUNK = 1 << 20
_RESERVE = 1 << 30
"""Bytes of a disk that no layer gets: below that its nodes have DiskPressure."""
_FILES_RESERVE = 100_000
"""Files of a disk that no layer gets, likewise."""
_MANY = 1 << 62
_PACKAGE = "trainshed.cluster.sandbox.layers"


def unpack(directory: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Unpack an archive into an empty directory; return how many `entries`, `bytes`, and `devices` left out.

    Raises:
        InvalidImage: the archive is refused.
        OSError: it cannot be written, or no user namespace can be made.
    """
    report_read, report_write = os.pipe()
    arguments = [str(directory), str(report_write), *map(str, _room(directory))]
    process = _start("unpack", arguments, [report_write], stdin=subprocess.PIPE)
    os.close(report_write)
    with open(report_read, "rb") as report:
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                for chunk in chunks:
                    pipe.write(chunk)
        except BrokenPipeError:
            pass  # it says why
        except BaseException:
            process.kill()
            process.wait()
            raise
        return _answer(report.read(), process)


def _room(directory: Path) -> tuple[int, int]:
    """Return how many bytes and how many files may be written there: not the last that the machine itself needs."""
    found = os.statvfs(directory)
    reserve = min(_RESERVE, found.f_blocks * found.f_frsize // 10)
    room = max(0, found.f_bavail * found.f_frsize - reserve)
    # Some file systems have no fixed number of files, and say 0.
    files = max(0, found.f_favail - min(_FILES_RESERVE, found.f_files // 10)) if found.f_files else _MANY
    return room, files


def copy(
    private: Path, what: Mapping[str, Any], source: IO[bytes] | None, archives: Sequence[int] = ()
) -> None:
    """Write an archive of files, and others given by descriptors, to the root of an image (`sandbox.layers.copy`).

    Raises:
        InvalidImage: what is asked for cannot be done in that root.
        OSError: it cannot be read or written, or no user namespace can be made.
    """
    text = json.dumps({**what, "archives": list(archives)})
    _run("copy", [str(private)], text, stdin=source or subprocess.DEVNULL, keep=archives)


def export(private: Path, what: Mapping[str, Any], target: IO[bytes]) -> dict[str, Any]:
    """Read files of an image's root into an archive; return how many `files` and `directories` were asked for.

    Raises InvalidImage where they are not there, or OSError.
    """
    return _run("export", [str(private)], json.dumps(what), stdout=target)


def pack(private: Path, options: Mapping[str, Any], sink: Callable[[bytes], None]) -> dict[str, Any]:
    """Give what was written to a root to `sink`, as the archive of a layer; return how many `entries` it has.

    Raises InvalidImage or OSError.
    """
    report_read, report_write = os.pipe()
    arguments = [str(private), str(report_write), json.dumps(options)]
    process = _start("pack", arguments, [report_write], stdout=subprocess.PIPE)
    os.close(report_write)
    with open(report_read, "rb") as report:
        assert process.stdout is not None
        try:
            with process.stdout as pipe:
                while data := pipe.read(_CHUNK):
                    sink(data)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return _answer(report.read(), process)


def _run(
    module: str,
    arguments: list[str],
    text: str,
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    keep: Sequence[int] = (),
) -> dict[str, Any]:
    report_read, report_write = os.pipe()
    try:
        process = _start(
            module, [*arguments, str(report_write), text], [report_write, *keep], stdin=stdin, stdout=stdout
        )
    finally:
        os.close(report_write)
    with open(report_read, "rb") as report:
        return _answer(report.read(), process)


def remove(parent: Path, *names: str) -> None:
    """Delete directories, whoever owns what is in them. Raises OSError."""
    try:
        for name in names:
            files.remove_tree(str(parent / name))
    except PermissionError:
        report_read, report_write = os.pipe()
        process = _start("remove", [str(report_write), str(parent), *names], [report_write])
        os.close(report_write)
        with open(report_read, "rb") as report:
            _answer(report.read(), process)


def _start(
    module: str,
    arguments: list[str],
    keep: Sequence[int],
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", bootstrap.__file__, f"{_PACKAGE}.{module}", *arguments]
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.Popen(
        command, stdin=stdin, stdout=stdout, pass_fds=tuple(keep), cwd="/", env=environment
    )


def _answer(line: bytes, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    status = process.wait()
    answer: dict[str, Any] = json.loads(line.splitlines()[0]) if line.strip() else {}
    if "error" in answer:
        if number := answer.get("errno"):
            raise OSError(number, answer["error"])
        raise InvalidImage(answer["error"])
    if status or not line.strip():
        raise OSError(errno.EIO, f"the process that unpacks layers ended with status {status}")
    return answer
