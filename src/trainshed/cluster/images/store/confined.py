"""Running the programs of `sandbox/layers`: one pipe in, one out, one line of JSON."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.sandbox import bootstrap, files

_PACKAGE = "trainshed.cluster.sandbox.layers"


def unpack(directory: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Unpack an archive into an empty directory; return how many `entries`, `bytes`, and `devices` left out.

    Raises:
        InvalidImage: the archive is refused.
        OSError: it cannot be written, or no user namespace can be made.
    """
    report_read, report_write = os.pipe()
    process = _start("unpack", [str(directory), str(report_write)], report_write, stdin=subprocess.PIPE)
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


def remove(parent: Path, *names: str) -> None:
    """Delete directories, whoever owns what is in them. Raises OSError."""
    try:
        for name in names:
            files.remove_tree(str(parent / name))
    except PermissionError:
        report_read, report_write = os.pipe()
        process = _start("remove", [str(report_write), str(parent), *names], report_write)
        os.close(report_write)
        with open(report_read, "rb") as report:
            _answer(report.read(), process)


def _start(
    module: str, arguments: list[str], keep: int, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", bootstrap.__file__, f"{_PACKAGE}.{module}", *arguments]
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.DEVNULL, pass_fds=(keep,), cwd="/", env=environment
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
