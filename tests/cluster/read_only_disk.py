"""A program: an API server whose disk becomes read-only while it runs, and writable again.

`python -m tests.cluster.read_only_disk HOME`. It has mounts of its own, so it is a process of its own. A file that is
open for writing keeps a mount from becoming read-only; that a write fails while the file is open is played by a limit
on its size, after which the store opens the file anew.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from trainshed.cluster.sandbox.linux import syscalls

CMS = "/api/v1/namespaces/default/configmaps"


def own_mounts() -> None:
    """Enter a mount namespace; who is not root becomes root of a user namespace for it."""
    if os.geteuid() != 0:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


async def main(home: Path) -> None:
    """Refuse writes, go on reading, and write again."""
    from tests.cluster.api_world import config_map, open_world  # starts threads

    async with open_world(home) as world:
        await world.ok("POST", CMS, config_map("kept"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((home / "store.db-wal").stat().st_size, hard))
        await world.refused(507, "POST", CMS, config_map("lost"))
        syscalls.mount(str(home), str(home), "", syscalls.MS_BIND | syscalls.MS_REC)
        syscalls.make_read_only(str(home))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        for _ in range(3):
            status = await world.refused(507, "POST", CMS, config_map("lost"))
            assert status["reason"] == "InsufficientStorage", status
            assert "ead-only file system" in status["message"] and "make " in status["message"], status
            names = [item["metadata"]["name"] for item in (await world.ok("GET", CMS))["items"]]
            assert names[-1] == "kept" and "lost" not in names, names
        syscalls.unmount(str(home))
        await world.ok("POST", CMS, config_map("lost"))
    print("refused, read, and written again")


if __name__ == "__main__":
    own_mounts()
    asyncio.run(main(Path(sys.argv[1])))
