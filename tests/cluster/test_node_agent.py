"""The node agent against an API and a runtime in memory: what ends up in the API, the runtime and on disk."""

from __future__ import annotations

import asyncio
import errno
import os

import msgspec
import pytest

from tests.cluster.node_world import NODE, World
from tests.fakes.images import Archive, put
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.backend import LogRequest
from trainshed.cluster.images.directories import Image, ImageRegistry
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.node import registration
from trainshed.cluster.node.machine import NodeOptions
from trainshed.cluster.node.pod import worker
from trainshed.cluster.node.pod.decide import decide
from trainshed.cluster.node.pod.lifecycle import StartContainer
from trainshed.cluster.sandbox.model import StartError
from trainshed.kube.meta.errors import ApiError


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state")


async def test_the_node_registers(world):
    async with world.node(gpus=(0, 1)):
        node = world.api.objects[f"/api/v1/nodes/{NODE}"]
        status = node["status"]
        assert status["capacity"]["nvidia.com/gpu"] == "2" and int(status["allocatable"]["cpu"]) >= 1
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        assert len(status["nodeInfo"]) == 10 and all(isinstance(v, str) for v in status["nodeInfo"].values())
        lease = world.api.objects[f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"]
        assert lease["spec"]["holderIdentity"] == NODE


async def test_a_pod_runs_and_completes(world):
    async with world.node():
        mounted = make_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
        pod = make_pod(mounted, restartPolicy="Never", volumes=[{"name": "v", "emptyDir": {}}])
        await world.api.apply_pod(pod)
        status = await world.until_phase("web", "Running")
        assert status["podIP"] == "10.88.0.10" and world.paths.volume("u1", "v").is_dir()
        spec = world.runtime.specs["u1", "main", 0]
        assert spec.argv == ("true",) and str(world.paths.home) in spec.masked
        env = dict(spec.env)
        assert env["HOSTNAME"] == "web" and env["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
        world.runtime.end("u1", "main", 0)
        await world.until_phase("web", "Succeeded")
        await world.until(lambda: not world.runtime.sandboxes["u1"].alive, "the sandbox is stopped")
        await world.until(lambda: not world.paths.volume("u1", "v").exists(), "its emptyDir is gone")
        assert world.paths.logs("u1", "main").is_dir()
        await world.until(lambda: "Started" in world.api.reasons(), "events")
        assert {"ImageNotPulled", "Created", "Started"} <= set(world.api.reasons())
        patches = [s["phase"] for name, s in world.api.status_patches if name == "web"]
        assert patches in (["Running", "Succeeded"], ["Pending", "Running", "Succeeded"])


async def test_an_old_end_that_is_told_again_does_not_touch_the_attempt_that_runs(world):
    """Readiness belongs to the newest attempt; a resync repeats the ends of all."""

    def ready() -> bool:
        statuses = world.api.status("web").get("containerStatuses") or [{}]
        return bool(statuses[0].get("ready")) and statuses[0].get("restartCount") == 1

    async with world.node():
        await world.api.apply_pod(make_pod(restartPolicy="Always"))
        await world.until_phase("web", "Running")
        world.runtime.end("u1", "main", 1)
        await world.until(ready, "the second attempt is ready")
        world.runtime.repeat("u1", "main", 0)
        # A pod that comes after the repeat and is Running shows that the repeat was taken.
        await world.api.apply_pod(make_pod(metadata={"name": "later", "uid": "u2"}))
        await world.until_phase("later", "Running")
        assert ready()


async def test_a_sandbox_that_ends_between_a_decision_and_the_start_is_made_again(world, monkeypatch, caplog):
    lost = []

    def decided(observed):
        plan = decide(observed)
        if not lost and any(isinstance(action, StartContainer) for action in plan.actions):
            dead = msgspec.structs.replace(world.runtime.sandboxes["u1"], alive=False)
            lost.append(dead)
            world.runtime.sandboxes["u1"] = dead
            asyncio.get_running_loop().call_soon(node.compare, {"u1"}, {"u1": dead})
        return plan

    monkeypatch.setattr(worker, "decide", decided)
    async with world.node() as node:
        await world.api.apply_pod(make_pod())
        status = await world.until_phase("web", "Running")
    assert len(lost) == 1 and status["podIP"] == "10.88.0.11", "the address of the second sandbox"
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert "pod worker failed" not in caplog.text


async def test_deletion_sends_term_then_kill_and_leaves_nothing(world):
    world.runtime.ignores_term.add("main")
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
        assert world.paths.pod("u1").exists()
        await world.api.delete_pod("web", 1)
        await world.until(lambda: world.api.pod("web") is None, "the pod is gone")
        assert world.runtime.signals == [("main", 15), ("main", 9)]
        last = [s for name, s in world.api.status_patches if name == "web"][-1]
        assert last["phase"] == "Failed"
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        await world.until(lambda: world.runtime.sandboxes == {}, "the sandbox is removed")
        await world.until(lambda: not world.paths.pod("u1").exists(), "files are removed")


async def test_an_image_says_which_signal_ends_its_containers(world):
    put(ImageStore(world.paths.image_store), "me/app:1", Archive().bytes(), stop_signal="SIGINT")
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(image="me/app:1", command=["x"])))
        await world.until_phase("web", "Running")
        await world.api.delete_pod("web", 30)
        await world.until(lambda: world.api.pod("web") is None, "the pod is gone")
        assert world.runtime.signals == [("main", 2)]


