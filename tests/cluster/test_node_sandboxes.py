"""The node agent with real sandboxes: what a manifest asks for happens to real processes."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.cluster.node_world import World
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.backend import ExecRequest, LogRequest
from trainshed.cluster.node import diskwatch, machine
from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, RuntimePaths, RuntimeUnavailable

LONG = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]


@pytest.fixture
async def world(tmp_path):
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()
    except RuntimeUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    try:
        yield World(home, runtime)
    finally:
        try:
            await runtime.stop_all()
        except RuntimeLost:
            await runtime.stop_all()  # a pod ended while it was asked
        await runtime.close()


async def logs(world, node, name="web", container="main", **options):
    stream = node.access.logs(world.api.pod(name), LogRequest(container, **options))
    return b"".join([block async for block in stream]).decode()


async def containers(world, uid):
    """Return the containers of a pod as the runtime has them; a pod that ends meanwhile makes it lose one answer."""
    for _ in range(3):
        try:
            return [c for s in await world.runtime.list() if s.uid == uid for c in s.containers]
        except RuntimeLost:
            continue
    raise AssertionError("the runtime does not answer")


def shell(text, **fields):
    return make_container(command=["sh", "-c", text], **fields)


async def test_init_containers_hand_files_to_the_main_one(world):
    mounts = [{"name": "shared", "mountPath": "/shared"}, {"name": "shared", "mountPath": "/dev/shm"}]
    pod = make_pod(
        shell("cat /dev/shm/x; touch /opt/private", volumeMounts=mounts),
        init=(shell("echo from-init > /shared/x", name="i", volumeMounts=mounts),),
        volumes=[{"name": "shared", "emptyDir": {"medium": "Memory"}}],
        restartPolicy="Never",
    )
    async with world.node() as node:
        await world.api.apply_pod(pod)
        status = await world.until_phase("web", "Succeeded")
        assert await logs(world, node) == "from-init\n"
        assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
        assert not os.path.exists("/opt/private")


async def test_exit_codes_messages_and_missing_programs(world):
    fallback = shell("echo why; exit 7", name="b", terminationMessagePolicy="FallbackToLogsOnError")
    pod = make_pod(
        shell("echo done > /dev/termination-log; exit 3", name="a"),
        fallback,
        make_container("c", command=["no-such-program"]),
        shell("kill -9 $$$$", name="d"),
        restartPolicy="Never",
    )
    async with world.node():
        await world.api.apply_pod(pod)
        status = await world.until_phase("web", "Failed")
        ends = {c["name"]: c["state"]["terminated"] for c in status["containerStatuses"]}
        assert (ends["a"]["exitCode"], ends["a"]["message"]) == (3, "done\n")
        assert (ends["b"]["exitCode"], ends["b"]["message"]) == (7, "why\n")
        assert (ends["c"]["exitCode"], ends["c"]["reason"]) == (127, "StartError")
        assert "no-such-program" in ends["c"]["message"]


async def test_a_failing_liveness_probe_restarts_and_readiness_is_followed(world):
    main = shell(
        "trap 'exit 0' TERM; while :; do sleep 0.05; done",
        livenessProbe={
            "exec": {"command": ["test", "!", "-e", "/tmp/dead"]},
            "periodSeconds": 1,
            "timeoutSeconds": 60,  # however busy the machine is
            "failureThreshold": 1,
        },
        readinessProbe={
            "exec": {"command": ["test", "-e", "/tmp/ready"]},
            "periodSeconds": 1,
            "timeoutSeconds": 60,  # however busy the machine is
            "failureThreshold": 1,
        },
    )
    async with world.node() as node:
        await world.api.apply_pod(make_pod(main))
        await world.until_phase("web", "Running")

        def container():
            return world.api.status("web")["containerStatuses"][0]

        async def run(*command):
            session = await node.access.exec(world.api.pod("web"), ExecRequest("main", command))
            try:
                return [chunk async for chunk in session.output()], await session.wait()
            finally:
                await session.close()

        assert container()["ready"] is False and container()["started"] is True
        assert (await run("touch", "/tmp/ready"))[1] == 0
        await world.until(lambda: container()["ready"], "ready")
        await run("touch", "/tmp/dead")
        await world.until(lambda: container()["restartCount"] == 1, "a restart")
        await world.until(lambda: "Unhealthy" in world.api.reasons(), "the event")
        # An end by SIGTERM after a failed probe is an ordinary end: the restart follows the policy.
        assert container()["lastState"]["terminated"]["exitCode"] == 0


async def test_hooks_run_inside_the_container(world):
    mount = [{"name": "host", "mountPath": "/seen"}]
    seen = world.paths.home.parent / "seen"
    main = make_container(
        command=LONG,
        volumeMounts=mount,
        lifecycle={
            "postStart": {"exec": {"command": ["sh", "-c", "echo started >> /seen/log"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> /seen/log"]}},
        },
    )
    volumes = [{"name": "host", "hostPath": {"path": str(seen), "type": "DirectoryOrCreate"}}]
    async with world.node():
        await world.api.apply_pod(make_pod(main, volumes=volumes))
        await world.until(lambda: (seen / "log").exists(), "postStart")
        await world.until_phase("web", "Running")
        await world.api.delete_pod("web", 5)
        await world.until(lambda: world.api.pod("web") is None, "the pod is gone")
        assert (seen / "log").read_text() == "started\nstopping\n"


async def test_a_restarted_node_adopts_running_processes(world):
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(command=LONG)))
        await world.api.apply_pod(
            make_pod(
                shell("sleep 0.3; exit 4"), restartPolicy="Never", metadata={"name": "ends", "uid": "u2"}
            )
        )
        await world.until_phase("web", "Running")
        await world.until_phase("ends", "Running")
        (before,) = await containers(world, "u1")
    await world.runtime.close()
    await asyncio.sleep(0.5)  # what ends now, ends unseen
    world.runtime = Runtime(world.runtime.paths)
    await world.runtime.start()
    async with world.node():
        status = await world.until_phase("ends", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        (after,) = await containers(world, "u1")
        assert after == before, "the same process"
        await world.api.delete_pod("web", 5)
        await world.until(lambda: world.api.pod("web") is None, "the pod is gone")
        await world.until(lambda: not world.paths.pod("u1").exists(), "its files are removed")


async def test_a_killed_shim_is_a_restart(world, monkeypatch):
    """The runtime may or may not notice at once; asking for everything now and then always does."""
    monkeypatch.setattr(machine, "RESYNC_SECONDS", 0.5)
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(command=LONG)))
        await world.until_phase("web", "Running")
        (state,) = await world.runtime.list()
        os.kill(state.pid, signal.SIGKILL)

        def restarted():
            (container,) = world.api.status("web")["containerStatuses"]
            return container["restartCount"] == 1 and "running" in container["state"]

        await world.until(restarted, "the restart")
        (state,) = await world.runtime.list()
        assert state.alive and state.containers[0].attempt == 1


async def test_previous_logs(world):
    async with world.node() as node:
        await world.api.apply_pod(make_pod(shell("echo $$$$-run; exit 1")))
        await world.until(
            lambda: (world.api.status("web").get("containerStatuses") or [{}])[0].get("restartCount") == 1,
            "a restart",
        )
        await world.until(
            lambda: "CrashLoopBackOff" in str(world.api.status("web")["containerStatuses"][0]["state"]),
            "back-off",
        )
        assert "-run" in await logs(world, node, previous=True)
        assert "-run" in await logs(world, node)
        await world.until(lambda: "BackOff" in world.api.reasons(), "the event")


SERVE = """
import http.server, os, sys
http.server.HTTPServer((sys.argv[1], 8099), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


async def test_probes_dial_the_address_of_the_pod(world):
    """A server on the pod's address is ready, one on its loopback is not, as on any node."""

    def server(name, where):
        env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        probe = {"httpGet": {"port": 8099}, "periodSeconds": 1, "failureThreshold": 1}
        command = ["python3", "-c", SERVE, where]
        container = make_container(command=command, env=env, readinessProbe=probe)
        return make_pod(container, metadata={"name": name, "uid": f"uid-{name}"})

    def ready(name):
        return world.api.status(name).get("containerStatuses", [{}])[0].get("ready")

    async with world.node():
        await world.api.apply_pod(server("outside", "$(POD_IP)"))
        await world.api.apply_pod(server("inside", "127.0.0.1"))
        await world.until(lambda: ready("outside"), "the one that others reach is ready")
        await world.until(lambda: "Unhealthy" in world.api.reasons(), "the event about the other")
        address = world.api.status("inside")["podIP"]
        refused = f"dial tcp {address}:8099: connect: connection refused"

        def told():
            return [e for p, e in world.api.objects.items() if "/events/" in p and refused in e["message"]]

        await world.until(told, "an event that names the address that was dialled")
        assert not ready("inside")


@pytest.fixture
def looked_at_often(monkeypatch):
    """What pods write is measured all the time."""
    monkeypatch.setattr(diskwatch, "LOOK_SECONDS", 0.1)


async def test_a_pod_that_writes_more_than_it_may_is_evicted(world, looked_at_often):
    """By the limit of a container, of which its root, its logs and what it reads of volumes count; others stay."""
    limits = {"limits": {"ephemeral-storage": "8Mi"}}
    fill = "head -c 30000000 /dev/zero > /opt/filled; sleep 1000"
    async with world.node():
        await world.api.apply_pod(
            make_pod(shell(fill, resources=limits), metadata={"name": "filler", "uid": "u-filler"})
        )
        await world.api.apply_pod(
            make_pod(shell("sleep 1000", resources=limits), metadata={"name": "small", "uid": "u-small"})
        )
        await world.until_phase("small", "Running")
        status = await world.until_phase("filler", "Failed")
        assert status["reason"] == "Evicted"
        assert (
            status["message"]
            == "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. "
        )
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        assert world.api.status("small")["phase"] == "Running"
        assert "Evicted" in world.api.reasons()


async def test_a_pod_whose_volume_grows_too_large_is_evicted(world, looked_at_often):
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "4Mi"}}]
    fill = "head -c 20000000 /dev/zero > /v/filled; chmod 700 /v/filled; sleep 1000"
    mounts = [{"name": "v", "mountPath": "/v"}]
    async with world.node():
        await world.api.apply_pod(make_pod(shell(fill, volumeMounts=mounts), volumes=volumes))
        status = await world.until_phase("web", "Failed")
        assert (status["reason"], status["message"]) == (
            "Evicted",
            'Usage of EmptyDir volume "v" exceeds the limit "4Mi". ',
        )


@pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="groups of others take root")
async def test_volumes_are_handed_to_the_group_of_the_pod(world):
    """On disk, in memory and of a Secret, for a user who is in that group only."""
    volumes = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "facts", "downwardAPI": {"defaultMode": 0o400, "items": [NAME_OF_POD, NOTE_OF_POD]}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    mounts.append({"name": "disk", "mountPath": "/sub", "subPath": "a/b"})
    script = (
        "id -G; cd /; stat -c '%a %g' /disk /memory; touch /disk/own /memory/own; stat -c %g /disk/own /memory/own; "
        "cat /facts/name; stat -L -c ' %a %g' /facts/name; mkdir /sub/own && echo sub; "
        "until grep -q new /facts/note; do sleep 0.1; done; stat -L -c '%a %g' /facts/note; sleep 1000"
    )
    pod = make_pod(
        shell(script, volumeMounts=mounts),
        volumes=volumes,
        securityContext={"runAsUser": 1234, "runAsGroup": 1235, "fsGroup": 4321, "supplementalGroups": [77]}
        | {"fsGroupChangePolicy": "OnRootMismatch"},  # which is for volumes that were there before the pod
    )
    async with world.node() as node:
        await world.api.apply_pod(pod)
        await world.until_phase("web", "Running")
        async with asyncio.timeout(60):
            while "sub" not in (said := await logs(world, node)):
                await asyncio.sleep(0.05)
            assert said.splitlines() == [*OWNED, "web 440 4321", "sub"]
            await world.api.apply_pod(pod | {"metadata": pod["metadata"] | {"annotations": {"note": "new"}}})
            while said.count("440") < 2:
                said = await logs(world, node)
                await asyncio.sleep(0.05)
    assert said.splitlines()[-1] == "440 4321", "what changes later is the group's, too"


NAME_OF_POD = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
NOTE_OF_POD = {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}
OWNED = ["1235 77 4321", "2777 4321", "2777 4321", "4321", "4321"]
