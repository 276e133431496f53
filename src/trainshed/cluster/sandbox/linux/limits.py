"""What a process takes on before it becomes a container's, where there are no cgroups for it or beside them."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.pids import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainshed.cluster.sandbox.wire import Message

_SCHEDULE_ORDER = 5
"""The highest nice value that a small request leads to: a third of the CPU time of one of a core and more."""
_PIDS_PER_NAMESPACE = (6, 14)
"""The first Linux that has `kernel.pid_max` for each pid namespace; before, it is the machine's."""
_PASSES = 10
KEPT_PART = 8
"""One in so many of what the kernel gives each user is not for pods."""
_PER_USER = ("inotify_instances", "inotify_watches")
_RESERVED_PIDS = 300
"""Numbers that the kernel gives once only (RESERVED_PIDS in include/linux/pid.h)."""


def nice_of(request: int) -> int:
    """Return the nice value for a CPU request in thousandths of a core: 0 from a core on, else up to 5."""
    for value in range(_SCHEDULE_ORDER):
        if request >= 1000 / 2**value:
            return value
    return _SCHEDULE_ORDER


def yields(spec: Message) -> int:
    """Return the nice value of a container beside the one with the largest request, which has 0.

    Among equals nobody yields: on a machine that has nothing else to do for the cluster, containers compete with the
    user's own processes as one of these.
    """
    return max(0, nice_of(spec["cpu_request"] or spec["cpu_limit"]) - nice_of(spec["cpu_largest"]))


def share_cpu(spec: Message, *, session: bool = True) -> None:
    """Stay on the cores of the container, and let those with larger requests go first.

    Sessions compete as one where the kernel groups them (sched(7), "The autogroup feature"): the weight of that of
    this process is set as well, if the `session` is the container's.
    """
    if spec["cpus"]:
        try:
            os.sched_setaffinity(0, spec["cpus"])
        except OSError:
            pass  # cores that were taken from this user meanwhile
    value = yields(spec)
    if value:
        try:
            os.nice(value)
            if session:
                _weigh_session("self", value)
        except OSError:
            pass  # a kernel without, or more than one change within a tenth of a second


def share_anew(pids: set[int], value: int) -> bool:
    """Give processes that run a nice value, counted from that of this one; return whether that is done.

    Not yet done: the kernel takes one change of a session from a user in a tenth of a second. What was nice once
    stays so where a user may not take that back, which counts only where the kernel does not group sessions.
    """
    wanted = min(19, os.nice(0) + value)
    done = True
    for pid in pids:
        for thread in threads(pid):
            try:
                if os.getpriority(os.PRIO_PROCESS, thread) != wanted:
                    os.setpriority(os.PRIO_PROCESS, thread, wanted)
            except OSError:
                pass  # it has ended, or may not come back
        try:
            if _weight_of_session(pid) not in (None, value):
                _weigh_session(str(pid), value)
        except BlockingIOError:
            done = False
        except OSError:
            pass
    return done


def keep_on(pids: Callable[[], set[int]], cores: Sequence[int]) -> None:
    """Move processes that run to the cores of their container, all of this process's if there are none.

    `pids` is asked again until all are there: who was not moved yet passes its cores on to what it starts.
    """
    wanted = set(cores) or os.sched_getaffinity(0)
    for _ in range(_PASSES):
        moved = False
        for pid in pids():
            for thread in threads(pid):
                try:
                    if os.sched_getaffinity(thread) != wanted:
                        os.sched_setaffinity(thread, wanted)
                        moved = True
                except OSError:
                    pass  # it has ended, or the cores were taken from this user
        if not moved:
            break


def _weigh_session(process: str, value: int) -> None:
    with open(f"/proc/{process}/autogroup", "w") as file:
        file.write(str(value))


def _weight_of_session(pid: int) -> int | None:
    """Return the nice value of the session of a process; None where the kernel does not group sessions."""
    try:
        with open(f"/proc/{pid}/autogroup") as file:
            return int(file.read().rpartition(" ")[2])
    except (OSError, ValueError):
        return None


def prefer_for_oom(score: int) -> None:
    """Let the kernel end this process and what it forks before the control plane when memory runs out."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        try:
            if int(os.read(fd, 32)) < score:
                os.write(fd, str(score).encode())
        finally:
            os.close(fd)
    except OSError:
        pass  # read-only /proc of an outer container


def forget_oom_score() -> None:
    """Be ended as readily as any process, whatever the control plane that started this one is.

    By root of the machine it is the least that what this process forks can go back to (proc(5), oom_score_adj).
    """
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            if int(file.read()) < 0:
                file.seek(0)
                file.write("0")
    except OSError:
        pass


def bound_pids(most: int) -> bool:
    """Let this process's pid namespace, and those below, have `most` processes and threads; return whether it holds."""
    if not has_pids_per_namespace():
        return False
    try:
        with open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(most + _RESERVED_PIDS))
    except OSError:
        return False
    return True


def has_pids_per_namespace(release: str = "") -> bool:
    """Return whether this kernel has a `kernel.pid_max` for each pid namespace."""
    numbers = (release or os.uname().release).split("-")[0].split(".")[:2]
    return tuple(int(part) for part in numbers if part.isdigit()) >= _PIDS_PER_NAMESPACE


def keep_back_per_user() -> None:
    """Leave the user, whom pods stand for, some of what the kernel counts by users: editors watch files, too.

    What a user namespace has is counted to the user above it as well, and both have a limit (namespaces(7),
    /proc/sys/user).
    """
    for name in _PER_USER:
        try:
            with open(f"/proc/sys/fs/inotify/max_user_{name.removeprefix('inotify_')}") as file:
                machines = int(file.read())
            with open(f"/proc/sys/user/max_{name}", "w") as file:
                file.write(str(machines - machines // KEPT_PART))
        except OSError as error:  # a kernel without it, or a read-only /proc/sys of an outer container
            os.write(2, f"pods may use up {name} of the user: {error}\n".encode())