async def test_the_node_says_which_images_it_has(world, monkeypatch):
    monkeypatch.setattr(registration, "RENEW_SECONDS", 0.02)
    store = ImageStore(world.paths.image_store)
    small = put(store, "me/app:1", Archive().bytes())
    large = put(store, "registry.local/big:2", Archive().file("x", os.urandom(5000)).bytes())
    store.names.set(parse("me/app:new"), small.descriptor)

    def said():
        return world.api.objects[f"/api/v1/nodes/{NODE}"]["status"]["images"]

    async with world.node():
        digest = f"docker.io/me/app@{small.descriptor.digest}"
        assert said() == [
            {
                "names": [f"registry.local/big@{large.descriptor.digest}", "registry.local/big:2"],
                "sizeBytes": large.size,
            },
            {"names": [digest, "docker.io/me/app:1", "docker.io/me/app:new"], "sizeBytes": small.size},
        ]
        store.names.remove("registry.local/big:2", "docker.io/me/app:new")
        await world.until(lambda: len(said()) == 1, "the image that was removed is not listed")
        assert said()[0]["names"] == [digest, "docker.io/me/app:1"]


async def test_the_node_says_again_how_it_is(world, monkeypatch):
    monkeypatch.setattr(registration, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(registration, "REPORT_SECONDS", 0.02)

    def times(name):
        return [c[name] for c in world.api.objects[f"/api/v1/nodes/{NODE}"]["status"]["conditions"]]

    async with world.node():
        first, since = times("lastHeartbeatTime"), times("lastTransitionTime")
        await world.until(lambda: times("lastHeartbeatTime") != first, "the conditions are said again")
        assert times("lastTransitionTime") == since


async def test_a_deletion_that_another_write_crosses_is_sent_again(world):
    """Not every conflict says that the pod is gone: one left behind would be terminating for ever."""
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
        world.api.conflicts = 1
        await world.api.delete_pod("web", 1)
        await world.until(lambda: world.api.pod("web") is None, "the pod is gone")
        assert world.api.conflicts == 0
        await world.until(lambda: world.runtime.sandboxes == {}, "the sandbox is removed")


async def test_a_successor_of_the_same_name_is_not_deleted(world):
    """A conflict about the uid says that the pod itself is gone, before the watch has told so."""
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
        world.api.successor = "u2"
        await world.api.delete_pod("web", 1)
        await world.until(lambda: world.runtime.sandboxes == {}, "the sandbox of the first is removed")
        assert world.api.pod("web")["metadata"]["uid"] == "u2"


async def test_a_pod_that_vanishes_is_stopped_and_removed(world):
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until_phase("web", "Running")
        await world.api.remove("/api/v1/namespaces/default/pods/web")
        await world.until(lambda: world.runtime.sandboxes == {}, "the sandbox is removed")
        assert world.runtime.signals == [("main", 15)]
        await world.until(lambda: not world.paths.pod("u1").exists(), "files are removed")


async def test_a_missing_configmap_holds_the_pod_until_it_is_there(world):
    volumes = [{"name": "v", "configMap": {"name": "cm"}}, {"name": "w", "configMap": {"name": "cm"}}]
    pod = make_pod(volumes=volumes)
    async with world.node():
        await world.api.apply_pod(pod)
        await world.until(lambda: world.api.reasons().count("FailedMount") == 2, "an event for each volume")
        assert world.runtime.sandboxes == {}, (
            "as with a kubelet, it has neither a sandbox nor an address meanwhile"
        )
        assert (
            world.api.status("web")["containerStatuses"][0]["state"]["waiting"]["reason"]
            == "ContainerCreating"
        )
        await world.api.put("/api/v1/namespaces/default/configmaps/cm", data={"a": "1"})
        await world.until_phase("web", "Running")
        file = world.paths.volumes("u1") / "v" / "a"
        assert file.read_text() == "1"
        await world.api.put("/api/v1/namespaces/default/configmaps/cm", data={"a": "2"})
        await world.until(lambda: file.read_text() == "2", "the running pod sees the change")


async def test_a_running_pod_sees_its_annotations_change_also_while_no_agent_was_there(world):
    field = {"fieldPath": "metadata.annotations['a']"}
    volume = {"name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": field}]}}
    await world.api.apply_pod(make_pod(volumes=[volume], metadata={"annotations": {"a": "1"}}))
    file = world.paths.volumes("u1") / "v" / "a"
    async with world.node():
        await world.until_phase("web", "Running")
        assert file.read_text() == "1"
        await world.api.apply_pod(make_pod(volumes=[volume], metadata={"annotations": {"a": "2"}}))
        await world.until(lambda: file.read_text() == "2", "the running pod sees the change")
    await world.api.apply_pod(make_pod(volumes=[volume], metadata={"annotations": {"a": "3"}}))
    async with world.node():
        await world.until(lambda: file.read_text() == "3", "the change is caught up with")


