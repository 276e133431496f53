"""File systems in memory of a pod: its volumes of that kind, and /dev/shm."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.linux import memory, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

SHARED_MEMORY = "/dev/shm"


def mount(directory: str, spec: Message) -> list[Message]:
    """Mount them where this process and its containers see them, and nobody else; return what containers mount.

    `directory` is the sandbox's own. Raises OSError.
    """
    volumes, shared = spec["memory_volumes"], f"{directory}/shm"
    own = spec["share_memory"] and not spec["host_ipc"]
    if volumes or own:
        syscalls.unshare(syscalls.CLONE_NEWNS)
    for volume in volumes:
        memory.mount(volume["path"], volume["size"], volume["gid"])
    if own:
        os.makedirs(shared, exist_ok=True)
        memory.mount_shared(shared)
    if own or spec["host_ipc"]:
        return [{"source": shared if own else SHARED_MEMORY, "path": SHARED_MEMORY}]
    return []
