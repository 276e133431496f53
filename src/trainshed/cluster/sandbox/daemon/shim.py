"""The shim: one process per pod, a fork of `sandboxd`, that outlives every other part.

It owns the pod's network, ipc and uts namespaces, serves `<pod>/sandbox/shim.sock`, and keeps on disk what
a restarted control plane has to know: `sandbox.json`, and `state.json` of every attempt. It is process 1 of a
pid namespace which those of its containers are below: when it ends, for whatever reason, the kernel kills all
that is in them before it lets the shim go. Nothing runs that nobody owns.
"""

from __future__ import annotations

import errno
import os
import signal
import socket

from trainshed.cluster.sandbox import files, pids
from trainshed.cluster.sandbox.daemon import podfiles, podmemory
from trainshed.cluster.sandbox.daemon.accounting import crowd, descendants, network_usage, pod_usage
from trainshed.cluster.sandbox.daemon.container import STATE, Container, limits_of
from trainshed.cluster.sandbox.daemon.dialling import dial
from trainshed.cluster.sandbox.daemon.exec import ExecProcess
from trainshed.cluster.sandbox.daemon.pause import Pause
from trainshed.cluster.sandbox.daemon.peers import Server
from trainshed.cluster.sandbox.daemon.spare import make_spare
from trainshed.cluster.sandbox.linux import keyring, memory, syscalls, sysctls
from trainshed.cluster.sandbox.linux.cgroups import Hierarchy, make_container, make_pod, usage
from trainshed.cluster.sandbox.linux.cgroups import remove as remove_cgroup
from trainshed.cluster.sandbox.linux.limits import bound_pids, share_anew, yields
from trainshed.cluster.sandbox.loop import READ, Loop
from trainshed.cluster.sandbox.net import clusternet, ipam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.daemon.spare import Spare
    from trainshed.cluster.sandbox.wire import Message

SOCKET = "shim.sock"
_PARTS = ("root", "upper", "own")  # directories of an attempt that may hold much
_LOOK_SECONDS = 0.25  # between two looks at the processes of a pod
_SHARE_SECONDS = 0.15  # the kernel takes a change of a session's weight each tenth of a second


