"""What pods run in: the store, registered directories, the machine; statuses and events as a kubelet has them."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from tests.cluster.node_world import World
from tests.fakes.images import Archive, put
from tests.fakes.registry import PASSWORD, USER, FakeRegistry
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.images.directories import Image, ImageProblem, ImageRegistry
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.registry import transfer
from trainshed.cluster.images.registry.credentials import Credentials
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.store import notes
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.node.pod.images import ImageRefused, Images, RunImage, check_non_root
from trainshed.cluster.node.pod.nodecontext import MachineOptions
from trainshed.cluster.node.pod.pullsecrets import pull_secrets
from trainshed.cluster.node.pod.starter import needed
from trainshed.cluster.node.pod.unsupported import Capabilities
from trainshed.cluster.node.references import References
from trainshed.kube.meta.plan import Event


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path):
    return ImageStore(tmp_path / "images" / "store")


@pytest.fixture
def registry(tmp_path):
    return ImageRegistry(tmp_path / "images" / "images.json")


async def test_the_store_comes_before_directories_before_the_machine(store, registry, tmp_path):
    images = Images(registry, store, "machine", Clock())
    container = make_container(image="me/app:1")
    obtained = await images.obtain(container, tmp_path / "pod")
    assert (obtained.known, obtained.root) == (False, ()) and images.id("me/app:1") == "trainshed://host-root"
    registry.add("me/app:1", Image(entrypoint=("mine",)))
    assert (await images.obtain(container, tmp_path / "pod")).image.entrypoint == ("mine",)
    stored = put(store, "me/app:1", Archive().bytes(), entrypoint=("theirs",), user="7", working_dir="/w")
    obtained = await images.obtain(container, tmp_path / "pod")
    assert obtained.image.entrypoint == ("theirs",) and obtained.user == "7" and obtained.stored
    assert obtained.root == tuple(str(store.layers.path(d)) for d in stored.config.rootfs.diff_ids)
    assert images.id("me/app:1") == f"docker.io/me/app@{stored.descriptor.digest}"
    assert notes.noted(tmp_path / "pod") == [store.layers.path(d).name for d in stored.config.rootfs.diff_ids]


async def test_never_pull_needs_an_image(store, registry, tmp_path):
    images = Images(registry, store, "machine", Clock())
    container = make_container(image="me/app:1", imagePullPolicy="Never")
    with pytest.raises(ImageProblem) as caught:
        await images.obtain(container, tmp_path / "pod")
    assert caught.value.reason == "ErrImageNeverPull"
    assert caught.value.message == 'Container image "me/app:1" is not present with pull policy of Never'
    put(store, "me/app:1", Archive().bytes())
    assert (await images.obtain(container, tmp_path / "pod")).stored


UNKNOWN = "hub: GET /v2/me/app/manifests/1: 404 manifest unknown"


class Hub:
    """Pulls what it has, and notes what it was asked."""

    def __init__(self) -> None:
        self.has: list[str] = []
        self.asked: list[tuple[str, list[Credentials]]] = []

    async def __call__(self, store, name, wanted, credentials):
        self.asked.append((name.familiar, list(credentials)))
        await asyncio.sleep(0)
        if name.familiar not in self.has:
            raise RegistryError(UNKNOWN, 404)
        return put(store, str(name), Archive().bytes())


async def test_strict_backs_off_as_a_kubelet(store, registry, tmp_path):
    clock, hub = Clock(), Hub()
    images = Images(registry, store, "strict", clock, hub)
    registry.add("me/app:1", Image(entrypoint=("mine",)))
    container = make_container(image="me/app:1")
    told: list[Event] = []

    async def refused():
        with pytest.raises(ImageRefused) as caught:
            await images.obtain(container, tmp_path / "pod", tell=told.append)
        return caught.value

    for seconds in (10, 20, 40, 80, 160, 300, 300):
        told.clear()
        first = await refused()
        assert first.reason == "ErrImagePull" and first.retry_at == clock.now + 1
        assert [e.reason for e in (*told, *first.events)] == ["Pulling", "Failed", "Failed"]
        assert first.message.endswith(
            'image "docker.io/me/app:1": hub: GET /v2/me/app/manifests/1: 404 manifest unknown'
        )
        second = await refused()
        assert second.reason == "ImagePullBackOff" and second.retry_at == clock.now + seconds
        assert second.message.startswith('Back-off pulling image "me/app:1": ErrImagePull: failed to pull')
        assert [(e.type, e.reason) for e in second.events] == [("Normal", "BackOff"), ("Warning", "Failed")]
        clock.now += seconds
    assert len(hub.asked) == 7
    with pytest.raises(ImageRefused):
        await images.obtain(container, tmp_path / "other")
    assert len(hub.asked) == 8, "another pod does not wait for what this one was refused"
    with pytest.raises(ImageRefused):
        await images.obtain(container, tmp_path / "other", [{"auths": {}}])
    assert len(hub.asked) == 9, "nor one that shows other secrets"
    hub.has = ["me/app:1"]
    told.clear()
    assert (await images.obtain(container, tmp_path / "pod", tell=told.append)).stored
    assert [e.reason for e in told] == ["Pulling", "Pulled"] and "Successfully pulled" in told[1].message
    assert (await images.obtain(make_container(image="kubeflow/kubectl-delivery"), tmp_path / "pod")).known


@pytest.mark.parametrize(
    ("mode", "policy", "present", "pulls", "stored"),
    [
        ("machine", "Always", False, 0, False),
        ("machine", "Always", True, 0, True),
        ("pull", "IfNotPresent", False, 1, True),
        ("pull", "Always", True, 0, True),
        ("strict", "IfNotPresent", True, 0, True),
        ("strict", "IfNotPresent", False, 1, True),
        ("strict", "Always", True, 1, True),
        ("strict", "Never", True, 0, True),
    ],
)
async def test_when_images_are_pulled(store, registry, tmp_path, mode, policy, present, pulls, stored):
    hub = Hub()
    hub.has = ["me/app:1"]
    if present:
        put(store, "me/app:1", Archive().bytes())
    images = Images(registry, store, mode, Clock(), hub)
    container = make_container(image="me/app:1", imagePullPolicy=policy)
    assert (await images.obtain(container, tmp_path / "pod")).stored == stored
    assert len(hub.asked) == pulls


async def test_pods_that_ask_at_once_share_a_pull_and_what_is_not_had_is_the_machine(
    store, registry, tmp_path
):
    hub = Hub()
    images = Images(registry, store, "pull", Clock(), hub)
    told: list[Event] = []
    obtained = await asyncio.gather(
        *(
            images.obtain(make_container(image="me/app:1"), tmp_path / "pod", tell=told.append)
            for _ in range(3)
        )
    )
    assert not any(each.stored for each in obtained) and len(hub.asked) == 1
    assert [e.reason for e in told if e.reason == "ImageNotPulled"] == ["ImageNotPulled"] * 3
    secret = {"auths": {"docker.io": {"username": "u", "password": "p"}}}
    hub.has = ["me/other:1"]
    assert (await images.obtain(make_container(image="me/other:1"), tmp_path / "pod", [secret])).stored
    assert hub.asked[-1][1][0] == Credentials("u", "p")


async def test_a_volume_of_an_image_that_cannot_be_pulled_waits_for_it(store, registry, tmp_path):
    """Nothing says that it is this machine's root instead, as a container's would be."""
    clock, hub = Clock(), Hub()
    images = Images(registry, store, "pull", clock, hub)
    told: list[Event] = []

    async def obtain():
        return await images.obtain_volume("v", {"reference": "me/model:1"}, tmp_path / "pod", (), told.append)

    for reason, at in (("ErrImagePull", 1001.0), ("ImagePullBackOff", 1010.0)):
        with pytest.raises(ImageRefused) as caught:
            await obtain()
        assert (caught.value.reason, caught.value.retry_at) == (reason, at)
    assert [event.reason for event in told] == ["Pulling"] and len(hub.asked) == 1
    clock.now, hub.has = 1010.0, ["me/model:1"]
    assert len(await obtain()) == 1


def test_the_documents_of_pull_secrets():
    good = {"auths": {"reg.io": {"username": "u", "password": "p"}}}

    def secret(key, value):
        return {"data": {key: base64.b64encode(value).decode()}}

    references = References(
        {
            ("secrets", "new"): secret(".dockerconfigjson", json.dumps(good).encode()),
            ("secrets", "old"): secret(".dockercfg", json.dumps(good["auths"]).encode()),
            ("secrets", "bad"): secret(".dockerconfigjson", b"{"),
            ("secrets", "other"): secret("password", b"x"),
        }
    )
    named = [{"name": name} for name in ("bad", "new", "missing", "other", "old")]
    pod = make_pod(imagePullSecrets=named)
    assert pull_secrets(pod, references) == [good, good["auths"]]
    assert ("secrets", "missing") in needed(pod)


async def test_a_damaged_image_is_said(store, registry, tmp_path):
    stored = put(store, "me/app:1", Archive().bytes())
    store.blobs.path(stored.manifest.layers[0].digest).unlink()
    with pytest.raises(ImageProblem, match="the store has no content of sha256") as caught:
        await Images(registry, store, "machine", Clock()).obtain(
            make_container(image="me/app:1"), tmp_path / "pod"
        )
    assert caught.value.reason == "CreateContainerError"


async def test_a_pod_waits_for_an_image_that_strict_refuses(tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    world = World(tmp_path, machine=MachineOptions(images="strict", capabilities=Capabilities(pulls=True)))
    async with FakeRegistry().serving() as hub, world.node():
        container = make_container(image=f"{hub.address}/me/none:1")
        await world.api.apply_pod(make_pod(container, imagePullSecrets=[{"name": "gone"}]))
        await world.until(lambda: _waiting(world).get("reason") == "ImagePullBackOff", "the pod backs off")
        assert "404 it is manifest_unknown" in _waiting(world)["message"]
        told = {"FailedToRetrieveImagePullSecret", "Pulling", "Failed", "BackOff"}
        await world.until(lambda: told <= set(world.api.reasons()), "the events")
        assert not world.runtime.specs


async def test_a_pod_runs_in_what_is_pulled_with_its_secret(tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    world = World(tmp_path, machine=MachineOptions(images="strict"))
    mine = ImageStore(tmp_path / "mine")
    async with FakeRegistry("token").serving() as hub, world.node():
        name = parse(f"{hub.address}/me/app:1")
        image = put(
            mine,
            str(name),
            Archive().bytes(),
            entrypoint=("serve",),
            user="7",
            env=("A=1",),
            working_dir="/w",
        )
        await transfer.push(mine, image, name, [Credentials(USER, PASSWORD)])
        auths = {"auths": {hub.address: {"username": USER, "password": PASSWORD}}}
        data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
        await world.api.put("/api/v1/namespaces/default/secrets/hub", apiVersion="v1", kind="Secret", data=data,
                            metadata={"name": "hub", "namespace": "default"})  # fmt: skip
        container = make_container(image=str(name), command=[])
        await world.api.apply_pod(make_pod(container, imagePullSecrets=[{"name": "hub"}]))
        await world.until(lambda: world.runtime.specs, "the container starts")
        (spec,) = world.runtime.specs.values()
        assert (spec.argv, spec.user, spec.cwd, dict(spec.env)["A"]) == (("serve",), "7", "/w", "1")
        assert "HOME" not in dict(spec.env) and spec.masked == () and len(spec.root) == 1
        await world.until(
            lambda: {"Pulling", "Pulled", "Created", "Started"} <= set(world.api.reasons()), "the events"
        )
        await world.until(
            lambda: world.api.status("web")["containerStatuses"][0]["imageID"], "the image's id"
        )
        image_id = world.api.status("web")["containerStatuses"][0]["imageID"]
        assert image_id == f"{name.repository}@{image.descriptor.digest}"


def _waiting(world):
    statuses = world.api.status("web").get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting", {})


@pytest.mark.parametrize(
    ("user", "stored", "own", "said"),
    [
        ("", True, {}, ""),
        ("", True, {"runAsNonRoot": True}, "image will run as root"),
        ("0:5", True, {"runAsNonRoot": True}, "image will run as root"),
        ("app", True, {"runAsNonRoot": True}, "non-numeric user (app)"),
        ("1000", True, {"runAsNonRoot": True}, ""),
        ("", True, {"runAsNonRoot": True, "runAsUser": 5}, ""),
        ("1000", True, {"runAsNonRoot": True, "runAsUser": 0}, "breaks non-root policy"),
        ("", False, {"runAsNonRoot": True}, ""),
    ],
)
def test_run_as_non_root(user, stored, own, said):
    image = RunImage(image=Image(), user=user, stored=stored)
    found = check_non_root(make_pod(), make_container(securityContext=own), image)
    assert said in found and bool(found) == bool(said)
    assert not found or found.endswith(' (pod: "web_default(u1)", container: main)')


def _with_image(reference: str, **source: str) -> dict:
    container = make_container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "w"}])
    return make_pod(container, volumes=[{"name": "v", "image": {"reference": reference, **source}}])


async def test_an_image_is_a_volume_of_a_pod(tmp_path):
    world = World(tmp_path)
    store = ImageStore(world.paths.image_store)
    layers = (Archive().file("w", b"1").bytes(), Archive().file("x", b"2").bytes())
    image = put(store, "me/model:1", *layers)
    async with world.node():
        await world.api.apply_pod(_with_image("me/model:1"))
        await world.until(lambda: world.runtime.specs, "the container starts")
        (spec,) = world.runtime.specs.values()
        (mount,) = [each for each in spec.mounts if each.path == "/v"]
        assert (mount.source, mount.read_only, mount.sub_path) == ("me/model:1", True, "w")
        assert mount.lowers == tuple(map(str, store.lowers(image))) and len(mount.lowers) == 2
        (noted,) = notes.noted_by_pods(world.paths.pod(""))
        assert len(noted) == 2, "what a pod stands on is not collected"


@pytest.mark.parametrize(
    ("policy", "reason", "message"),
    [
        ("IfNotPresent", "ErrImagePull", 'image "me/none:1" of volume "v" is not in the store'),
        (
            "Never",
            "ErrImageNeverPull",
            'Container image "me/none:1" is not present with pull policy of Never',
        ),
    ],
)
async def test_an_image_volume_that_cannot_be_had_is_said(tmp_path, policy, reason, message):
    world = World(tmp_path)
    async with world.node():
        await world.api.apply_pod(_with_image("me/none:1", pullPolicy=policy))
        await world.until(lambda: _waiting(world).get("reason") == reason, "the pod says why it waits")
        assert message in _waiting(world)["message"] and not world.runtime.specs
        why = "ErrImageNeverPull" if policy == "Never" else "Failed"
        await world.until(lambda: {why, "Failed"} <= set(world.api.reasons()), "the events of a kubelet")


async def test_volumes_of_an_image_are_told_to_the_runtime_unless_the_pod_mounts_there(tmp_path):
    world = World(tmp_path)
    store = ImageStore(world.paths.image_store)
    put(store, "me/db:1", Archive().bytes(), volumes={"/data": {}, "/logs/": {}}, entrypoint=("db",))
    async with world.node():
        container = make_container(image="me/db:1", volumeMounts=[{"name": "v", "mountPath": "/logs"}])
        await world.api.apply_pod(make_pod(container, volumes=[{"name": "v", "emptyDir": {}}]))
        await world.until(lambda: world.runtime.specs, "the container starts")
        (spec,) = world.runtime.specs.values()
        assert spec.volumes == ("/data",)


async def test_another_image_restarts_its_container_also_after_the_agent(tmp_path):
    world = World(tmp_path / "state")

    def runs(image: str, restarts: int) -> bool:
        (status,) = world.api.status("web").get("containerStatuses") or [{}]
        return (status.get("image"), status.get("restartCount")) == (image, restarts) and status["ready"]

    def pod_of(image: str) -> dict:
        return make_pod(make_container(image=image), restartPolicy="Never")

    async with world.node():
        await world.api.apply_pod(pod_of("img:1"))
        await world.until(lambda: runs("img:1", 0), "the first image runs")
        await world.api.apply_pod(pod_of("img:2"))
        await world.until(lambda: runs("img:2", 1), "the second image runs")
        await world.until(lambda: "Killing" in world.api.reasons(), "the event")
    await world.api.apply_pod(pod_of("img:3"))
    async with world.node():
        await world.until(lambda: runs("img:3", 2), "the third image runs")
    assert [attempt for _, _, attempt in world.runtime.specs] == [0, 1, 2]
