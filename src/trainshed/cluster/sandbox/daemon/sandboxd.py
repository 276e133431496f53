"""sandboxd, the zygote of the sandboxes: how it comes to hold their user namespace and the cluster network.

    launcher   what `readonly` becomes: starts the daemon, maps its ids, prints one line of JSON, ends
    daemon     in a user namespace of its own but in the host's network namespace, for hostNetwork pods

It keeps no state but two descriptors, so it may be killed at any time: a new one finds the namespaces
through a living shim or netd (`adopt`) and goes on in them.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.daemon import launching
from trainshed.cluster.sandbox.linux import (
    cgroups,
    limits,
    netlink,
    syscalls,
    userns,
)
from trainshed.cluster.sandbox.net import clusternet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message


def main(argv: list[str]) -> int:
    """Launch the daemon: `sandboxd <run directory> <pods directory>`. One line of JSON tells the outcome.

    A third argument is what keeps the path of this interpreter readable until it runs.
    """
    run, pods, *keeper = argv
    if keeper:
        os.close(int(keeper[0]))
        os.wait()
    limits.forget_oom_score()
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
    print(json.dumps(answer or launching.SILENT))  # noqa: T201 - read by the control plane
    return 0


def _daemon(run: str, pods: str, mapped: int, report: int) -> NoReturn:
    def work() -> None:
        launching.begin_session()
        # Most of the program: not for the launcher, and before there are other rights to files.
        from trainshed.cluster.sandbox.daemon.zygote import Zygote

        syscalls.set_process_name("trainshed-sandboxd")
        lock = launching.take_lock(run)
        # Outside the user namespace, as the user whose cgroups they are.
        hierarchy = cgroups.take(_name_of(run))
        found = adopt(run, pods)
        user, cluster = _make_namespaces(mapped, report) if found is None else found
        os.close(mapped)
        userns.forbid_cgroup_namespaces()
        limits.keep_back_per_user()
        daemon = Zygote(run, pods, user=user, cluster=cluster, lock=lock, hierarchy=hierarchy)
        launching.has_started(report, adopted=found is not None)
        daemon.run()

    launching.end_with(report, work)


def _name_of(run: str) -> str:
    """Return what this cluster's cgroup is called, where there may be others beside it.

    By the CRC-32 of ISO 3309. That of `zlib` would bring a library into sandboxd and all that it forks.
    """
    rest = 0xFFFFFFFF
    for byte in run.encode():
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0xEDB88320 if rest & 1 else 0)
    return f"trainshed-{rest ^ 0xFFFFFFFF:08x}"


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
        raise launching.LaunchError("user", error.strerror or "") from None
    launching.tell(report, {"unshared": True})
    if not os.read(mapped, 1):
        raise launching.LaunchError("map", "the launcher ended before the ids were mapped")
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
        raise launching.LaunchError(answer["step"], answer["detail"])
    return descriptors[0]