async def test_a_missing_key_is_a_config_error(world):
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(env=env)))

        def waiting():
            statuses = world.api.status("web").get("containerStatuses") or [{"state": {}}]
            return statuses[0]["state"].get("waiting") or {}

        await world.until(lambda: waiting().get("reason") == "CreateContainerConfigError", "the reason")
        assert waiting()["message"] == 'secret "s" not found'
        await world.api.put("/api/v1/namespaces/default/secrets/s", data={"k": "dg=="})
        await world.until_phase("web", "Running")
        assert dict(world.runtime.specs["u1", "main", 0].env)["X"] == "v"


async def test_no_command_is_explained(world):
    async with world.node() as node:
        await world.api.apply_pod(make_pod(make_container(command=[])))
        await world.until(lambda: (world.api.status("web").get("containerStatuses") or [{"state": {}}])[0]["state"]
                          .get("waiting", {}).get("reason") == "CreateContainerError", "the reason")  # fmt: skip
        with pytest.raises(
            ApiError, match='container "main" in pod "web" is waiting to start: CreateContainerError'
        ):
            async for _ in node.access.logs(world.api.pod("web"), LogRequest("main")):
                pass
        ImageRegistry(world.paths.images).add("img:1", Image(entrypoint=("serve",)))
        await world.until_phase("web", "Running")
        assert world.runtime.specs["u1", "main", 0].argv == ("serve",)
        await world.until(lambda: "Pulled" in world.api.reasons(), "the event")


