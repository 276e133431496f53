"""sandboxd, the zygote of the sandboxes: how it comes to hold their user namespace and the cluster network.

    launcher   what `Runtime.start` runs: starts the daemon, maps its ids, prints one line of JSON, ends
    daemon     in a user namespace of its own but in the host's network namespace, for hostNetwork pods

It keeps no state but two descriptors, so it may be killed at any time: a new one finds the namespaces
through a living shim or netd (`adopt`) and goes on in them.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import zlib

from trainshed.cluster.sandbox import bootstrap, wire
from trainshed.cluster.sandbox.linux import (
    cgroups,
    interpreter,
    keyring,
    limits,
    netlink,
    syscalls,
    userns,
)
from trainshed.cluster.sandbox.loop import record_crash
from trainshed.cluster.sandbox.net import clusternet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message


class LaunchError(Exception):
    """The daemon cannot run here. `step` is what the kernel refused; `doctor` explains it."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(detail)
        self.step = step
        self.detail = detail


def main(argv: list[str]) -> int:
    """Launch the daemon: `sandboxd <run directory> <pods directory>`. One line of JSON tells the outcome.

    With more arguments be the daemon: `_run_read_only` has run the interpreter again.
    """
    run, pods, *held = argv
    if not held:
        limits.forget_oom_score()
    if held:
        _serve(run, pods, [int(number) for number in held])
    to_daemon_read, to_daemon = os.pipe()
    from_daemon, from_daemon_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to_daemon)
        os.close(from_daemon)
        _daemon(run, pods, to_daemon_read, from_daemon_write)
    os.close(to_daemon_read)
    os.close(from_daemon_write)
    with open(from_daemon, "rb") as answers:
        answer = json.loads(answers.readline() or b"{}")
        if answer.get("unshared"):
            try:
                userns.write_maps(pid)
            except userns.MappingError as error:
                os.kill(pid, signal.SIGKILL)
                answer = {"step": "map", "detail": str(error)}
            else:
                os.write(to_daemon, b"1")
                answer = json.loads(answers.readline() or b"{}")
    if not answer:
        answer = {"step": "start", "detail": "the daemon ended without a word; see sandboxd.log"}
    print(json.dumps(answer))  # noqa: T201 - read by the control plane
    return 0


def _daemon(run: str, pods: str, mapped: int, report: int) -> NoReturn:
    try:
        os.setsid()
        leave_keyring()
        os.umask(0o022)  # the roots of containers are made with it; what is private says so
        _run_read_only(run, pods, [mapped, report])
    except LaunchError as error:
        tell(report, {"step": error.step, "detail": error.detail})
    except BaseException as error:
        record_crash()
        tell(report, {"step": "start", "detail": str(error)})
    finally:
        os._exit(1)


def _run_read_only(run: str, pods: str, held: list[int]) -> NoReturn:
    """Go on in `_serve`, in an interpreter that pods cannot write to.

    It begins outside the sandboxes' user namespace: what forks from it stays out of reach for capabilities within
    (ptrace(2), "Ptrace access mode checking", dumpable).
    """
    try:
        program, keeper = interpreter.open_read_only()
    except OSError as error:
        os.write(2, f"the interpreter is within reach of pods: {error}\n".encode())
        _serve(run, pods, [*held, -1])
    for number in (*held, keeper.fileno()):
        os.set_inheritable(number, True)
    arguments = [str(number) for number in (*held, keeper.fileno())]
    os.execve(
        program,
        [sys.executable, "-I", "-S", bootstrap.__file__, __name__, run, pods, *arguments],
        dict(os.environ),
    )


def _serve(run: str, pods: str, held: list[int]) -> NoReturn:
    # Most of the program: not for the launcher, and before there are other rights to files.
    from trainshed.cluster.sandbox.daemon.zygote import Zygote

    mapped, report, keeper = held
    status = 1
    try:
        for number in (mapped, report):
            os.set_inheritable(number, False)
        if keeper >= 0:
            os.close(keeper)
            os.wait()
        syscalls.set_process_name("trainshed-sandboxd")
        lock = os.open(f"{run}/sandboxd.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LaunchError("lock", "another sandboxd runs but does not answer") from None
        hierarchy = cgroups.take(
            _name_of(run)
        )  # outside the user namespace, as the user whose cgroups they are
        found = adopt(run, pods)
        user, cluster = _make_namespaces(mapped, report) if found is None else found
        os.close(mapped)
        userns.forbid_cgroup_namespaces()
        daemon = Zygote(run, pods, user, cluster, lock, hierarchy)
        tell(report, {"pid": os.getpid(), "adopted": found is not None})
        os.close(report)
        detach_stdio()
        daemon.run()
        status = 0
    except LaunchError as error:
        tell(report, {"step": error.step, "detail": error.detail})
    except BaseException as error:
        record_crash()
        tell(report, {"step": "start", "detail": str(error)})
    finally:
        os._exit(status)


def _name_of(run: str) -> str:
    """Return what this cluster's cgroup is called, where there may be others beside it."""
    return f"trainshed-{zlib.crc32(run.encode()):08x}"


def leave_keyring() -> None:
    """Go on without the keys of whoever started this. Raises LaunchError."""
    try:
        keyring.leave_session_keyring()
    except OSError as error:
        raise LaunchError("start", f"no session keyring of its own: {error.strerror}") from None


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


def adopt(run: str, pods: str) -> tuple[int, int] | None:
    """Enter the user namespace that netd or a shim still holds; return (user, cluster network) or None.

    The kernel allows it: the user who made a user namespace has every capability in it from outside.
    """
    from trainshed.cluster.sandbox.daemon.shim import SOCKET

    paths = [f"{run}/netd.sock"]
    if os.path.isdir(pods):
        paths += [f"{pods}/{uid}/sandbox/{SOCKET}" for uid in os.listdir(pods)]
    for path in paths:
        try:
            sock = wire.connect(path, timeout=2)
        except OSError:
            continue
        with sock:
            try:
                _, descriptors = wire.ask(sock, {"op": "namespaces"})
            except OSError:
                continue
        if len(descriptors) != 2:
            continue
        try:
            syscalls.setns(descriptors[0], syscalls.CLONE_NEWUSER)
        except OSError:
            continue
        return descriptors[0], descriptors[1]
    return None


def _make_namespaces(mapped: int, report: int) -> tuple[int, int]:
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
    except OSError as error:
        raise LaunchError("user", error.strerror or "") from None
    tell(report, {"unshared": True})
    if not os.read(mapped, 1):
        raise LaunchError("map", "the launcher ended before the ids were mapped")
    user = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    return user, _make_cluster_network()


def _make_cluster_network() -> int:
    """Return a descriptor of a new cluster network; this process stays in the host's."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        answer: Message = {}
        descriptors = []
        try:
            clusternet.enter_new_cluster_network()
            descriptors = [os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)]
        except OSError as error:
            step = "bridge" if netlink.is_unsupported(error) else "network"
            answer = {"step": step, "detail": error.strerror or str(error)}
        wire.send_all(theirs, wire.message_frame(answer), descriptors)
        os._exit(0)
    theirs.close()
    answer, descriptors = wire.wait_answer(ours)
    ours.close()
    os.waitpid(pid, 0)
    if not descriptors:
        raise LaunchError(answer["step"], answer["detail"])
    return descriptors[0]
