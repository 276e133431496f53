"""Agents that end and come back, and what they find."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.cluster.node_world import NODE, World
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.registration import KILLED


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state")


async def test_a_restarted_agent_adopts_what_runs(world):
    """Nothing is started twice; ends that nobody saw are recorded; orphans go."""
    pods = {"runs": "Always", "done": "Never", "fails": "Never", "orphan": "Always"}
    async with world.node():
        for name, policy in pods.items():
            pod = make_pod(restartPolicy=policy, metadata={"name": name, "uid": f"uid-{name}"})
            await world.api.apply_pod(pod)
            await world.until_phase(name, "Running")
    world.runtime.end("uid-done", "main", 0, quietly=True)
    world.runtime.end("uid-fails", "main", 3, quietly=True)
    await world.api.remove("/api/v1/namespaces/default/pods/orphan")
    async with world.node():
        await world.until_phase("done", "Succeeded")
        status = await world.until_phase("fails", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        await world.until(lambda: "uid-orphan" not in world.runtime.sandboxes, "the orphan is removed")
        assert not world.paths.pod("uid-orphan").exists()
        assert world.api.status("runs")["phase"] == "Running"
        assert {attempt for _, _, attempt in world.runtime.specs} == {0}
        started = [key for key in world.runtime.specs if key[0] == "uid-runs"]
        assert started == [("uid-runs", "main", 0)]


async def test_an_end_while_sandboxes_are_adopted_is_not_lost(world):
    """After the runtime was asked what there is, and before the pods have their workers."""
    async with world.node():
        await world.api.apply_pod(make_pod(restartPolicy="Never"))
        await world.until_phase("web", "Running")
    states = list(world.runtime.sandboxes.values())
    world.runtime.end("u1", "main", 0)

    async def before_the_end():
        for _ in range(10):
            await asyncio.sleep(0)  # others run meanwhile
        return states

    world.runtime.list = before_the_end
    async with world.node():
        await world.until_phase("web", "Succeeded")


async def test_a_sandbox_of_a_pod_that_is_bound_elsewhere_is_kept(world):
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
    await world.api.put("/api/v1/namespaces/default/pods/web", spec={"nodeName": "node-b", "containers": []})
    async with world.node():
        assert world.runtime.sandboxes["u1"].alive and world.paths.pod("u1").exists()


async def test_names_survive_a_restart(world):
    """The zone is never pushed without the pods that run."""
    service = {"clusterIP": "None", "selector": {"app": "a"}}
    await world.api.put("/api/v1/namespaces/default/services/svc", spec=service)
    async with world.node():
        await world.api.apply_pod(make_pod(metadata={"labels": {"app": "a"}}))
        await world.until_phase("web", "Running")
    world.runtime.records.clear()
    world.runtime.list_seconds = 0.05
    async with world.node():
        await world.until(lambda: world.runtime.records, "records")
        assert {tuple(r.services) for r in world.runtime.records} == {("svc.default.svc.cluster.local",)}


async def test_directories_of_pods_that_are_gone_are_removed(world):
    (world.paths.pod("stale") / "volumes").mkdir(parents=True)
    async with world.node():
        assert not world.paths.pod("stale").exists()


async def test_a_lost_sandbox_is_made_again(world):
    """As after a reboot: what ran has ended, and the restart policy decides."""
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
    world.runtime.sandboxes["u1"] = msgspec.structs.replace(world.runtime.sandboxes["u1"], alive=False, pid=0)
    async with world.node():
        await world.until(lambda: ("u1", "main", 1) in world.runtime.specs, "a second attempt")
        await world.until(lambda: "SandboxChanged" in world.api.reasons(), "the event")

        def restarted():
            (container,) = world.api.status("web")["containerStatuses"]
            return container["restartCount"] == 1 and "running" in container["state"] and container

        await world.until(restarted, "the restart is written")
        assert restarted()["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_reboot_is_told_of_the_node(world):
    """As by a kubelet (pkg/kubelet/nodestatus/setters.go): by the boot id that was written last."""
    path = f"/api/v1/nodes/{NODE}"
    for _ in range(2):
        async with world.node():
            status = world.api.objects[path]["status"]
    assert "Rebooted" not in world.api.reasons()
    await world.api.put(path, status={**status, "nodeInfo": {**status["nodeInfo"], "bootID": "earlier"}})
    async with world.node():
        await world.until(lambda: "Rebooted" in world.api.reasons(), "the event")
        assert world.api.objects[path]["status"]["nodeInfo"] == status["nodeInfo"]


async def test_init_containers_run_again_in_the_sandbox_that_replaces_a_lost_one(world):
    """What they made for the others may be gone; a restart of the agent alone makes nobody run again."""
    async with world.node():
        await world.api.apply_pod(make_pod(init=(make_container("i"),)))
        await world.until(lambda: ("u1", "i", 0) in world.runtime.specs, "the init container")
        world.runtime.end("u1", "i", 0)
        await world.until_phase("web", "Running")
    async with world.node():
        await world.until(lambda: world.api.status("web")["phase"] == "Running", "the pod adopted")
    assert set(world.runtime.specs) == {("u1", "i", 0), ("u1", "main", 0)}
    world.runtime.sandboxes["u1"] = msgspec.structs.replace(world.runtime.sandboxes["u1"], alive=False, pid=0)
    async with world.node():
        await world.until(lambda: ("u1", "i", 1) in world.runtime.specs, "the init container again")
        await world.until_phase("web", "Pending")
        assert ("u1", "main", 1) not in world.runtime.specs
        world.runtime.end("u1", "i", 0)
        await world.until(lambda: ("u1", "main", 1) in world.runtime.specs, "the main container again")
        await world.until_phase("web", "Running")


async def test_a_node_that_is_killed_ends_silently_and_comes_back_as_after_a_reboot(world):
    """What ran is gone and nobody says so; back again, the node starts anew what restarts and ends what was deleted."""
    path, killed = f"/api/v1/nodes/{NODE}", {"annotations": {KILLED: "true"}}
    pods = [make_pod(metadata={"name": f"p{n}", "uid": f"u{n}"}) for n in range(2)]
    async with world.node() as node:
        for pod in pods:
            await world.api.apply_pod(pod)
            await world.until_phase(pod["metadata"]["name"], "Running")
        told = len(world.api.status_patches)
        await world.api.put(path, metadata=killed)
        await world.until(lambda: node.is_down, "the node is down")
        await world.until(lambda: not any(s.alive for s in world.runtime.sandboxes.values()), "nothing runs")
        await world.api.delete_pod("p1", grace=1)
        await world.api.apply_pod(make_pod(metadata={"name": "late", "uid": "u9"}))
        assert len(world.api.status_patches) == told and world.api.status("p0")["phase"] == "Running"
        await world.api.put(path, metadata={"annotations": {}})
        await world.until_phase("late", "Running")
        await world.until(lambda: world.api.pod("p1") is None, "the deleted pod is gone")

        def restarted():
            (status,) = world.api.status("p0")["containerStatuses"]
            return status["restartCount"] == 1 and "running" in status["state"]

        await world.until(restarted, "the other runs again")
    await world.api.put(path, metadata=killed)
    async with world.node() as node:
        assert node.is_down, "it stays dead across restarts of the control plane"


async def test_who_runs_is_told_of_larger_requests_of_cpu_and_that_they_are_gone(world):
    """Also by an agent that has found both running."""
    small = make_pod(metadata={"name": "small", "uid": "uid-small"})
    large = make_pod(metadata={"name": "large", "uid": "uid-large"})
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    async with world.node():
        for pod in (small, large):
            await world.api.apply_pod(pod)
            await world.until_phase(pod["metadata"]["name"], "Running")
        assert world.runtime.specs["uid-small", "main", 0].cpu_largest == 0
        assert world.runtime.specs["uid-large", "main", 0].cpu_largest == 1000
        await world.until(lambda: world.runtime.shares.get("uid-small") == 1000, "the small one is told")
    world.runtime.shares.clear()
    async with world.node():
        await world.until(lambda: world.runtime.shares.get("uid-small") == 1000, "it is told again")
        await world.api.remove("/api/v1/namespaces/default/pods/large")
        await world.until(lambda: world.runtime.shares.get("uid-small") == 0, "nobody is larger")
