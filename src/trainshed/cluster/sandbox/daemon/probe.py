"""Tries what sandboxes need of the kernel, one step after the other, in processes that end at once.

Run with `bootstrap.py`; prints a JSON object: step -> empty text, or what the kernel said. Steps after one that
the rest depends on are left out.

    user      a user namespace             map       ids in it
    mount     a mount namespace            overlay   overlayfs with its upper on the state directory
    proc      /proc of a pid namespace     network   a network namespace
    bridge    a bridge and a veth in it    services  nf_tables in it
    keepers   what keeps limits, in words
    confinement   the AppArmor profile that this runs in, and its mode
"""

from __future__ import annotations

import json
import os
import signal
import socket

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.addresses import FIRST_POD, pod_address
from trainshed.cluster.sandbox.daemon import keepers
from trainshed.cluster.sandbox.linux import cgroups, syscalls, userns
from trainshed.cluster.sandbox.linux.rootfs import RootFilesystem
from trainshed.cluster.sandbox.net import clusternet
from trainshed.cluster.sandbox.net.translation import Translation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.cluster.sandbox.wire import Message

_NAME = "trainshed-doctor"


def main(argv: list[str]) -> int:
    """Print the results; `probe <state directory>`."""
    (directory,) = argv
    found = {**run(directory), "keepers": _keepers(), "confinement": _confinement()}
    print(json.dumps(found))  # noqa: T201 - read by `doctor`
    return 0


def run(directory: str) -> Message:
    """Return the results. `directory` is left as it was."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _inside(theirs, directory)
        finally:
            os._exit(0)
    theirs.close()
    results: Message = {}
    with open(ours.detach(), "rb+", buffering=0) as channel:
        reader = channel.readline
        results = json.loads(reader() or b"{}")
        if results.get("user") == "":
            try:
                userns.write_maps(pid)
                results["map"] = ""
            except userns.MappingError as error:
                os.kill(pid, signal.SIGKILL)
                results["map"] = str(error)
            else:
                channel.write(b"1")
                results |= json.loads(reader() or b"{}")
    os.waitpid(pid, 0)
    return results


def _confinement() -> str:
    try:
        with open("/proc/self/attr/apparmor/current") as file:
            return file.read().strip()
    except OSError:
        return ""  # a kernel without AppArmor


def _keepers() -> Message:
    """Return what would keep the limits of containers. The cgroup that was made to see it is removed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        hierarchy = cgroups.take(_NAME)
        if hierarchy is not None:
            cgroups.leave(hierarchy)
        os.write(write, json.dumps(keepers.of(hierarchy)).encode())
        os._exit(0)
    os.close(write)
    with open(read) as answer:
        found: Message = json.load(answer)
    os.waitpid(pid, 0)
    return found


def _inside(channel: socket.socket, directory: str) -> None:
    failure = _attempt(lambda: syscalls.unshare(syscalls.CLONE_NEWUSER))
    channel.sendall(json.dumps({"user": failure}).encode() + b"\n")
    if failure or not channel.recv(1):
        return
    results = {"mount": _attempt(_enter_mount_namespace)}
    if not results["mount"]:
        results["overlay"] = _attempt(lambda: _mount_overlay(directory))
        results["proc"] = _attempt(_mount_proc)
    results["network"] = _attempt(lambda: syscalls.unshare(syscalls.CLONE_NEWNET))
    if not results["network"]:
        results["bridge"] = _attempt(lambda: _in_network(_make_pod_network))
        if not results["bridge"]:
            results["services"] = _attempt(lambda: _in_network(_translate))
    channel.sendall(json.dumps(results).encode() + b"\n")


def _attempt(work: Callable[[], None]) -> str:
    try:
        work()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _enter_mount_namespace() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def _mount_overlay(directory: str) -> None:
    private = f"{directory}/probe.{os.getpid()}"
    try:
        RootFilesystem(private, []).check_overlay()
    finally:
        files.remove_tree(private)


def _mount_proc() -> None:
    """Mount /proc over itself, from a process in a pid namespace of its own."""
    read, write = os.pipe()
    pid = syscalls.clone(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
    if pid == 0:
        failure = _attempt(lambda: syscalls.mount("proc", "/proc", "proc"))
        os.write(write, failure.encode())
        os._exit(0)
    os.close(write)
    failure = os.read(read, 200).decode()
    os.close(read)
    os.waitpid(pid, 0)
    if failure:
        raise OSError(failure)


def _make_pod_network() -> None:
    cluster = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    clusternet.enter_new_pod_network(cluster, pod_address(FIRST_POD))


def _translate() -> None:
    Translation(clusternet.open_translator()).close()


def _in_network(work: Callable[[], None]) -> None:
    """Do this in a network of a cluster, which is gone afterwards."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        failure = _attempt(clusternet.enter_new_cluster_network) or _attempt(work)
        wire.send_all(theirs, wire.message_frame({"failure": failure}))
        os._exit(0)
    theirs.close()
    answer, _ = wire.wait_answer(ours)
    ours.close()
    os.waitpid(pid, 0)
    if answer["failure"]:
        raise OSError(answer["failure"])
