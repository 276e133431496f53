"""The data that crosses the boundary between the node agent and the sandbox runtime.

RuntimeUnavailable   this machine cannot run sandboxes; says what to change   the user acts
RuntimeLost          a daemon or a shim does not answer                       retry, or `start()` again
SandboxNotFound      no such pod, container or process                        the caller's view is old
StartError           the container's command could not be started             the user fixes the pod
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

Isolation: TypeAlias = Literal["namespaces", "plain"]
"""What keeps pods apart: namespaces of the kernel, or with `plain` only what it offers to any process."""
Place: TypeAlias = tuple[str, str, int]
"""Where a route begins: protocol, IP address, port."""


class Mount(msgspec.Struct, frozen=True):
    """A recursive bind mount of the host's `source` (file or directory) at `path`.

    With `sub_path` it is what is there below `source`, whose content may be a pod's: nothing leads out of it. Its
    directories are made if `make` says so.
    Parents of `path` are created in the container's private root.
    With `lowers`, directories with the topmost first, it shows them as one, and `source` is only their name.
    """

    source: str
    path: str
    read_only: bool = False
    sub_path: str = ""
    make: bool = False
    lowers: tuple[str, ...] = ()


class Layer(msgspec.Struct, frozen=True):
    """A host directory that appears at `path` as a read-only lower layer; writes go to the container.

    A layer at `/` is a whole root: each of its directories is laid over the host's of the same name.
    """

    source: str
    path: str


class MemoryVolume(msgspec.Struct, frozen=True):
    """A file system in memory at the host's directory `path`, for one pod only to see; `size` in bytes.

    What is in it counts as memory of its `writers`, containers that may write to it, in equal parts. It belongs to the
    group `gid` if that is not None.
    """

    path: str
    size: int
    writers: int = 1
    gid: int | None = None


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One pod: what its containers share. `hosts` adds lines to /etc/hosts: (IP, names); `fqdn` is the pod's long name
    there, empty for none.

    Without `nameservers` the pod's /etc/resolv.conf is a copy of the host's. `pids_limit` is how many processes and
    threads there may be, 0 for any number; where the kernel does not keep it, a pod with more processes is killed.
    With `share_processes` containers see each other's processes, and are in one pid namespace, whose process 1 is
    none of theirs. With `share_memory` they have one /dev/shm, with `host_ipc` the machine's, and its IPC namespace.
    `sysctls` are kernel parameters of the pod's own namespaces, by their paths below /proc/sys, and their values.
    """

    uid: str
    namespace: str
    name: str
    hostname: str
    host_network: bool = False
    searches: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    hosts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pids_limit: int = 0
    memory_volumes: tuple[MemoryVolume, ...] = ()
    share_processes: bool = False
    share_memory: bool = False
    host_ipc: bool = False
    fqdn: str = ""
    sysctls: tuple[tuple[str, str], ...] = ()


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to run a container.

    `argv` is looked up with PATH of `env` inside the container. `uid` and `gid` None mean 0.
    `log_path` is appended to in CRI format; rotated files are `<log_path>.1` (newest) to `.4`.
    `masked` paths are hidden by an empty read-only tmpfs; the sources of `mounts` may lie below them.
    `devices` are paths below the host's /dev. Capabilities are written without `CAP_`; `ALL` is allowed.
    `supplemental_gids` are ignored where the user namespace has no such groups; with `strict_groups` the user has no
    others, whatever the image's /etc/group says.
    `unconfined` lifts the filter of system calls, which refuses what container runtimes refuse.
    `note_writes` leaves in the attempt's directory where what the container wrote is (`written.json`).
    `volumes` are directories of the root whose content is there, and can be written to where the root cannot.
    `beside` is a running container in whose pid namespace it is to be.
    `memory_limit` is in bytes, 0 for none: a container that holds more is killed, as a whole.
    `cpu_limit` and `cpu_request` are in thousandths of a core, 0 for none. Where the kernel does not keep them by a
    cgroup, the container stays on the cores `cpus`, all if empty, and is nicer to others than one with a request of
    `cpu_largest`, the largest of those that run.
    `oom_score` is how readily the kernel ends it when the machine's memory runs out (`oom_score_adj`).
    With `root`, host directories with the topmost first, they alone are the root, and nothing of the host's is in it;
    `layers` are not looked at then. There `user` (`name|uid[:group|gid]`, as images have it) counts where `uid` and
    `gid` are None, its groups are taken from the root's /etc/group, and HOME from its /etc/passwd unless `env` has it.
    """

    name: str
    argv: tuple[str, ...]
    log_path: str
    attempt: int = 0
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    mounts: tuple[Mount, ...] = ()
    layers: tuple[Layer, ...] = ()
    root: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    user: str = ""
    uid: int | None = None
    gid: int | None = None
    supplemental_gids: tuple[int, ...] = ()
    strict_groups: bool = False
    read_only_root: bool = False
    no_new_privs: bool = False
    privileged: bool = False
    unconfined: bool = False
    drop_caps: tuple[str, ...] = ()
    add_caps: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    masked: tuple[str, ...] = ()
    note_writes: bool = False
    termination_message_path: str = "/dev/termination-log"
    memory_limit: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0
    cpu_largest: int = 0
    cpus: tuple[int, ...] = ()
    oom_score: int = 1000
    beside: str = ""


class ExecSpec(msgspec.Struct, frozen=True, kw_only=True, rename={"container": "name"}):
    """A command to run inside a container, with the container's user and environment plus `env`.

    With an empty `cwd` it starts in the container's. With `tty` there is one stream, a terminal.
    """

    container: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    stdin: bool = False
    tty: bool = False


class Amounts(msgspec.Struct, frozen=True):
    """What a container may use: see `ContainerSpec`."""

    memory_limit: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0


class ContainerState(msgspec.Struct, frozen=True):
    """What became of one attempt. Times are seconds since the epoch.

    Running while `finished_at` is None. `exit_code` is 128 + `signal` when a signal ended it. `held_bytes` is what it
    held when it was killed for its memory limit, else 0. `user`: the numbers of user, group and further groups that the
    first process sees; empty where it has not become the command.
    `amounts` are those in force, None where its shim is of a version that does not say.
    `message` is the content of the termination message file (at most 4096 bytes), or why it did not start.
    `past`: it ran in an earlier sandbox of the pod. `unknown`: nobody knows how it ended, for the machine went down.
    """

    name: str
    attempt: int
    pid: int | None
    started_at: float
    finished_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    held_bytes: int = 0
    user: tuple[int, ...] = ()
    amounts: Amounts | None = None
    past: bool = False
    unknown: bool = False


class SandboxState(msgspec.Struct, frozen=True):
    """A pod as found: every attempt of every container, the newest of each first.

    `ip` is empty with `host_network`. `alive` is False when only files are left: the pod was stopped,
    its shim was killed, or the machine was restarted; `pid` is then 0.
    """

    uid: str
    namespace: str
    name: str
    ip: str
    pid: int
    containers: tuple[ContainerState, ...] = ()
    alive: bool = True


class DnsRecords(msgspec.Struct, frozen=True):
    """The cluster zone. `services` maps names without trailing dot to their IPv4 addresses.

    `pending` names are known but have no ready address yet: an answer is held until one arrives,
    at most 1.5 s. `ports` are those with a name of each service: (name, protocol, number). `aliases` stand for names
    that may be anybody's.
    """

    services: dict[str, tuple[str, ...]]
    pending: tuple[str, ...] = ()
    ports: dict[str, tuple[tuple[str, str, int], ...]] = {}
    aliases: dict[str, str] = {}


class Group(msgspec.Struct, frozen=True):
    """Clients, by their IP addresses, and the endpoints that only these are led to."""

    clients: tuple[str, ...]
    endpoints: tuple[tuple[str, int], ...]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A port that leads to endpoints: of a Service's address, or with `host` of the machine's loopback.

    `protocol` is `tcp` or `udp`. With `affinity_seconds` a client keeps its endpoint until it has made no connection
    for so long. Endpoints outside the cluster's networks are reached from the machine, and those at `MACHINE` there.
    With `groups`, a pod is led to endpoints of its group, one that is in none is refused, and who is no pod has all.
    """

    protocol: str
    ip: str
    port: int
    endpoints: tuple[tuple[str, int], ...]
    host: bool = False
    affinity_seconds: int = 0
    groups: tuple[Group, ...] = ()

    @property
    def place(self) -> Place:
        """What no two routes share."""
        return self.protocol, self.ip, self.port


