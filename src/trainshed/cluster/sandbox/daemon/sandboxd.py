"""The zygote of the sandboxes: holds their user namespace and the cluster network, forks a shim per pod.

    launcher   what `Runtime.start` runs: starts the daemon, maps its ids, prints one line of JSON, ends
    daemon     in a user namespace of its own but in the host's network namespace, for hostNetwork pods

It keeps no state but two descriptors, so it may be killed at any time: a new one finds the namespaces
through a living shim or netd (`adopt`) and goes on in them.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import socket
import sys
import zlib

from trainshed.cluster.sandbox import bootstrap, files, logfile, wire
from trainshed.cluster.sandbox.daemon import keepers
from trainshed.cluster.sandbox.daemon.peers import Peer, Server
from trainshed.cluster.sandbox.daemon.shim import SOCKET, Shim, claim
from trainshed.cluster.sandbox.linux import (
    cgroups,
    credentials,
    interpreter,
    keyring,
    limits,
    netlink,
    seccomp,
    syscalls,
    userns,
)
from trainshed.cluster.sandbox.loop import Loop, record_crash
from trainshed.cluster.sandbox.measure import disk_bytes
from trainshed.cluster.sandbox.net import clusternet, egress, ipam
from trainshed.cluster.sandbox.ownership import hand_to_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from trainshed.cluster.sandbox.linux.cgroups import Hierarchy
    from trainshed.cluster.sandbox.wire import Message

NAME = "sandboxd.sock"
_REMOVAL_NICE = 10  # deleting what is over must not slow down what starts


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
        _leave_keyring()
        os.umask(0o022)  # the roots of containers are made with it; what is private says so
        _run_read_only(run, pods, [mapped, report])
    except LaunchError as error:
        _tell(report, {"step": error.step, "detail": error.detail})
    except BaseException as error:
        record_crash()
        _tell(report, {"step": "start", "detail": str(error)})
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
        daemon = Daemon(run, pods, user, cluster, lock, hierarchy)
        _tell(report, {"pid": os.getpid(), "adopted": found is not None})
        os.close(report)
        _detach_stdio()
        daemon.run()
        status = 0
    except LaunchError as error:
        _tell(report, {"step": error.step, "detail": error.detail})
    except BaseException as error:
        record_crash()
        _tell(report, {"step": "start", "detail": str(error)})
    finally:
        os._exit(status)


def _name_of(run: str) -> str:
    """Return what this cluster's cgroup is called, where there may be others beside it."""
    return f"trainshed-{zlib.crc32(run.encode()):08x}"


def _leave_keyring() -> None:
    try:
        keyring.leave_session_keyring()
    except OSError as error:
        raise LaunchError("start", f"no session keyring of its own: {error.strerror}") from None


def _tell(report: int, message: Message) -> None:
    try:
        os.write(report, json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # told before, or the launcher has gone


def _detach_stdio() -> None:
    """Let go of the launcher's stdout: the control plane reads it to its end. Stderr is the log file."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)


def adopt(run: str, pods: str) -> tuple[int, int] | None:
    """Enter the user namespace that netd or a shim still holds; return (user, cluster network) or None.

    The kernel allows it: the user who made a user namespace has every capability in it from outside.
    """
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
    _tell(report, {"unshared": True})
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


class Daemon:
    """Serves `sandboxd.sock`. Whatever may block or fail happens in a forked child, which answers itself."""

    def __init__(
        self, run: str, pods: str, user: int, cluster: int, lock: int, hierarchy: Hierarchy | None
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
        self._pool = ipam.AddressPool(f"{run}/{ipam.DIRECTORY}", pods)
        self._server = Server(self._loop, f"{run}/{NAME}", self._request)

    def run(self) -> None:
        """Serve until told to shut down."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        logfile.keep(self._loop)
        seccomp.program(
            os.uname().machine, credentials.capability_set(False, [], [])
        )  # made once, for every shim
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
            lambda: syscalls.clone(syscalls.CLONE_NEWPID),
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

    def _be_shim(self, sock: socket.socket, spec: Message, pod: str, lock: int, ip: str) -> None:
        os.setsid()
        addresses = f"{self._run}/{ipam.DIRECTORY}"
        shim = Shim(spec, pod, lock, ip, addresses, self._cluster, self._user, self._hierarchy)
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