async def test_a_start_that_the_disk_refuses_is_told_and_tried_again(world):
    text = "cannot record the start: No space left on device"
    world.runtime.fail_start["main"] = OSError(errno.ENOSPC, text)
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(), restartPolicy="Never"))
        await world.until(lambda: "Failed" in world.api.reasons(), "the event")

        def state():
            return world.api.status("web")["containerStatuses"][0]["state"]

        await world.until(lambda: state().get("waiting"), "a container that waits")
        assert state()["waiting"]["reason"] == "CreateContainerError"
        assert state()["waiting"]["message"].startswith(text)
        del world.runtime.fail_start["main"]
        await world.until_phase("web", "Running")
        assert world.api.status("web")["containerStatuses"][0]["restartCount"] == 0


async def test_a_program_that_is_not_there(world):
    world.runtime.fail_start["main"] = StartError(127, 'exec: "nope": not found')
    async with world.node():
        await world.api.apply_pod(make_pod(restartPolicy="Never"))
        status = await world.until_phase("web", "Failed")
        terminated = status["containerStatuses"][0]["state"]["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (127, "StartError")
        assert terminated["message"] == 'exec: "nope": not found'


async def test_the_back_off_of_a_program_that_is_not_there_is_told(world):
    world.runtime.fail_start["main"] = StartError(127, 'exec: "nope": not found')
    async with world.node():
        await world.api.apply_pod(make_pod())
        await world.until(lambda: "BackOff" in world.api.reasons(), "the event")


async def test_names_are_answered_before_the_pod_is_seen_running(world):
    service = {"clusterIP": "None", "selector": {"app": "a"}}
    await world.api.put("/api/v1/namespaces/default/services/svc", spec=service)
    async with world.node():
        await world.until(lambda: world.runtime.records, "first records")
        assert world.runtime.records[-1].pending == ("svc.default.svc.cluster.local",)
        await world.api.apply_pod(make_pod(metadata={"labels": {"app": "a"}}))
        await world.until_phase("web", "Running")
        assert world.runtime.records[-1].services == {"svc.default.svc.cluster.local": ("10.88.0.10",)}
        await world.api.delete_pod("web", 0)
        await world.until(lambda: not world.runtime.records[-1].services, "the name is withdrawn")


async def test_slices_of_users_are_in_the_zone_and_those_of_the_controller_are_not(world):
    def make_slice(name, address, **labels):
        return world.api.put(
            f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}",
            metadata={"labels": {"kubernetes.io/service-name": "db", **labels}},
            addressType="IPv4", endpoints=[{"addresses": [address]}],
        )  # fmt: skip

    name = "db.default.svc.cluster.local"
    await world.api.put("/api/v1/namespaces/default/services/db", spec={"clusterIP": "None"})
    managed_by = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    await make_slice("made", "10.0.0.1", **managed_by)
    async with world.node():
        await world.until(lambda: world.runtime.records, "first records")
        assert world.runtime.records[-1].pending == (name,)
        await make_slice("own", "10.0.0.2")
        await world.until(
            lambda: world.runtime.records[-1].services.get(name) == ("10.0.0.2",), "the address"
        )


async def test_two_nodes_share_one_zone_one_stream_of_ends_and_one_informer_per_resource(world):
    service = {"clusterIP": "None", "selector": {"app": "a"}}
    await world.api.put("/api/v1/namespaces/default/services/svc", spec=service)
    options = {NODE: NodeOptions(gpus=()), "node-b": NodeOptions(gpus=())}
    async with world.machine(options):
        for node in (NODE, "node-b"):
            pod = make_pod(
                restartPolicy="Never", metadata={"name": node, "uid": node, "labels": {"app": "a"}}
            )
            await world.api.apply_pod({**pod, "spec": {**pod["spec"], "nodeName": node}})
        for node in (NODE, "node-b"):
            await world.until_phase(node, "Running")
        assert len(world.runtime.records[-1].services["svc.default.svc.cluster.local"]) == 2
        for node in (NODE, "node-b"):
            world.runtime.end(node, "main", 0)
        for node in (NODE, "node-b"):
            await world.until_phase(node, "Succeeded")
        opened = [path for method, path in world.api.calls if method == "WATCH"]
        assert "/api/v1/pods" in opened
        assert sorted(opened) == sorted(set(opened)), "one watch per resource, however many nodes"


