"""A process that works on files of the sandboxes' users below one directory and reaches nothing else.

    launcher   maps the ids, as it does for the sandboxes, and waits
    worker     in user and mount namespaces of its own; its root is the directory

What it reads may be made to break it. So the modules that it needs are loaded before, and none can be after: the path
of modules would lead into the directory.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

from trainshed.cluster.sandbox.linux import syscalls, userns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message

MAX_MEMORY = 1 << 30
"""Bytes of address space: what a header claims to need is not had."""


class Refused(Exception):
    """What was given cannot be worked on; one sentence."""


def run(work: Callable[[], Message], *, prepare: Callable[[], str], report: int) -> int:
    """Run `work` with the directory that `prepare` returns as its root; return the exit status.

    `prepare` runs in the new namespaces before the root is changed, and may mount. A line of JSON goes to the
    descriptor `report`: what `work` returned, or `error`.
    """
    to_worker_read, to_worker = os.pipe()
    from_worker, from_worker_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to_worker)
        os.close(from_worker)
        _work(work, prepare, report, to_worker_read, from_worker_write)
    os.close(to_worker_read)
    os.close(from_worker_write)
    if os.read(from_worker, 1):
        try:
            userns.write_maps(pid)
            os.write(to_worker, b"1")
        except userns.MappingError as error:
            os.kill(pid, signal.SIGKILL)
            _tell(report, {"error": str(error)})
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) and 1


def _work(
    work: Callable[[], Message], prepare: Callable[[], str], report: int, mapped: int, unshared: int
) -> NoReturn:
    status = 1
    try:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        os.write(unshared, b"1")
        os.close(unshared)
        if not os.read(mapped, 1):
            os._exit(1)
        os.close(mapped)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        os.umask(0)
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        os.chroot(prepare())
        os.chdir("/")
        _forget_modules()
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        _tell(report, work())
        status = 0
    except Refused as error:
        _tell(report, {"error": str(error)})
    except MemoryError:
        _tell(report, {"error": "more memory is needed than is given for this"})
    except OSError as error:
        text = error.strerror or str(error)
        _tell(
            report,
            {"error": f"{_shown(error.filename)}: {text}" if error.filename else text, "errno": error.errno},
        )
    except BaseException as error:
        _tell(report, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _forget_modules() -> None:
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path.clear()


def _shown(name: object) -> str:
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return text[:300]


def _tell(report: int, message: Message) -> None:
    try:
        os.write(report, json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # nobody waits for it any more
