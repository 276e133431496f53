"""What a pod has of its own, and what its containers share: /dev/shm, names, kernel parameters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.sandboxes import Sandboxes
from trainshed.cluster.sandbox.api import RuntimeLost

SHOW = "cat /dev/shm/*; cat /proc/sys/net/core/somaxconn; hostname; tail -1 /etc/hosts | cut -f2,3"


async def test_containers_of_a_pod_share_memory_names_and_parameters_and_no_other_pod_does(
    boxes: Sandboxes,
) -> None:
    long = "a.sub.default.svc.cluster.local"
    fields = {"share_memory": True, "hostname": long, "fqdn": long}
    await boxes.pod("a", sysctls=(("net/core/somaxconn", "77"),), **fields)
    await boxes.start("a", "sh", "-c", "echo of the pod > /dev/shm/x", name="first")
    assert (await boxes.end("a", "first")).exit_code == 0
    await boxes.start("a", "sh", "-c", SHOW)
    assert (await boxes.end("a")).exit_code == 0
    assert boxes.output("a") == f"of the pod\n77\n{long}\n{long}\ta\n"
    ended, seen = await boxes.run("b", "sh", "-c", "ls /dev/shm; cat /proc/sys/net/core/somaxconn")
    assert ended.exit_code == 0 and seen != "77\n" and seen.strip().isdigit()


async def test_a_parameter_that_is_not_the_pod_s_own_is_refused_by_name(boxes: Sandboxes) -> None:
    with pytest.raises(
        RuntimeLost, match=r"sysctl net\.core\.nothing cannot be '1': No such file or directory"
    ):
        await boxes.pod("a", sysctls=(("net/core/nothing", "1"),))
    with pytest.raises(RuntimeLost, match="is no name"):
        await boxes.pod("b", sysctls=(("net/../kernel/domainname", "x"),))


async def test_a_pod_on_the_machine_s_ipc_has_its_shared_memory(boxes: Sandboxes) -> None:
    mark = Path(f"/dev/shm/trainshed-test-{os.getpid()}")
    mark.write_text("of the machine\n")
    try:
        await boxes.pod("a", host_ipc=True)
        await boxes.start("a", "sh", "-c", f"cat {mark}; readlink /proc/self/ns/ipc")
        assert (await boxes.end("a")).exit_code == 0
    finally:
        mark.unlink()
    assert boxes.output("a") == f"of the machine\n{Path('/proc/self/ns/ipc').readlink()}\n"