class Keepers(msgspec.Struct, frozen=True, rename="kebab"):
    """What keeps each limit of containers on this machine, in a few words for people."""

    cpu: str
    memory: str
    pids: str
    ephemeral_storage: str


class ContainerUsage(msgspec.Struct, frozen=True):
    """Use of a container since it started. `rss_bytes` are those of its memory that are no file's."""

    cpu_seconds: float
    memory_bytes: int
    rss_bytes: int = 0


class Usage(msgspec.Struct, frozen=True):
    """Use of a pod since its containers started: CPU seconds, and anonymous plus shared memory in bytes.

    `containers` are those that run; `network` is (received, sent) bytes of a network of its own.
    """

    cpu_seconds: float
    memory_bytes: int
    containers: dict[str, ContainerUsage] = {}
    network: tuple[int, int] | None = None


class RuntimePaths(msgspec.Struct, frozen=True):
    """Where the runtime keeps its files. Created with mode 0700.

    run    sockets and locks of the daemons
    pods   `<uid>/sandbox` and `<uid>/containers` belong to the runtime; the rest of `<uid>` to the agent
    log    what the daemons have to say
    """

    run: Path
    pods: Path
    log: Path

    @classmethod
    def under(cls, home: Path) -> RuntimePaths:
        """Return the paths below the state directory `home`."""
        return cls(run=home / "run", pods=home / "pods", log=home / "log")


class RuntimeUnavailable(Exception):
    """Sandboxes cannot be made on this machine: one sentence of diagnosis, and what to change."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class RuntimeLost(Exception):
    """A daemon or shim does not answer. `Runtime.start()` brings the daemons back."""


class SandboxNotFound(Exception):
    """No sandbox, container or running process of that name."""


class StartError(Exception):
    """The command of a container did not start. 127: not found, 126: not executable, 128: anything else."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
