"""Which process is which, across pid namespaces and over time."""

from __future__ import annotations

import os
import signal


def own_pid() -> int:
    """Return this process's number in the pid namespace of /proc, the host's: a shim is process 1 in its own."""
    return int(os.readlink("/proc/self"))


def pid_of(pidfd: int) -> int:
    """Return the number, in the pid namespace of /proc, of the process that a pidfd refers to.

    Raises ProcessLookupError when it has ended. Format: pidfd_open(2), "Pid" in fdinfo.
    """
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "Pid" and int(value) > 0:
                return int(value)
    raise ProcessLookupError


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (proc(5), field 22); None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    """Return what tells one run of the machine from the next (random(4)); empty where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def threads(pid: int) -> list[int]:
    """Return the threads of a process, `pid` in the pid namespace of /proc, by their numbers in the caller's own."""
    depth = len(_numbers("/proc/self/status"))
    try:
        found = [_numbers(f"/proc/{pid}/task/{one}/status") for one in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    return [numbers[depth - 1] for numbers in found if len(numbers) >= depth]


def _numbers(status: str) -> list[int]:
    """Return the numbers of a thread, from the namespace of /proc inwards (proc(5), NSpid); none when it has ended."""
    try:
        with open(status) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name == "NSpid":
                    return [int(number) for number in value.split()]
    except OSError:
        pass
    return []


MARK = "TRAINSHED_SANDBOX"
"""The variable by which processes of a plain pod are known whose reaper and shim were killed: the pod's directory,
since its uid alone could be another cluster's, too."""


def kill_marked(directory: str) -> bool:
    """Kill every process that is marked with a pod's directory; return whether there was one that lived."""
    variable = f"{MARK}={directory}".encode()
    found = False
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            process = os.pidfd_open(int(number))
        except OSError:
            continue
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                if variable not in file.read().split(b"\0"):
                    continue
            signal.pidfd_send_signal(process, signal.SIGKILL)
            found = True
        except OSError:
            continue
        finally:
            os.close(process)
    return found


def kill_in(mounts: int) -> None:
    """Kill every process in the mount namespace of that number, as far as they are the caller's to kill."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            process = os.open(f"/proc/{number}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            # By descriptor: the number may be somebody else's by the time of the signal.
            if os.stat("ns/mnt", dir_fd=process).st_ino == mounts:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        except OSError:
            continue
        finally:
            os.close(process)
