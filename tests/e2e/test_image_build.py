"""The Dockerfiles of two walk-throughs: built, pushed to Debian's registry, pulled back and run as jobs."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster
from tests.fakes.debian_registry import debian_registry

SLOW = 180.0
"""For a build, whose commands start interpreters, on a machine that does other things, too."""
EXAMPLE = Path(__file__).parents[2] / "examples/fashion-mnist"

# What CI has no network for, in a base image instead of in the Dockerfiles: the alias leads to it.
OFFLINE = """\
FROM this-machine
COPY wheels /wheels/
COPY --chmod=755 pip /usr/local/bin/
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
"""
BASES = 'bases:\n  "pytorch/pytorch:*": offline/pytorch\n  this-machine: machine\n'

# As it is in the text of the walk-through, but for the four lines about apt: they install Python 3.7 from a PPA of
# Ubuntu's, which neither Debian nor a machine without network has.
TRAINING = """\
FROM pytorch/pytorch:1.0-cuda10.0-cudnn7-runtime

RUN python -m pip install --upgrade pip

RUN pip install tensorboardX==1.6.0
RUN mkdir -p /opt/mnist
RUN mkdir -p /opt/mnist/models

WORKDIR /opt/mnist/src
ADD mnist_training.py /opt/mnist/src/mnist_training.py

RUN  chgrp -R 0 /opt/mnist \\
  && chmod -R g+rwX /opt/mnist

ENTRYPOINT ["python3", "/opt/mnist/src/mnist_training.py"]
"""
SCRIPT = """\
import os
import tensorboardX
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
open("/opt/mnist/models/model", "w").close()
print("world", int(total), "tensorboardX", tensorboardX.__version__, "in", os.getcwd(), flush=True)
dist.barrier()
os._exit(0)
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of Debian's registry, empty."""
    with debian_registry(tmp_path) as address:
        yield address


def _wheel(directory: Path, name: str, version: str) -> None:
    directory.mkdir()
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py2.py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f'__version__ = "{version}"\n')
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2.py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _job(name: str, image: str, replicas: tuple[str, ...], **container: object) -> dict[str, object]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": image, **container}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {each: {"replicas": 1, "template": template} for each in replicas}},
    }


def test_the_walk_throughs_images(cluster: Cluster, registry: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    _wheel(work / "wheels", "tensorboardX", "1.6.0")
    (work / "pip").write_text('#!/bin/sh\nexec python -m pip "$@"\n')
    (work / "images.yaml").write_text(BASES)
    (work / "Dockerfile").write_text(OFFLINE)
    (work / "Dockerfile_training").write_text(TRAINING)
    (work / "mnist_training.py").write_text(SCRIPT)
    names = [f"{registry}/joleedocker/traindb-training-mnist:1.0", f"{registry}/wbl/fashion-mnist:1.0"]
    command = ("image", "build", "--progress=plain")
    cluster.trainshed(*command, "-t", "offline/pytorch", str(work), timeout=SLOW).ok()
    training = (*command, "-f", str(work / "Dockerfile_training"), "-t", "traindb-training-mnist", str(work))
    built = cluster.trainshed(*training, timeout=SLOW)
    built.ok()
    assert re.search(r"^#\d+ \[4/8\] RUN mkdir -p /opt/mnist$", built.err, re.MULTILINE), built.err
    assert "Successfully installed tensorboardX-1.6.0" in built.err
    again = cluster.trainshed(*training, timeout=SLOW)
    assert again.out == built.out and again.err.count("CACHED") == 8
    example = work / "wbl-training-tutorial"
    shutil.copytree(EXAMPLE, example)
    shutil.copy(work / "images.yaml", example)
    cluster.trainshed(*command, "-t", names[1], str(example), timeout=SLOW).ok()
    cluster.trainshed("image", "tag", "traindb-training-mnist", names[0]).ok()
    for name in names:
        pushed = cluster.trainshed("image", "push", name)
        assert pushed.ok() and "added to this machine's root" in pushed.err
    cluster.trainshed("image", "rm", *names, "traindb-training-mnist").ok()
    assert "mnist" not in cluster.trainshed("image", "ls").ok()
    pulled = cluster.trainshed("image", "pull", names[0])
    pulled.ok()
    said = [line.split(":")[0] for line in pulled.err.splitlines() if line.endswith((": done", "there"))]
    assert len(said) == len(set(said)) > 8, "each blob is told once"
    (work / "Dockerfile").write_text(f"FROM {names[1]}\nCOPY images.yaml /opt/mnist/\n")
    assert "pull 127.0.0.1" in cluster.trainshed(*command, "-t", "onpulled", str(work), timeout=SLOW).err
    command_line = ["python3", "-c", "import os, fashion_mnist.model; print('imported in', os.getcwd())"]
    cluster.apply(
        _job("traindb", names[0], ("Master", "Worker")),
        _job("wbl", names[1], ("Master",), command=command_line),
    )
    cluster.until_phase("Succeeded", "traindb-master-0", "traindb-worker-0", "wbl-master-0", seconds=120)
    assert (
        cluster.kubectl("logs", "traindb-worker-0").ok() == "world 2 tensorboardX 1.6.0 in /opt/mnist/src\n"
    )
    assert cluster.kubectl("logs", "wbl-master-0").ok() == "imported in /opt/mnist/src\n"
    image = cluster.pods()["wbl-master-0"]["status"]["containerStatuses"][0]["imageID"]
    assert image.startswith(f"{registry}/wbl/fashion-mnist@sha256:")


def test_a_failing_command_is_shown_with_its_line(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text(BASES)
    (tmp_path / "Dockerfile").write_text(
        "FROM this-machine\n\nRUN echo one && \\\n  echo two && false\nRUN true\n"
    )
    failed = cluster.trainshed("image", "build", "-t", "failing", str(tmp_path))
    message = failed.failed("------")
    shown = message[message.index("------") :]
    assert shown.startswith("------\n > RUN echo one && echo two && false:\none\ntwo\n------\n"), shown
    assert "   3 | >>> RUN echo one && \\\n   4 | >>>   echo two && false\n   5 |     RUN true\n" in shown
    assert shown.rstrip().endswith(
        "Dockerfile:3: RUN echo one && echo two && false: the command returned a non-zero code: 1"
    )
