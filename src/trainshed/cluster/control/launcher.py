"""Starts, finds and stops the control plane, which runs detached from the command that started it.

A started control plane reports over a pipe: one JSON line per step, then `ready` or `error`. What it says after
that goes to its log. `controlplane.json` in the state directory says which process it is; a file whose process
is gone (kill -9, power loss) is simply out of date.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from trainshed.cluster.paths import StatePaths
from trainshed.cluster.sandbox.files import lock

START_SECONDS = 60.0
STOP_SECONDS = 15.0
ANSWER_SECONDS = 5.0


class Info(msgspec.Struct, frozen=True):
    """A running control plane. `start_ticks` tells its process from a later one with the same number."""

    pid: int
    start_ticks: int
    port: int
    started_at: float
    version: str


class Report(msgspec.Struct, omit_defaults=True):
    """One line from a starting control plane."""

    step: str = ""
    ready: bool = False
    error: str = ""
    hint: str = ""


class StartFailed(Exception):
    """The control plane did not come up. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def running(paths: StatePaths) -> Info | None:
    """Return the control plane that runs on this state directory. Raises OSError where the disk does not say."""
    try:
        info = msgspec.json.decode(paths.info.read_bytes(), type=Info)
    except msgspec.DecodeError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        return None
    return info if start_ticks(info.pid) == info.start_ticks else None


def is_ending(info: Info) -> bool:
    """Return whether the control plane was killed a moment ago; waits until it is gone then.

    The kernel shows a killed process until it has taken it apart, and accepts connections for it, but nobody answers.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the machine's authorities take 20 ms to read
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", info.port), timeout=ANSWER_SECONDS) as connection,
            context.wrap_socket(connection),
        ):
            return False
    except TimeoutError:
        return False  # it is busy
    except OSError:
        return _wait_gone(info, ANSWER_SECONDS)


@contextmanager
def starting(paths: StatePaths) -> Iterator[None]:
    """Be the only command that starts the control plane; waits for another that does."""
    descriptor = lock(paths.run / "up.lock", wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


def start(paths: StatePaths, module: str, arguments: list[str], progress: Callable[[str], None]) -> Info:
    """Start the control plane and return once it serves requests; `progress` is told each step.

    `module` is the Python module of its process.

    Raises:
        StartFailed: with what the control plane said, or the end of its log when it said nothing. It has ended then.
    """
    read_end, write_end = os.pipe()
    log = paths.log / "controlplane.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                "--home",
                str(paths.root),
                "--report-fd",
                str(write_end),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(write_end,),
            start_new_session=True,
            cwd="/",
        )
    os.close(write_end)
    # Whoever starts it may live as long (a notebook): somebody has to take note of its end.
    threading.Thread(target=process.wait, name="control plane", daemon=True).start()
    try:
        _await_ready(read_end, process, log, progress)
    except StartFailed:
        _end(process)
        raise
    finally:
        os.close(read_end)
    info = running(paths)
    if info is None:
        raise StartFailed("the control plane ended right after it was ready", f"its log: {log}")
    return info


def _await_ready(
    read_end: int, process: subprocess.Popen[bytes], log: Path, progress: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + START_SECONDS
    pending = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read_end], [], [], left)[0]:
            process.kill()
            raise StartFailed(
                f"the control plane was not ready after {START_SECONDS:.0f} s", f"its log: {log}"
            )
        chunk = os.read(read_end, 65536)
        if not chunk:
            raise StartFailed(_end_of(process, log), f"its log: {log}")
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            report = msgspec.json.decode(line, type=Report)
            if report.error:
                raise StartFailed(report.error, report.hint)
            if report.ready:
                return
            progress(report.step)


def _end_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return why a control plane ended that did not say so."""
    try:
        status = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        status = 0
    if status < 0:
        return f"the control plane was ended by {signal.Signals(-status).name} while it started"
    return _last_line(log) or "the control plane ended without a word"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a control plane that did not come up be gone: it may be ending already, and cleaning up."""
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def absent(paths: StatePaths) -> Iterator[bool]:
    """Let no control plane start on this state directory meanwhile. Yields whether none runs."""
    descriptor = None
    with suppress(BlockingIOError):
        descriptor = lock(paths.run / "controlplane.lock")
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def stop(paths: StatePaths) -> bool:
    """End the control plane; return whether one was running. Pods are not touched.

    Raises:
        TimeoutError: it is still there after SIGKILL.
    """
    info = running(paths)
    if info is None:
        return False
    for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        try:
            os.kill(info.pid, number)
        except ProcessLookupError:
            return True
        if _wait_gone(info, patience):
            return True
    raise TimeoutError(f"process {info.pid} does not end")


def _wait_gone(info: Info, seconds: float) -> bool:
    try:
        descriptor = os.pidfd_open(info.pid)
    except ProcessLookupError:
        return True
    try:
        if start_ticks(info.pid) != info.start_ticks:
            return True
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot (proc(5), field 22); None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
