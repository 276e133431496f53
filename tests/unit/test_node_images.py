"""Images on the host's root: names, the registry, command lines."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import make_container
from trainshed.cluster.images.directories import (
    HOST_ROOT,
    Image,
    ImageProblem,
    ImageRegistry,
    command_line,
    image_id,
    normalise,
)
from trainshed.cluster.sandbox.model import Layer


@pytest.mark.parametrize(
    "name, normal",
    [
        ("busybox", "busybox:latest"),
        ("docker.io/library/busybox:1.36", "busybox:1.36"),
        ("docker.io/me/app", "me/app:latest"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("gcr.io/x/y@sha256:" + "a" * 64, "gcr.io/x/y@sha256:" + "a" * 64),
        ("joleedocker/traindb-training-mnist:1.0", "joleedocker/traindb-training-mnist:1.0"),
    ],
)
def test_names(name, normal):
    assert normalise(name) == normal


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "a::b", "a/", "<GIT_REPO>", "img:", "a\n"])
def test_invalid_names(name):
    with pytest.raises(ImageProblem) as caught:
        normalise(name)
    assert caught.value.reason == "InvalidImageName" and "invalid reference format" in caught.value.message


def test_the_registry_keeps_what_was_added(tmp_path):
    registry, reader = ImageRegistry(tmp_path / "images.json"), ImageRegistry(tmp_path / "images.json")
    assert reader.list() == {} and reader.resolve("app") is None
    image = Image((Layer(str(tmp_path), "/opt/app"),), {"A": "1"}, ("python3", "main.py"))
    assert registry.add("docker.io/library/app", image) == "app:latest"
    assert reader.resolve("app:latest") == image
    assert image_id("app", reader) != image_id("other", reader)
    assert registry.remove("app") and not registry.remove("app")
    assert reader.resolve("app") is None


def test_a_layer_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nope"):
        ImageRegistry(tmp_path / "i.json").add("app", Image((Layer("/nope", "/x"),)))


@pytest.mark.parametrize(
    "command, args, image, expected",
    [
        (["c"], ["a"], Image(entrypoint=("e",), cmd=("d",)), ("c", "a")),
        (["c"], [], Image(entrypoint=("e",), cmd=("d",)), ("c",)),
        ([], [], Image(entrypoint=("e",), cmd=("d",)), ("e", "d")),
        ([], ["a"], Image(entrypoint=("e",), cmd=("d",)), ("e", "a")),
        ([], [], Image(cmd=("d",)), ("d",)),
        ([], ["sleep", "$(T)"], HOST_ROOT, ("sleep", "9")),
        (["sh", "-c", "echo $$(T) $(T)"], [], HOST_ROOT, ("sh", "-c", "echo $(T) 9")),
    ],
)
def test_command_lines(command, args, image, expected):
    container = make_container(command=command, args=args)
    assert command_line(container, image, {"T": "9"}, is_program=lambda n: n == "sleep") == expected


@pytest.mark.parametrize("args", [[], ["--epochs=1"], ["train"]])
def test_no_command_says_the_fix(args):
    with pytest.raises(ImageProblem) as caught:
        command_line(make_container(command=[], args=args), HOST_ROOT, {}, is_program=lambda n: False)
    assert caught.value.reason == "CreateContainerError"
    assert "command" in caught.value.message and "trainshed image add" in caught.value.message


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("kubeflow/kubectl-delivery", True),
        ("docker.io/mpioperator/kubectl-delivery:v0.2", True),
        ("kubeflow/kubectl-delivery@sha256:" + "a" * 64, True),
        ("mirror:5000/kubectl-delivery:1", False),
    ],
)
def test_images_whose_work_is_done_locally_are_there_in_every_version(tmp_path, name, known):
    registry = ImageRegistry(tmp_path / "images.json")
    image = registry.resolve(name)
    assert (image is not None and bool(image.entrypoint)) == known
    registry.add(name, Image(entrypoint=("mine",)))
    image = registry.resolve(name)
    assert image is not None and image.entrypoint == ("mine",)
    assert registry.resolve("kubeflow/other") is None
