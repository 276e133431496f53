"""What pods run in: the store, registered directories, the machine; statuses and events as a kubelet has them."""

from __future__ import annotations

import pytest

from tests.cluster.node_world import World
from tests.fakes.images import Archive, put
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.images.directories import Image, ImageProblem, ImageRegistry
from trainshed.cluster.images.store import garbage
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.node.pod.images import ImageRefused, Images, RunImage, check_non_root
from trainshed.cluster.node.pod.nodecontext import MachineOptions


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
    assert garbage.noted(tmp_path / "pod") == [
        store.layers.path(d).name for d in stored.config.rootfs.diff_ids
    ]


async def test_never_pull_needs_an_image(store, registry, tmp_path):
    images = Images(registry, store, "machine", Clock())
    container = make_container(image="me/app:1", imagePullPolicy="Never")
    with pytest.raises(ImageProblem) as caught:
        await images.obtain(container, tmp_path / "pod")
    assert caught.value.reason == "ErrImageNeverPull"
    assert caught.value.message == 'Container image "me/app:1" is not present with pull policy of Never'
    put(store, "me/app:1", Archive().bytes())
    assert (await images.obtain(container, tmp_path / "pod")).stored


async def test_strict_backs_off_as_a_kubelet(store, registry, tmp_path):
    clock = Clock()
    images = Images(registry, store, "strict", clock)
    registry.add("me/app:1", Image(entrypoint=("mine",)))
    container = make_container(image="me/app:1")

    async def refused():
        with pytest.raises(ImageRefused) as caught:
            await images.obtain(container, tmp_path / "pod")
        return caught.value

    for seconds in (10, 20, 40, 80, 160, 300, 300):
        first = await refused()
        assert first.reason == "ErrImagePull" and first.retry_at == clock.now + 1
        assert [e.reason for e in first.events] == ["Pulling", "Failed", "Failed"]
        second = await refused()
        assert second.reason == "ImagePullBackOff" and second.retry_at == clock.now + seconds
        assert second.message.startswith('Back-off pulling image "me/app:1": ErrImagePull: ')
        assert [(e.type, e.reason) for e in second.events] == [("Normal", "BackOff"), ("Warning", "Failed")]
        clock.now += seconds
    put(store, "me/app:1", Archive().bytes())
    assert (await images.obtain(container, tmp_path / "pod")).stored
    assert (await images.obtain(make_container(image="kubeflow/kubectl-delivery"), tmp_path / "pod")).known


async def test_a_damaged_image_is_said(store, registry, tmp_path):
    stored = put(store, "me/app:1", Archive().bytes())
    store.blobs.path(stored.manifest.layers[0].digest).unlink()
    with pytest.raises(ImageProblem, match="the store has no content of sha256") as caught:
        await Images(registry, store, "machine", Clock()).obtain(
            make_container(image="me/app:1"), tmp_path / "pod"
        )
    assert caught.value.reason == "CreateContainerError"


async def test_a_pod_waits_for_an_image_that_strict_refuses(tmp_path):
    world = World(tmp_path, machine=MachineOptions(images="strict"))
    async with world.node():
        await world.api.apply_pod(make_pod(make_container(image="me/none:1")))
        await world.until(lambda: _waiting(world).get("reason") == "ImagePullBackOff", "the pod backs off")
        assert "not in the store" in _waiting(world)["message"]
        await world.until(lambda: {"Pulling", "Failed", "BackOff"} <= set(world.api.reasons()), "the events")
        assert not world.runtime.specs


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