class Shim:
    """Runs one pod. `lock` is what `claim` returned, held until this process ends; `cluster` and `user` are
    descriptors of the namespaces that `sandboxd` made, `cgroups` where pods have theirs, if they have any."""

    plain = False
    """Whether its processes are in no namespaces, and outlive it if their reaper is killed, too."""

    def __init__(
        self,
        spec: Message,
        pod: str,
        *,
        lock: int,
        ip: str,
        addresses: str,
        cluster: int,
        user: int,
        cgroups: Hierarchy | None,
    ) -> None:
        self._spec = spec
        self._ip, self._addresses = ip, addresses
        self._pod = pod
        self._directory = f"{pod}/sandbox"
        self._lock = lock
        self._namespaces = (user, cluster)
        self._cgroups = cgroups
        self._cgroup = ""
        self._pids_kept = True
        self._loop = Loop()
        self._containers: dict[tuple[str, int], Container] = {}
        self._ended: dict[tuple[str, int], Message] = {}
        self._starting: dict[tuple[str, int], Peer] = {}
        self._watchers: list[Peer] = []
        self._janitors: set[int] = set()
        self._stopping: list[Peer] = []
        self._server: Server | None = None
        self._pause: Pause | None = None
        self._cpu_largest: int | None = None
        self._spare: Spare | None = None

    def prepare(self) -> Message:
        """Make the pod's namespaces and files and start serving; return its state. Raises OSError."""
        syscalls.set_process_name("trainshed-shim")
        keyring.leave_keyring_of_pods()
        self._isolate()
        self._files = podfiles.write(self._directory, self._spec, self._ip)
        self._mount_memory()
        self._read_ended()
        self._write(stopped=False)
        self._server = Server(self._loop, f"{self._directory}/{SOCKET}", self._request)
        return self._state()

    def _isolate(self) -> None:
        """Give the pod what its containers share and others do not see."""
        if not self._spec["host_network"]:
            clusternet.enter_new_pod_network(self._namespaces[1], self._ip)
        syscalls.unshare(syscalls.CLONE_NEWUTS | (0 if self._spec["host_ipc"] else syscalls.CLONE_NEWIPC))
        sysctls.write(self._spec["sysctls"])
        self._bound_pids()
        socket.sethostname(self._spec["hostname"])

    def run(self) -> None:
        """Serve until the pod is stopped."""
        if not self._pids_kept:
            self._look_at_processes()
        if not (self.plain or self._spec.get("share_processes")):
            self._spare = make_spare(self._loop)
        self._loop.run()

    def _bound_pids(self) -> None:
        """Let the kernel keep the number of processes, by a cgroup or by this process's pid namespace."""
        most = self._spec["pids_limit"]
        if self._cgroups is not None:
            self._cgroup = make_pod(self._cgroups, self._spec["uid"], most)
        kept = self._cgroups is not None and self._cgroups.has("pids")
        self._pids_kept = kept or not most or bound_pids(most)

    def _mount_memory(self) -> None:
        self._files += podmemory.mount(self._directory, self._spec)

    def _look_at_processes(self) -> None:
        """Kill the largest container of a pod that has more processes than it may: the kernel does not refuse them."""
        most = self._spec["pids_limit"]
        sizes = {one.key: crowd(one.roots, most) for one in self._containers.values() if one.running}
        if sum(sizes.values()) > most:
            largest = self._containers[max(sizes, key=lambda key: sizes[key])]
            try:
                largest.over(f"the pod had more than {most} processes, its limit")
            except ProcessLookupError:
                pass  # it has ended by itself
        self._loop.later(_LOOK_SECONDS, self._look_at_processes)

    def abandon(self) -> None:
        """Leave the pod as if it had been stopped. For a shim that has served nobody yet."""
        self._write(stopped=True)
        if self._ip:
            ipam.release(self._addresses, self._ip, self._spec["uid"])

    def _read_ended(self) -> None:
        """Take over the attempts of an earlier sandbox of this pod: they are over, and not made again."""
        containers = f"{self._pod}/containers"
        for name in os.listdir(containers) if os.path.isdir(containers) else ():
            for attempt in os.listdir(f"{containers}/{name}"):
                state = files.read_state(f"{containers}/{name}/{attempt}/{STATE}")
                if state is not None:
                    self._ended[name, int(attempt)] = {**state, "past": True}

    def _write(self, stopped: bool) -> None:
        state = {key: self._spec[key] for key in ("uid", "namespace", "name", "host_network")}
        pid = pids.own_pid()
        state |= {"ip": self._ip, "pid": pid, "start_ticks": pids.start_ticks(pid), "boot": pids.boot_id()}
        state |= {"plain": self.plain, "stopped": stopped}
        files.write_state(f"{self._directory}/{files.SANDBOX}", state)

    def _state(self) -> Message:
        running = [one.state() for one in self._containers.values() if one.running]
        state = {key: self._spec[key] for key in ("uid", "namespace", "name")}
        containers = [*running, *self._ended.values()]
        containers.sort(key=lambda one: (one["name"], -one["attempt"]))
        return {**state, "ip": self._ip, "pid": pids.own_pid(), "containers": containers, "alive": True}

    def _request(self, peer: Peer, message: Message) -> None:
        operations = {
            "state": self._on_state,
            "watch": self._on_watch,
            "start": self._on_start,
            "signal": self._on_signal,
            "exec": self._on_exec,
            "attach": self._on_attach,
            "close_stdin": self._on_close_stdin,
            "dial": self._on_dial,
            "usage": self._on_usage,
            "share_cpu": self._on_share_cpu,
            "resize": self._on_resize,
            "namespaces": self._on_namespaces,
            "stop": self._on_stop,
        }
        operation = operations.get(message.get("op", ""))
        if operation is None:
            peer.answer({"failure": f"unknown operation {message.get('op')!r}"})
            return
        try:
            operation(peer, message)
        except OSError as error:
            peer.answer({"failure": str(error), "errno": error.errno})

    def _running(self, name: str) -> Container | None:
        attempts = [one for one in self._containers.values() if one.running and one.key[0] == name]
        return max(attempts, key=lambda one: one.key[1], default=None)

    def _asked_for(self, peer: Peer, message: Message) -> Container | None:
        """Return the running container of that name; None, which is answered, where there is none."""
        one = self._running(message["name"])
        if one is None:
            peer.answer({"missing": f"container {message['name']} does not run"})
        return one

    def _on_state(self, peer: Peer, message: Message) -> None:
        peer.answer({"state": self._state()})

    def _on_watch(self, peer: Peer, message: Message) -> None:
        """Answer with the state, then with `{"ended": ...}` for each container that ends."""
        self._watchers.append(peer)
        peer.on_close = lambda: self._watchers.remove(peer)
        peer.answer({"state": self._state()})

    def _on_start(self, peer: Peer, message: Message) -> None:
        spec = message["spec"]
        if self._cpu_largest is not None:
            spec["cpu_largest"] = self._cpu_largest
        key = (spec["name"], spec["attempt"])
        existing = self._containers.get(key)
        if key in self._ended or (existing is not None and existing.running):
            # Asked again by a control plane that did not live to see the answer.
            peer.answer({"started": self._ended.get(key) or (existing and existing.state())})
            return
        if existing is not None or self._stopping:
            peer.answer({"failure": "the pod is stopping or this attempt is being started"})
            return
        directory = f"{self._pod}/containers/{spec['name']}/{spec['attempt']}"
        files.remove_tree(directory)
        files.make_directory(directory)
        self._discard_older(spec["name"])
        beside = self._beside(spec)
        pod = {
            "files": self._files,
            "host_network": self._spec["host_network"],
            "cgroup": self._make_cgroup(spec),
            "kept": self._cgroups.controllers if self._cgroups is not None else (),
            "memory_volumes": self._spec["memory_volumes"],
        }
        self._starting[key] = peer
        try:
            self._containers[key] = self._make_container(spec, directory, pod, beside)
        except OSError:
            del self._starting[key]
            raise

    def _make_container(
        self, spec: Message, directory: str, pod: Message, beside: Pause | Container | None
    ) -> Container:
        started, ended, spare = self._started, self._container_ended, self._spare
        return Container(
            self._loop, spec, directory, pod, on_started=started, on_ended=ended, beside=beside, spare=spare
        )

    def _make_cgroup(self, spec: Message) -> str:
        if self._cgroups is None:
            return ""
        name = f"{spec['name']}-{spec['attempt']}"
        return make_container(self._cgroups, self._cgroup, name, limits_of(spec))

    def _beside(self, spec: Message) -> Pause | Container | None:
        """Return whose processes the container sees beside its own. Raises OSError when that one does not run."""
        if self._spec.get("share_processes"):
            if self._pause is None:
                place = f"{self._directory}/pause"
                files.make_directory(place)
                self._pause = Pause(place)
            return self._pause
        if not spec.get("beside"):
            return None
        one = self._running(spec["beside"])
        if one is None:
            raise OSError(errno.ESRCH, f"container {spec['beside']} does not run")
        return one

    def _discard_older(self, name: str) -> None:
        """Delete what ended attempts wrote, in a process of its own: it can be much."""
        directories = [
            f"{self._pod}/containers/{name}/{attempt}/{part}"
            for ended, attempt in self._ended
            if ended == name
            for part in _PARTS
        ]
        if not any(os.path.exists(path) for path in directories):
            return
        pid = os.fork()
        if pid == 0:
            try:
                os.close(self._lock)
                for path in directories:
                    files.remove_tree(path)
            finally:
                os._exit(0)  # what it could not delete, remove_sandbox meets again
        self._janitors.add(pid)
        pidfd = os.pidfd_open(pid)

        def ended(events: int) -> None:
            self._loop.forget(pidfd)
            os.close(pidfd)
            os.waitpid(pid, 0)
            self._janitors.discard(pid)
            if self._stopping:
                self._finish_stop()

        self._loop.watch(pidfd, READ, ended)

    def _started(self, one: Container) -> None:
        self._starting.pop(one.key).answer({"started": one.state()})

    def _container_ended(self, one: Container) -> None:
        del self._containers[one.key]
        if one.failure is not None:  # told only now, so that the attempt may be made again at once
            self._starting.pop(one.key).answer(_answer_of(one.failure))
        else:
            self._ended[one.key] = one.state()
            for peer in list(self._watchers):
                peer.answer({"ended": one.state()})
        if self._stopping:
            self._finish_stop()

    def _on_signal(self, peer: Peer, message: Message) -> None:
        if (one := self._asked_for(peer, message)) is not None:
            try:
                one.kill(message["signal"])
                peer.answer({})
            except ProcessLookupError:
                peer.answer({"missing": f"container {message['name']} has ended"})

    def _on_exec(self, peer: Peer, message: Message) -> None:
        if (one := self._asked_for(peer, message)) is not None:
            self._execute(one, message, peer)

    def _execute(self, one: Container, message: Message, peer: Peer) -> None:
        ExecProcess(self._loop, one, message, peer)

    def _on_attach(self, peer: Peer, message: Message) -> None:
        if (one := self._asked_for(peer, message)) is not None:
            one.attach(peer, message["stdin"])

    def _on_close_stdin(self, peer: Peer, message: Message) -> None:
        for one in self._containers.values():
            if peer in one.output.clients and one.spec["stdin_once"]:
                one.close_stdin()

    def _on_dial(self, peer: Peer, message: Message) -> None:
        """Answer with a connection to an address: it is made in this network namespace, the pod's."""
        dial(self._loop, peer, self._reached(message.get("address", "127.0.0.1")), message["port"])

    def _reached(self, address: str) -> str:
        """Return where this process reaches what the pod knows by an address."""
        return address

    def _on_usage(self, peer: Peer, message: Message) -> None:
        kept = self._cgroups
        by_cgroup = kept is not None and kept.has("cpu") and kept.has("memory")
        if by_cgroup:
            cpu, held = usage(self._cgroup)
        else:
            idle = set() if self._pause is None else {self._pause.pid}
            cpu, held = pod_usage([one.pid for one in self._containers.values()], pids.own_pid(), idle)
            held += sum(memory.used_bytes(one["path"]) for one in self._spec["memory_volumes"])
        running = {one.spec["name"]: one.usage(by_cgroup) for one in self._containers.values() if one.running}
        answer: Message = {"cpu_seconds": cpu, "memory_bytes": held, "containers": running}
        if not self._spec["host_network"]:
            answer["network"] = network_usage()
        peer.answer(answer)

    def _on_share_cpu(self, peer: Peer, message: Message) -> None:
        """Have containers yield to those of a request of `largest`, here and in other pods."""
        self._cpu_largest = message["largest"]
        peer.answer({})
        self._share_cpu(message["largest"])

    def _on_resize(self, peer: Peer, message: Message) -> None:
        if (one := self._asked_for(peer, message)) is not None:
            one.resize(message["amounts"], message["cpus"])
            peer.answer({})
            self._cpu_largest = one.spec["cpu_largest"]
            self._share_cpu(self._cpu_largest)

    def _share_cpu(self, largest: int) -> None:
        if largest != self._cpu_largest or (self._cgroups is not None and self._cgroups.has("cpu")):
            return  # it has changed again, or the kernel does so
        done = True
        for one in self._containers.values():
            one.spec["cpu_largest"] = largest
            if one.running:
                done &= share_anew(descendants(set(one.roots)), yields(one.spec))
        if not done:
            self._loop.later(_SHARE_SECONDS, lambda: self._share_cpu(largest))

    def _on_namespaces(self, peer: Peer, message: Message) -> None:
        """Hand out the user and cluster network namespaces: a new `sandboxd` goes on in them."""
        peer.answer({}, [os.dup(fd) for fd in self._namespaces])

    def _on_stop(self, peer: Peer, message: Message) -> None:
        self._stopping.append(peer)
        for one in list(self._containers.values()):
            try:
                one.kill(signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended: its log is being written
        for pid in self._janitors:
            os.kill(pid, signal.SIGKILL)
        self._finish_stop()

    def _finish_stop(self) -> None:
        if self._containers or self._janitors:
            return
        self._write(stopped=True)
        if self._cgroup:
            remove_cgroup(self._cgroup)
        if self._ip:
            ipam.release(self._addresses, self._ip, self._spec["uid"])
        if self._server is not None:
            self._server.close()
        for peer in self._stopping:
            peer.answer({"state": self._state()})
        self._loop.stop()


def _answer_of(failure: Message) -> Message:
    """A command that cannot run has ended; what a full disk refused is as if nobody had asked."""
    refused = failure.get("errno")
    return {"failure": failure["message"], "errno": refused} if refused else {"error": failure}
