"""What a pod left on disk once its shim is gone: stopped, killed, or ended with the machine."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import msgspec

from trainshed.cluster.sandbox import files, pids, podlock
from trainshed.cluster.sandbox.model import ContainerState, RuntimePaths, SandboxState
from trainshed.cluster.sandbox.net import ipam

if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

SHIM_DIED = "the pod's shim was killed; the container ended with it"
REBOOTED = "the machine was restarted while the container ran"
_KILLED = 9
_UNKNOWN = 255
"""Exit code of what ran when the machine went down, as of containerd (internal/cri/server/restart.go)."""


def read(paths: RuntimePaths, uid: str) -> SandboxState:
    """Return the state that the files tell, as it is: a container may still look as if it ran."""
    pod = paths.pods / uid
    sandbox = files.read_state(str(pod / "sandbox" / "sandbox.json")) or {}
    containers = []
    for path in sorted(pod.glob("containers/*/*/state.json")):
        state = files.read_state(str(path))
        if state is not None:
            containers.append(msgspec.convert({**state, "past": True}, ContainerState))
    containers.sort(key=lambda one: (one.name, -one.attempt))
    return SandboxState(
        uid=uid,
        namespace=sandbox.get("namespace", ""),
        name=sandbox.get("name", ""),
        ip=sandbox.get("ip", ""),
        pid=0,
        containers=tuple(containers),
        alive=False,
    )


def settle(paths: RuntimePaths, uid: str) -> bool:
    """Record that the shim is gone: containers that ran were killed with it, or ended with the machine, and nobody
    knows how; the address is free again.

    Returns False, having done nothing, while a shim lives, or anything of its containers: the kernel keeps the shim,
    without its files, until the last of their processes has ended.
    """
    pod = paths.pods / uid
    name = str(pod / "sandbox" / "sandbox.json")
    sandbox = files.read_state(name)
    if podlock.is_held(str(pod)) or (sandbox is not None and _is_ending(sandbox)):
        return False
    if sandbox is not None and sandbox.get("plain") and not sandbox["stopped"] and pids.kill_marked(str(pod)):
        return False  # the shim and the reaper were killed at once: what is left is known by its environment
    if sandbox is None:
        return True
    end: Message = {"exit_code": 128 + _KILLED, "signal": _KILLED, "message": SHIM_DIED}
    if sandbox.get("boot", here := pids.boot_id()) != here:
        end = {"exit_code": _UNKNOWN, "message": REBOOTED, "unknown": True}
    for path in sorted(pod.glob("containers/*/*/state.json")):
        state = files.read_state(str(path))
        if state is not None and state["finished_at"] is None:
            files.write_state(str(path), {**state, "pid": None, "finished_at": time.time(), **end})
    if not sandbox["stopped"]:
        files.write_state(name, {**sandbox, "stopped": True})
    if sandbox["ip"]:
        ipam.release(str(paths.run / "addresses"), sandbox["ip"], uid)
    return True


def _is_ending(sandbox: Message) -> bool:
    ticks = sandbox.get("start_ticks")
    return ticks is not None and pids.start_ticks(sandbox["pid"]) == ticks


def remove(paths: RuntimePaths, uid: str) -> None:
    """Delete the runtime's files of a pod without the daemon's help. Raises OSError."""
    pod = paths.pods / uid
    files.remove_tree(str(pod / "containers"))
    files.remove_tree(str(pod / "sandbox"))
    with contextlib.suppress(OSError):
        pod.rmdir()