async def test_a_claim_that_is_bound_a_moment_later_is_not_reported(world, tmp_path):
    claim = "/api/v1/namespaces/default/persistentvolumeclaims/c"
    await world.api.put(claim, spec={}, status={"phase": "Pending"})
    pod = make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    async with world.node():
        await world.api.apply_pod(pod)
        await world.until(lambda: world.api.status("web").get("phase") == "Pending", "the pod waits")
        await world.api.put(
            "/api/v1/persistentvolumes/pv", spec={"hostPath": {"path": str(tmp_path / "data")}}
        )
        await world.api.put(claim, spec={"volumeName": "pv"}, status={"phase": "Bound"})
        await world.until_phase("web", "Running")
        assert "FailedMount" not in world.api.reasons()


async def test_twenty_pods_at_once(world):
    async with world.node():
        for number in range(20):
            await world.api.apply_pod(make_pod(metadata={"name": f"p{number}", "uid": f"u{number}"}))
        await asyncio.gather(*(world.until_phase(f"p{number}", "Running") for number in range(20)))
        running = [s for _, s in world.api.status_patches if s.get("phase") == "Running"]
        assert len(running) == 20, "one write per transition"


async def test_gpus_are_given_out_and_come_back(world):
    def wants(name):
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        return make_pod(
            make_container(resources=limits), restartPolicy="Never", metadata={"name": name, "uid": name}
        )

    async with world.node(gpus=(0, 1)):
        for name in ("a", "b"):
            await world.api.apply_pod(wants(name))
            await world.until_phase(name, "Running")
        seen = {dict(world.runtime.specs[n, "main", 0].env)["CUDA_VISIBLE_DEVICES"] for n in ("a", "b")}
        assert seen == {"0", "1"}
        await world.api.apply_pod(wants("c"))
        status = await world.until_phase("c", "Failed")
        assert status["reason"] == "UnexpectedAdmissionError"
        world.runtime.end("a", "main", 0)
        await world.until_phase("a", "Succeeded")
        await world.until(lambda: not world.runtime.sandboxes["a"].alive, "a is stopped")
        await world.api.apply_pod(wants("d"))
        await world.until_phase("d", "Running")


async def test_a_pod_is_led_to_its_own_node_before_its_first_container_starts(world):
    """A Service with `internalTrafficPolicy: Local` refuses pods that it does not know."""
    start, known = world.runtime.start_container, {}

    async def look(uid, spec):
        groups = [group for route in world.runtime.routes[-1] for group in route.groups]
        known[uid] = world.runtime.sandboxes[uid].ip in [ip for group in groups for ip in group.clients]
        return await start(uid, spec)

    world.runtime.start_container = look
    service = {
        "clusterIP": "10.96.9.9",
        "selector": {"app": "web"},
        "ports": [{"port": 80}],
        "internalTrafficPolicy": "Local",
    }
    async with world.node():
        await world.api.put("/api/v1/namespaces/default/services/s", kind="Service", spec=service)
        await world.api.apply_pod(make_pod(metadata={"labels": {"app": "web"}}))
        await world.until_phase("web", "Running")
        await world.until(lambda: world.runtime.routes[-1], "the Service leads somewhere")
        await world.api.apply_pod(make_pod(metadata={"name": "client", "uid": "u2"}))
        await world.until_phase("client", "Running")
    assert known == {"u1": False, "u2": True}, "the first is the endpoint itself"
