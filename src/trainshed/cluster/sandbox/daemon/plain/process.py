"""What a process of a plain container does between fork and exec. It never returns."""

from __future__ import annotations

import array
import os
import socket

from trainshed.cluster.sandbox.daemon.plain.places import Places
from trainshed.cluster.sandbox.linux import credentials, notify, seccomp
from trainshed.cluster.sandbox.linux.process import (
    CommandError,
    execute,
    find_command,
    reason_of,
    report,
    take_stdio,
    take_terminal,
    wait_for_leave,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message

TERMINAL, LISTENER = b"{}", b"listener"
"""What a descriptor that is handed over is."""


def run(spec: Message, stdio: list[int], sync: socket.socket) -> NoReturn:
    """Become the command of `spec`, which has `places`, `own` and `steered` besides the fields of a container.

    Without `main` it is one that joins the container.
    """
    try:
        os.set_inheritable(sync.fileno(), False)
        if not spec["tty"]:
            take_stdio(stdio)
        os.setsid()
        if spec["tty"]:
            take_terminal(_open_terminal(sync))
        places = Places(spec["places"])
        argv = [places.in_text(each) for each in spec["argv"]]
        env = {**spec["defaults"], **{name: places.in_text(value) for name, value in spec["env"]}}
        _enter(spec["cwd"], places, spec["own"])
        machine = os.uname().machine
        capabilities = credentials.capability_set(spec["privileged"], spec["add_caps"], spec["drop_caps"])
        if os.geteuid() == 0:
            credentials.drop_bounding(capabilities)
        if not spec["unconfined"]:
            seccomp.apply(seccomp.program(machine, capabilities))
        # Last but for exec: from here on some calls wait for the shim.
        _hand_over_calls(machine, spec["steered"], sync)
        file = find_command(argv[0], env.get("PATH"))
        if spec["main"]:
            wait_for_leave(sync)
        execute(file, argv, env)
    except ValueError as error:
        report(sync, CommandError(128, str(error)))
    except BaseException as error:
        report(sync, error)
    os._exit(128)


def _enter(cwd: str, places: Places, own: str) -> None:
    """Go to the working directory: one of a place, of the machine's where it has it, else the container's own."""
    if cwd == "/":
        path = f"{own}/work"
    else:
        path = places.of_path(cwd) or cwd
        if not os.path.isdir(path) and path == cwd:
            path = f"{own}/work{os.path.normpath(cwd)}"
    try:
        os.makedirs(path, 0o755, exist_ok=True)
        os.chdir(path)
    except OSError as error:
        raise CommandError(128, f"chdir to cwd ({cwd!r}): {reason_of(error)}") from error


def _hand_over_calls(machine: str, names: list[str], sync: socket.socket) -> None:
    """Have the shim look at the calls of these names, where the kernel offers that."""
    filter_ = notify.program(machine, names=tuple(names), refuse_ipv6=notify.BIND in names) if names else b""
    if not filter_:
        return
    try:
        listener = notify.listen(filter_)
    except OSError:
        return  # an engine of containers listens already, or the kernel is older: the doctor says so
    sync.sendmsg([LISTENER], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)


def _open_terminal(sync: socket.socket) -> int:
    master, slave = os.openpty()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [master]))]
    sync.sendmsg([TERMINAL], rights)
    os.close(master)
    return slave
