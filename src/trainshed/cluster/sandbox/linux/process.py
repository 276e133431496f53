"""What a container's first process does between clone and exec, and one that joins it.

It runs in a copy of the shim and never returns: it becomes the command, or reports why not over `sync`
(a SEQPACKET socket, close-on-exec) and exits; the report has `errno` where the disk had no room. End of file without
a report means that the command runs. The first process says READY, with the numbers of its mount namespace, user and
groups, when only exec is left, and waits for GO.
"""

from __future__ import annotations

import array
import errno
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import stat
import termios

from trainshed.cluster.sandbox.linux import (
    cgroups,
    credentials,
    limits,
    mountinfo,
    pseudofs,
    seccomp,
    syscalls,
    users,
)
from trainshed.cluster.sandbox.linux.beneath import make_beneath, open_beneath
from trainshed.cluster.sandbox.linux.imageroot import ImageRoot
from trainshed.cluster.sandbox.linux.rootfs import WRITTEN, RootFilesystem, by_fd
from trainshed.cluster.sandbox.linux.syscalls import MS_BIND, MS_PRIVATE, MS_REC
from trainshed.cluster.sandbox.linux.union import open_union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.wire import Message

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY, GO, STOP = b"ready ", b"1", b"0"
PROCESSES_KEPT = 512
"""How many of the user's processes (`ulimit -u`) pods leave to control plane, daemons and shims; a quarter if fewer."""
_HOST = "/.host"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def run_first(spec: Message, private: str, pod: Message, stdio: list[int], sync: socket.socket) -> NoReturn:
    """Be process 1: build the root below `private`, then exec.

    `pod` has `files`, `host_network`, the `cgroup` to be in, empty for none, and which limits are
    `kept` by it.
    """
    gc.disable()  # it lives for milliseconds, and to look through what it shares with the shim is to copy that
    try:
        if not spec["tty"]:
            take_stdio(stdio)
        os.setsid()
        if pod["cgroup"]:
            cgroups.enter(pod["cgroup"])
        _build_root(spec, private, pod)
        if spec["tty"]:
            _take_console(_open_terminal(sync))
        limits.prefer_for_oom(spec["oom_score"])
        if "cpu" not in pod["kept"]:
            limits.share_cpu(spec)
        user = users.of_container(spec)
        env = {"HOME": user.home, **dict(spec["env"])}
        _become(spec, user, -1)
        file = find_command(spec["argv"][0], env.get("PATH"))
        wait_for_leave(sync)
        execute(file, spec["argv"], env)
    except BaseException as error:
        report(sync, error)
    os._exit(128)


def run_joined(spec: Message, user_namespace: int, stdio: list[int], sync: socket.socket) -> NoReturn:
    """Be an extra process of a container whose namespaces were entered already, then exec."""
    try:
        if not spec["tty"]:
            take_stdio(stdio)
        os.setsid()
        if spec["tty"]:
            take_terminal(_open_terminal(sync))
        try:
            os.chdir(spec["cwd"])
        except OSError as error:
            raise CommandError(128, f"chdir to cwd ({spec['cwd']!r}): {reason_of(error)}") from None
        user = users.of_container(spec)
        env = {"HOME": user.home, **dict(spec["env"])}
        _become(spec, user, user_namespace)
        execute(find_command(spec["argv"][0], env.get("PATH")), spec["argv"], env)
    except BaseException as error:
        report(sync, error)
    os._exit(128)


def report(sync: socket.socket, error: BaseException) -> None:
    """Tell the shim why there is no command."""
    if isinstance(error, CommandError):
        report = {"exit_code": error.exit_code, "message": error.message}
    elif isinstance(error, users.UnknownUser):
        report = {"exit_code": 128, "message": str(error)}
    elif isinstance(error, OSError):
        report = {"exit_code": 128, "message": f"cannot make the container: {reason_of(error)}"}
    else:
        report = {"exit_code": 128, "message": f"cannot make the container: {error!r}"}
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.errno in _NO_ROOM:
        report["errno"] = cause.errno
    try:
        sync.send(json.dumps(report).encode())
    except OSError:
        pass


def reason_of(error: OSError) -> str:
    """Return what the kernel said, as container runtimes put it."""
    text = (error.strerror or str(error)).lower()
    return f"{error.filename}: {text}" if error.filename else text


def take_stdio(stdio: list[int]) -> None:
    """Have these descriptors for standard input, output and error."""
    # Above 2 first: one of them may be 0, 1 or 2 itself.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in stdio]
    for number, fd in enumerate(high):
        os.dup2(fd, number)


