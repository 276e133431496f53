"""How a daemon comes to run: a launcher forks it, prints the one line of JSON that it reports, and ends."""

from __future__ import annotations

import json
import os

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.linux import keyring
from trainshed.cluster.sandbox.loop import record_crash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message


class LaunchError(Exception):
    """The daemon cannot run here. `step` is what the kernel refused; `doctor` explains it."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(detail)
        self.step = step
        self.detail = detail


SILENT = {"step": "start", "detail": "the daemon ended without a word; see sandboxd.log"}
"""What is said for a sandboxd that reports nothing."""


def launch(daemon: Callable[[int], NoReturn]) -> bytes:
    """Fork `daemon`, which is given a descriptor to report to; return the line that it reports, empty for none."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        daemon(write)
    os.close(write)
    with open(read, "rb") as answers:
        return answers.readline()


def end_with(report: int, work: Callable[[], None]) -> NoReturn:
    """Do the work of a sandboxd's process, and end it; the launcher is told why, where it comes to no start."""
    status = 1
    try:
        work()
        status = 0
    except LaunchError as error:
        tell(report, {"step": error.step, "detail": error.detail})
    except BaseException as error:
        record_crash()
        tell(report, {"step": "start", "detail": str(error)})
    finally:
        os._exit(status)


def begin_session() -> None:
    """Go on without the terminal and the keys of whoever started this. Raises LaunchError."""
    os.setsid()
    try:
        keyring.leave_session_keyring()
    except OSError as error:
        raise LaunchError("start", f"no session keyring of its own: {error.strerror}") from None
    os.umask(0o022)  # the roots of containers are made with it; what is private says so


def take_lock(run: str) -> int:
    """Return a descriptor of the lock of a cluster's only sandboxd. Raises LaunchError."""
    try:
        return files.lock(f"{run}/sandboxd.lock")
    except OSError:
        raise LaunchError("lock", "another sandboxd runs but does not answer") from None


def has_started(report: int, **more: object) -> None:
    """Tell the launcher so, and let go of it."""
    tell(report, {"pid": os.getpid(), **more})
    os.close(report)
    detach_stdio()


def tell(report: int, message: Message) -> None:
    """Tell the launcher, if it waits."""
    try:
        os.write(report, json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # told before, or the launcher has gone


def detach_stdio() -> None:
    """Let go of the launcher's stdout: the control plane reads it to its end. Stderr is the log file."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
