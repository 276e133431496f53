"""The zygote of the sandboxes: forks a shim per pod, and a child for whatever may block or fail."""

from __future__ import annotations

import gc
import os
import signal
import socket

from trainshed.cluster.sandbox import files, logfile, wire
from trainshed.cluster.sandbox.addresses import POD_PREFIX
from trainshed.cluster.sandbox.daemon import keepers
from trainshed.cluster.sandbox.daemon.peers import Peer, Server
from trainshed.cluster.sandbox.daemon.shim import Shim
from trainshed.cluster.sandbox.linux import (
    cgroups,
    credentials,
    seccomp,
    syscalls,
)
from trainshed.cluster.sandbox.loop import Loop, record_crash
from trainshed.cluster.sandbox.measure import disk_bytes
from trainshed.cluster.sandbox.net import clusternet, egress, ipam
from trainshed.cluster.sandbox.ownership import hand_to_group
from trainshed.cluster.sandbox.podlock import claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.cluster.sandbox.linux.cgroups import Hierarchy
    from trainshed.cluster.sandbox.wire import Message

NAME = "sandboxd.sock"
_REMOVAL_NICE = 10  # deleting what is over must not slow down what starts


class Zygote:
    """Serves `sandboxd.sock`. Whatever may block or fail happens in a forked child, which answers itself."""

    def __init__(
        self,
        run: str,
        pods: str,
        *,
        user: int,
        cluster: int,
        lock: int,
        hierarchy: Hierarchy | None,
        prefix: str = POD_PREFIX,
    ) -> None:
        self._hierarchy = hierarchy
        self._run = run
        self._lock = lock
        self._pid = os.getpid()
        self._pods = pods
        self._user = user
        self._cluster = cluster
        self._workers: set[int] = set()
        self._loop = Loop()
        self._pool = ipam.AddressPool(f"{run}/{ipam.DIRECTORY}", pods, prefix)
        self._server = Server(self._loop, f"{run}/{NAME}", self._request)

    def run(self) -> None:
        """Serve until told to shut down."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        logfile.keep(self._loop)
        seccomp.program(
            os.uname().machine, credentials.capability_set(False, [], [])
        )  # made once, for every shim
        credentials.remember()
        gc.collect()
        gc.freeze()  # a collection in a shim then leaves these pages shared
        self._loop.run()
        for pid in self._workers:  # what one was asked for may take longer than whoever asked has lived
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue
        if self._hierarchy is not None:
            cgroups.leave(self._hierarchy)

    def _request(self, peer: Peer, message: Message) -> None:
        operation = message.get("op")
        if operation == "ping":
            peer.answer(
                {"pid": os.getpid(), "protocol": wire.PROTOCOL, "keepers": keepers.of(self._hierarchy)}
            )
        elif operation == "namespaces":
            peer.answer({}, [os.dup(self._user), os.dup(self._cluster)])
        elif operation == "run":
            self._run_sandbox(peer, message["spec"])
        elif operation == "listen":
            self._in_child(peer, lambda: self._listen(message))
        elif operation == "sockets":
            self._in_child(peer, self._open_sockets)
        elif operation == "forward":
            self._in_child(peer, self._forward)
        elif operation == "translate":
            self._in_child(peer, self._open_translator)
        elif operation == "interface":
            self._in_child(peer, lambda: self._find_interface(message["name"]))
        elif operation == "remove":
            self._in_child(peer, lambda: self._remove(message["uid"]))
        elif operation == "remove_tree":
            self._in_child(peer, lambda: self._remove_tree(message["path"]))
        elif operation == "hand":
            self._in_child(peer, lambda: self._hand(message))
        elif operation == "measure":
            self._measure(peer, message["paths"])
        elif operation == "shutdown":
            self._server.close()
            peer.answer({})
            peer.finish()
            self._loop.stop()
        else:
            peer.answer({"failure": f"unknown operation {operation!r}"})

    def _fork_worker(self) -> int:
        pid = os.fork()
        if pid:
            self._workers = {pid, *filter(_is_child, self._workers)}
        return pid

    def _fork(
        self, peer: Peer, fork: Callable[[], int], failed: Callable[[], None] | None = None
    ) -> socket.socket | None:
        """Return the connection of `peer` in a new child, None here. Where there can be none, `peer` is told so, and
        `failed` called."""
        sock = peer.release()  # before the fork: both processes share one epoll set
        try:
            if fork():
                return None
        except OSError as error:
            if failed is not None:
                failed()
            wire.send_all(sock, wire.message_frame({"failure": f"cannot fork: {error.strerror}"}))
            return None
        finally:
            if os.getpid() == self._pid:
                sock.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sock.setblocking(True)
        self._server.listener.close()
        self._loop.close()
        os.close(self._lock)  # it says that a sandboxd lives, not that a shim does
        return sock

    def _in_child(self, peer: Peer, work: Callable[[], list[int]]) -> None:
        """Answer with the descriptors that `work` returns, or its error."""
        sock = self._fork(peer, self._fork_worker)
        if sock is None:
            return
        try:
            answer: Message = {}
            descriptors: list[int] = []
            try:
                descriptors = work()
            except OSError as error:
                answer = {"failure": str(error), "errno": error.errno}
            wire.send_all(sock, wire.message_frame(answer), descriptors)
        except BaseException:
            record_crash()
        finally:
            os._exit(0)

    def _hand(self, message: Message) -> list[int]:
        """Hand volumes to a group: here are the ids that only the sandboxes' user namespace has."""
        for path, read_only in message["places"]:
            hand_to_group(path, message["gid"], read_only=read_only, if_differs=message["if_differs"])
        return []

    def _measure(self, peer: Peer, paths: list[str]) -> None:
        """Answer with how much disk each of the directories takes, which pods may have filled."""
        sock = self._fork(peer, self._fork_worker)
        if sock is None:
            return
        try:
            os.nice(_REMOVAL_NICE)
            answer = {"bytes": {path: disk_bytes(path) for path in paths}}
            wire.send_all(sock, wire.message_frame(answer))
        except BaseException:
            record_crash()
        finally:
            os._exit(0)

    def _listen(self, message: Message) -> list[int]:
        syscalls.setns(self._cluster, syscalls.CLONE_NEWNET)
        return [clusternet.open_listener(message["ip"], message["port"], message["kind"]).detach()]

    def _open_sockets(self) -> list[int]:
        syscalls.setns(self._cluster, syscalls.CLONE_NEWNET)
        return clusternet.open_sockets(wire.MAX_DESCRIPTORS)

    def _forward(self) -> list[int]:
        syscalls.setns(self._cluster, syscalls.CLONE_NEWNET)
        egress.forward()
        return []

    def _open_translator(self) -> list[int]:
        syscalls.setns(self._cluster, syscalls.CLONE_NEWNET)
        return [clusternet.open_translator()]

    def _find_interface(self, name: str) -> list[int]:
        syscalls.setns(self._cluster, syscalls.CLONE_NEWNET)
        socket.if_nametoindex(name)
        return []

    def _remove(self, uid: str) -> list[int]:
        pod = f"{self._pods}/{uid}"
        state = files.read_state(f"{pod}/sandbox/{files.SANDBOX}")
        if state and state["ip"]:
            ipam.release(f"{self._run}/{ipam.DIRECTORY}", state["ip"], uid)
        os.nice(_REMOVAL_NICE)
        files.remove_tree(f"{pod}/containers")
        files.remove_tree(f"{pod}/sandbox")
        try:
            os.rmdir(pod)
        except OSError:
            pass  # the agent's files are still there
        return []

    def _remove_tree(self, path: str) -> list[int]:
        os.nice(_REMOVAL_NICE)
        files.remove_tree(path)
        return []

    def _run_sandbox(self, peer: Peer, spec: Message) -> None:
        """Fork the shim of a pod. It has its lock before it exists: nobody takes one that is only starting for
        gone, and no pod gets two."""
        if peer.has_hung_up:  # and may have been told since that the pod is no more
            peer.close()
            return
        pod = f"{self._pods}/{spec['uid']}"
        lock = -1
        try:
            lock = claim(pod)
            ip = "" if spec["host_network"] else self._pool.allocate(spec["uid"])
        except BlockingIOError:
            peer.answer({"taken": True})
            return
        except OSError as error:
            if lock >= 0:
                os.close(lock)
            peer.answer({"failure": str(error)})
            return
        sock = self._fork(
            peer,
            self._fork_shim,
            failed=lambda: ipam.release(f"{self._run}/{ipam.DIRECTORY}", ip, spec["uid"]) if ip else None,
        )
        if sock is None:
            os.close(lock)
            return
        try:
            self._be_shim(sock, spec, pod, lock, ip)
        except BaseException:
            record_crash()
        finally:
            os._exit(0)

    def _fork_shim(self) -> int:
        return syscalls.clone(syscalls.CLONE_NEWPID)

    def _make_shim(self, spec: Message, pod: str, lock: int, ip: str) -> Shim:
        addresses = f"{self._run}/{ipam.DIRECTORY}"
        return Shim(
            spec,
            pod,
            lock=lock,
            ip=ip,
            addresses=addresses,
            cluster=self._cluster,
            user=self._user,
            cgroups=self._hierarchy,
        )

    def _be_shim(self, sock: socket.socket, spec: Message, pod: str, lock: int, ip: str) -> None:
        os.setsid()
        addresses = f"{self._run}/{ipam.DIRECTORY}"
        shim = self._make_shim(spec, pod, lock, ip)
        try:
            state = shim.prepare()
        except OSError as error:
            if ip:
                ipam.release(addresses, ip, spec["uid"])
            answer = {"failure": f"cannot make the sandbox: {error.strerror or error}"}
            wire.send_all(sock, wire.message_frame(answer))
            return
        try:
            wire.send_all(sock, wire.message_frame({"state": state}))
        except OSError:
            shim.abandon()  # who asked was killed meanwhile: the next one asks for a shim if one is still wanted
            return
        sock.close()
        shim.run()


def _is_child(pid: int) -> bool:
    """Return whether a process is a child of this one that lives."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