def _open_terminal(sync: socket.socket) -> int:
    """Open a terminal of the container's own devpts; its other side goes to the shim."""
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    slave = os.open(syscalls.unlock_terminal(master), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [master]))]
    sync.sendmsg([b"{}"], rights)
    os.close(master)
    return slave


def _take_console(slave: int) -> None:
    name = os.ttyname(slave)
    os.close(os.open("/dev/console", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    syscalls.mount(name, "/dev/console", "", MS_BIND)
    take_terminal(slave)


def take_terminal(slave: int) -> None:
    """Have the terminal as the controlling one, and for standard input, output and error."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(slave, number)


def _build_root(spec: Message, private: str, pod: Message) -> None:
    syscalls.mount("none", "/", "", MS_REC | MS_PRIVATE)
    # Sources are opened while the host's root is the root, and before the state directory is masked.
    sources = [
        (_open_source(mount, f"{private}/unions"), mount) for mount in _ordered(pod["files"] + spec["mounts"])
    ]
    masked = [*spec["masked"], *seen_elsewhere(spec["masked"])]
    if spec["root"]:
        sources = [(_detached(fd), mount) for fd, mount in sources]
    layers = [(layer["path"], layer["source"]) for layer in spec["layers"]]
    for path, source in layers:
        if not os.path.isdir(source):
            raise CommandError(128, f"layer {path}: {source}: no such directory")
    filesystem = ImageRoot(private, spec["root"]) if spec["root"] else RootFilesystem(private, layers)
    filesystem.build()
    filesystem.own_volumes(spec["volumes"])
    if spec["note_writes"]:
        filesystem.note_writes(f"{private}/{WRITTEN}")
    root = filesystem.root
    pseudofs.mount_dev(root, spec["devices"], spec["privileged"])
    pseudofs.mount_sys(root, not pod["host_network"], spec["privileged"], pod["cgroup"])
    pseudofs.mount_proc(root, spec["privileged"])
    os.mkdir(root + _HOST, 0o700)
    syscalls.pivot_root(root, root + _HOST)
    os.chdir("/")
    # From here on paths are the container's, symbolic links included.
    if spec["root"]:
        # Before a path is looked at: a symbolic link of the image could lead to the host through it. What is to be
        # mounted has been detached, for nothing is taken from a mount that has gone.
        _leave_host()
    else:
        filesystem.enter(_HOST, [*(mount["path"] for _, mount in sources), spec["cwd"]])
        if spec["note_writes"]:
            filesystem.note_writes(f"{_HOST}{private}/{WRITTEN}")
    of_root = _opened(filesystem.mounted) if spec["read_only_root"] else []
    if not spec["root"]:
        for path in masked:
            pseudofs.mask(path)
    for fd, mount in sources:
        _mount(fd, mount, detached=bool(spec["root"]))
    if not spec["root"]:
        _leave_host()
    _make_cwd(spec["cwd"])  # as container runtimes do; hence before the root becomes read-only
    for fd in of_root:
        syscalls.make_read_only(by_fd(fd), recursive=False)
        os.close(fd)


def _opened(paths: list[str]) -> list[int]:
    """Return descriptors of what is at these paths now: a volume may cover it soon, and is not meant."""
    return [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]


def seen_elsewhere(paths: list[str]) -> list[str]:
    """Return the other places at which the host shows what is at `paths`, and below."""
    found = []
    for path in paths:
        try:
            places = mountinfo.other_places(path)
        except (OSError, ValueError):
            continue
        found += places
    return found


def _leave_host() -> None:
    syscalls.unmount(_HOST)
    os.rmdir(_HOST)


def _ordered(mounts: list[Message]) -> list[Message]:
    """Return outer mounts before those below them; the later of two equals wins as it covers the other."""
    return sorted(mounts, key=lambda mount: os.path.normpath(mount["path"]).count("/"))


def _open_source(mount: Message, unions: str) -> int:
    """Return a descriptor, by which the source is bound later: other pods may change what its path leads to."""
    path, sub_path = mount["source"], mount.get("sub_path")
    try:
        lowers = mount.get("lowers")
        fd = open_union(lowers, unions) if lowers else os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not sub_path:
            return fd
        try:
            return make_beneath(fd, sub_path) if mount["make"] else open_beneath(fd, sub_path)
        finally:
            os.close(fd)
    except OSError as error:
        what = f"subPath {sub_path!r} of {path}" if sub_path else path
        raise CommandError(128, f"cannot mount {what}: {reason_of(error)}") from None


def _detached(fd: int) -> int:
    try:
        return syscalls.clone_tree(fd)
    finally:
        os.close(fd)


def _mount(fd: int, mount: Message, detached: bool) -> None:
    target = mount["path"]
    try:
        is_directory = stat.S_ISDIR(os.stat(by_fd(fd)).st_mode)
        is_there = os.path.isdir(target) if is_directory else os.path.exists(target)
        if detached or not is_there:
            target = os.path.realpath(target)  # move_mount(2) follows no link
        if not is_there and is_directory:
            os.makedirs(target, 0o755, exist_ok=True)
        elif not is_there:
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        if detached:
            syscalls.attach_tree(fd, target)
        else:
            syscalls.mount(by_fd(fd), target, "", MS_BIND | MS_REC)
        if mount.get("read_only"):
            syscalls.make_read_only(target)
    except OSError as error:
        raise CommandError(128, f"cannot mount at {mount['path']}: {reason_of(error)}") from error
    finally:
        os.close(fd)


def _make_cwd(path: str) -> None:
    try:
        os.makedirs(path, 0o755, exist_ok=True)
        os.chdir(path)
    except OSError as error:
        raise CommandError(128, f"chdir to cwd ({path!r}): {reason_of(error)}") from error


def keep_back() -> None:
    """Leave the last of what the user may have to the user and the cluster: pods cannot use up all of it.

    Of processes, timers (and other signals that wait) and message queues. The kernel counts processes of a user
    namespace by themselves, too, and root's not at all (clone(2), EAGAIN).
    """
    for kind in (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            left = soft - soft // limits.KEPT_PART
            resource.setrlimit(kind, (left, left))
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        left = soft - min(PROCESSES_KEPT, soft // 4)
        resource.setrlimit(resource.RLIMIT_NPROC, (left, left))


def _become(spec: Message, user: users.User, user_namespace: int) -> None:
    try:
        capabilities = credentials.capability_set(spec["privileged"], spec["add_caps"], spec["drop_caps"])
    except ValueError as error:
        raise CommandError(128, str(error)) from None
    keep_back()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    identity = credentials.Identity(
        uid=user.uid,
        gid=user.gid,
        groups=[user.gid, *([] if spec["strict_groups"] else user.groups), *spec["supplemental_gids"]],
        capabilities=capabilities,
        no_new_privs=spec["no_new_privs"],
        confine=lambda: None if spec["unconfined"] else _confine(capabilities),
    )
    credentials.rejoin(user_namespace, identity)


def _confine(capabilities: int) -> None:
    try:
        seccomp.apply(seccomp.program(os.uname().machine, capabilities))
    except OSError as error:
        why = f"cannot filter system calls: {reason_of(error)}; seccompProfile: Unconfined does without"
        raise CommandError(128, why) from None


def wait_for_leave(sync: socket.socket) -> None:
    """Wait until the shim has recorded that the command runs."""
    numbers = (os.stat("/proc/self/ns/mnt").st_ino, os.getuid(), os.getgid(), *os.getgroups())
    sync.send(READY + " ".join(map(str, numbers)).encode())
    if sync.recv(1) != GO:
        os._exit(128)


def execute(file: str, argv: list[str], env: dict[str, str]) -> None:
    """Become the command. Raises CommandError."""
    syscalls.forget_signal_handlers()  # the interpreter ignores SIGPIPE and SIGXFSZ
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    try:
        os.execve(file, argv, env)
    except OSError as error:
        code = 127 if error.errno == 2 else 126
        raise CommandError(code, f'exec: "{argv[0]}": {reason_of(error)}') from None


class CommandError(Exception):
    """The command cannot be run: 127 when it is not there, 126 when it is not executable, else 128, as OCI
    runtimes and shells have it."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def find_command(name: str, path: str | None) -> str:
    """Return the file to execute for `name`, searched in `path` unless it has a slash. Raises CommandError."""
    if not name:
        raise CommandError(127, 'exec: "": executable file not found in $PATH')
    if "/" in name:
        try:
            mode = os.stat(name).st_mode
        except OSError as error:
            code = 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
            reason = (error.strerror or "").lower()
            raise CommandError(code, f'exec: "{name}": stat {name}: {reason}') from None
        if stat.S_ISDIR(mode):
            raise CommandError(126, f'exec: "{name}": is a directory')
        if not os.access(name, os.X_OK):
            raise CommandError(126, f'exec: "{name}": permission denied')
        return name
    refused = False
    for directory in (path or DEFAULT_PATH).split(":"):
        candidate = os.path.join(directory or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = True
    if refused:
        raise CommandError(126, f'exec: "{name}": permission denied')
    raise CommandError(127, f'exec: "{name}": executable file not found in $PATH')
