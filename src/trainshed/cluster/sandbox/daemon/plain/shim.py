"""The shim of a plain pod: as that of a sandbox, but that it is no process 1 of a namespace.

It is a subreaper: what the reaper of a container leaves behind, because it was killed, becomes its child and is killed.
"""

from __future__ import annotations

from trainshed.cluster.sandbox import pids
from trainshed.cluster.sandbox.daemon.accounting import pod_usage
from trainshed.cluster.sandbox.daemon.plain.container import PlainContainer, PlainExec
from trainshed.cluster.sandbox.daemon.plain.reaper import kill_below
from trainshed.cluster.sandbox.daemon.plain.steering import NetworkFiles
from trainshed.cluster.sandbox.daemon.shim import Shim
from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.container import Container
    from trainshed.cluster.sandbox.daemon.pause import Pause
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.wire import Message


class PlainShim(Shim):
    """Runs one pod. `run` is the run directory."""

    plain = True

    def __init__(self, spec: Message, pod: str, lock: int, ip: str, addresses: str, run: str) -> None:
        super().__init__(spec, pod, lock=lock, ip=ip, addresses=addresses, cluster=-1, user=-1, cgroups=None)
        self._network = NetworkFiles(run)

    def _isolate(self) -> None:
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        self._pids_kept = not self._spec["pids_limit"]

    def _mount_memory(self) -> None:
        """Nothing is mounted: volumes in memory are directories."""

    def _beside(self, spec: Message) -> Pause | Container | None:
        return None  # all processes of the machine are seen

    def _make_container(
        self, spec: Message, directory: str, pod: Message, beside: Pause | Container | None
    ) -> Container:
        more = {
            "ip": self._ip,
            "hostname": self._spec["hostname"],
            "directory": self._pod,
            "defaults": resolver_environment(self._spec),
            "network": self._network,
            "lock": self._lock,
        }
        return PlainContainer(
            self._loop,
            spec,
            directory,
            {**pod, **more},
            on_started=self._started,
            on_ended=self._container_ended,
        )

    def _execute(self, one: Container, message: Message, peer: Peer) -> None:
        PlainExec(self._loop, one, message, peer)

    def _reached(self, address: str) -> str:
        changed = self._network.now().reached((address, 0), "tcp", self._ip, ())
        return changed[0] if changed is not None else address

    def _container_ended(self, one: Container) -> None:
        self._kill_strays()
        super()._container_ended(one)

    def _finish_stop(self) -> None:
        if not self._containers:
            self._kill_strays()
        super()._finish_stop()

    def _kill_strays(self) -> None:
        """Kill what the reaper of a container has left: it was killed itself."""
        ours = {one.reaper for one in self._containers.values() if isinstance(one, PlainContainer)}
        kill_below(pids.own_pid(), frozenset(ours | self._janitors))

    def _on_usage(self, peer: Peer, message: Message) -> None:
        ours = {one.reaper for one in self._containers.values() if isinstance(one, PlainContainer)}
        cpu, held = pod_usage([], pids.own_pid(), ours)
        running = {one.spec["name"]: one.usage(False) for one in self._containers.values() if one.running}
        peer.answer({"cpu_seconds": cpu, "memory_bytes": held, "containers": running})

    def _on_namespaces(self, peer: Peer, message: Message) -> None:
        peer.answer({})


def resolver_environment(spec: Message) -> dict[str, str]:
    """Return the variables by which a C library looks for names as the pod is to (resolv.conf(5))."""
    out = {}
    if spec["searches"]:
        out["LOCALDOMAIN"] = " ".join(spec["searches"])
    if spec["dns_options"]:
        out["RES_OPTIONS"] = " ".join(spec["dns_options"])
    return out
