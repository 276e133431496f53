"""Nodes that are short of memory or of disk: conditions, taints, who is evicted; and what they use."""

from __future__ import annotations

import pytest

from tests.cluster.node_world import NODE, World
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.diskwatch import DiskWatch, Room
from trainshed.cluster.node.memorywatch import THRESHOLD, MemoryWatch
from trainshed.cluster.node.summary import Disk
from trainshed.cluster.sandbox.model import ContainerUsage, Usage
from trainshed.kube.meta.objects import Object

MIB = 1 << 20


def _pod(name: str, **spec) -> Object:
    container = make_container(resources={"requests": {"memory": spec.pop("request", "0")}})
    made = make_pod(container, **spec)
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": f"uid-{name}"}}


class Used:
    """What the model of the runtime says that pods use, by uid, in MiB."""

    def __init__(self, world: World, **mib: int) -> None:
        self._mib = mib
        world.runtime.usage = self

    async def __call__(self, uid: str) -> Usage:
        held = self._mib.get(uid.removeprefix("uid-"), 0) * MIB
        return Usage(3.0, held, {"main": ContainerUsage(3.0, held, held // 2)}, (5, 7))


def _condition(world: World, kind: str) -> Object:
    node = world.api.objects[f"/api/v1/nodes/{NODE}"]
    return next(each for each in node["status"]["conditions"] if each["type"] == kind)


def _taints(world: World) -> list[str]:
    return [each["key"] for each in world.api.objects[f"/api/v1/nodes/{NODE}"]["spec"].get("taints") or ()]


async def test_a_node_without_memory_evicts_those_over_their_requests_first(tmp_path):
    world, free, now = World(tmp_path), [THRESHOLD], [0.0]
    Used(world, small=10, over=200, important=900, within=900, system=900)
    async with world.node() as node:
        watch = MemoryWatch(lambda: [node], available=lambda: free[0], now=lambda: now[0])
        await world.api.apply_pod(_pod("small"))
        await world.api.apply_pod(_pod("over"))
        await world.api.apply_pod(_pod("important", priority=1000))
        await world.api.apply_pod(_pod("within", request="1Gi"))
        await world.api.apply_pod(_pod("system", priority=2_000_001_000))
        await world.until(
            lambda: sum(world.api.status(name).get("phase") == "Running"
                        for name in ("small", "over", "important", "within", "system")) == 5,
            "the pods run",
        )  # fmt: skip
        await watch.look()
        assert _condition(world, "MemoryPressure")["status"] == "False" and not _taints(world)
        free[0] = THRESHOLD - 1024
        await watch.look()
        pressure = _condition(world, "MemoryPressure")
        assert (pressure["status"], pressure["reason"]) == ("True", "KubeletHasInsufficientMemory")
        assert _condition(world, "DiskPressure")["status"] == "False"
        assert _taints(world) == ["node.kubernetes.io/memory-pressure"]
        await watch.look()  # one after the other
        for name in ("over", "small", "important", "within"):
            await world.until(lambda n=name: world.api.status(n).get("reason") == "Evicted", f"{name} goes")
            message = world.api.status(name)["message"]
            assert message.startswith(
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: "
            )
            assert ("has larger consumption of memory" in message) == (name != "within"), message
            await world.until(
                lambda: all(w.record.verdict is None for w in node.running()), f"{name} has gone"
            )
            await watch.look()
        assert world.api.status("system")["phase"] == "Running", "what the cluster needs stays"
        free[0] = THRESHOLD
        await watch.look()
        assert _taints(world), "it is held for a minute"
        now[0] += 61
        await watch.look()
        assert _condition(world, "MemoryPressure")["status"] == "False" and not _taints(world)
        await world.until(
            lambda: {"EvictionThresholdMet", "Evicted"} <= set(world.api.reasons()), "the events"
        )


async def test_images_go_before_pods_when_the_disk_is_full(tmp_path):
    world, room, asked = World(tmp_path), [Room(10, 100, 1, 0)], []

    async def reclaim(wanted: int) -> int:
        asked.append(wanted)
        room[0] = Room(200, 100, 1, 0)
        return wanted

    async with world.node() as node:
        watch = DiskWatch(world.runtime, world.paths, lambda: [node], room=lambda _: room[0], reclaim=reclaim)
        await world.api.apply_pod(_pod("p"))
        await world.until(lambda: world.api.status("p").get("phase") == "Running", "the pod runs")
        await watch.look_at_disk()
        assert asked == [90] and _condition(world, "DiskPressure")["status"] == "True"
        assert world.api.status("p")["phase"] == "Running"


async def test_who_is_evicted_gives_back_what_its_volumes_hold(tmp_path):
    world = World(tmp_path)
    mount, volume = {"name": "v", "mountPath": "/v"}, {"name": "v", "emptyDir": {}}
    made = _pod("p", volumes=[volume])
    made["spec"]["containers"][0]["volumeMounts"] = [mount]

    async def reclaim(wanted: int) -> int:
        return 0

    async with world.node() as node:
        short = Room(10, 100, 1, 0)
        watch = DiskWatch(world.runtime, world.paths, lambda: [node], room=lambda _: short, reclaim=reclaim)
        await world.api.apply_pod(made)
        await world.until(lambda: world.api.status("p").get("phase") == "Running", "the pod runs")
        (world.paths.volume("uid-p", "v") / "large").write_bytes(b"x")
        world.runtime.sizes[str(world.paths.volume("uid-p", "v"))] = 1
        await watch.look_at_disk()
        await world.until(lambda: world.api.status("p").get("reason") == "Evicted", "the pod is evicted")
        await world.until(lambda: not world.paths.volume("uid-p", "v").exists(), "its volume is gone")
        assert world.paths.volumes("uid-p").exists()


async def test_the_summary_of_a_node(tmp_path):
    world = World(tmp_path)
    Used(world, p=64)
    async with world.node() as node:
        await world.api.apply_pod(_pod("p", volumes=[{"name": "v", "emptyDir": {}}]))
        await world.until(lambda: world.api.status("p").get("phase") == "Running", "the pod runs")
        found = await node.summary(None)
        assert found["node"]["nodeName"] == NODE and found["node"]["memory"]["workingSetBytes"] == 64 * MIB
        (pod,) = found["pods"]
        assert pod["podRef"] == {"name": "p", "namespace": "default", "uid": "uid-p"}
        assert pod["network"]["rxBytes"] == 5 and pod["network"]["interfaces"][0]["txBytes"] == 7
        (container,) = pod["containers"]
        assert container["memory"]["rssBytes"] == 32 * MIB
        assert (
            container["cpu"]["usageCoreNanoSeconds"] == 3_000_000_000
            and container["cpu"]["usageNanoCores"] > 0
        )
        assert container["rootfs"]["capacityBytes"] == Disk.of(tmp_path).capacity
        assert container["logs"]["usedBytes"] >= 0 and [each["name"] for each in pod["volume"]] == ["v"]
        assert pod["ephemeral-storage"]["usedBytes"] >= 0
        assert found["node"]["fs"]["availableBytes"] > 0 and "imageFs" in found["node"]["runtime"]


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("-1", 0), ("500", 500), ("many", None)])
def test_how_many_processes_a_pod_may_have_is_kept(tmp_path, text, expected):
    from trainshed.cluster.paths import StatePaths

    paths = StatePaths(tmp_path)
    assert paths.kept_pids() is None
    paths.pod_max_pids.write_text(text)
    assert paths.kept_pids() == expected
