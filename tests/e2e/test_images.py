"""The page about images, executed as a reader would: a pod runs in an image that came as an archive."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path
from tests.e2e.tutorial import Tutorial, environment_for
from tests.fakes.images import Archive, put, tiny_root
from trainshed.cluster.images.store import archive
from trainshed.cluster.images.store.store import ImageStore
from trainshed.testing import until

PAGE = Path(__file__).parents[2] / "docs/how-to/images.md"


@pytest.fixture
def reader() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix=".trainshed-reader-", dir=Path.home()))
    yield home
    shutil.rmtree(home, ignore_errors=True)


def test_a_reader_runs_a_pod_in_an_image(session_cluster: Cluster, reader: Path, tmp_path: Path) -> None:
    cluster = session_cluster
    cluster.up()
    store = ImageStore(tmp_path / "elsewhere")
    greeting = Archive().file("etc/greeting", b"hello from the image\n").bytes()
    image = put(store, "me/hello:1", tiny_root(), greeting, entrypoint=("cat", "/etc/greeting"))
    work = reader / "work"
    work.mkdir()
    with (work / "hello.tar").open("wb") as target:
        archive.save(store, [(image, store.names_of(image.descriptor))], target)
    environment = environment_for(
        Path(kubectl_path(-1)), reader / "bin", reader, cluster.kubeconfig, Path(sys.executable).parent
    )
    environment["TRAINSHED_HOME"] = str(cluster.home)
    try:
        Tutorial(PAGE, work, environment).run()
    except AssertionError:
        print(cluster.diagnostics())
        raise


def test_steps_of_tekton_run_in_an_image_without_python(cluster: Cluster, tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "elsewhere")
    image = put(store, "me/bare:1", tiny_root(), entrypoint=("cat", "/etc/group"))
    with (tmp_path / "bare.tar").open("wb") as target:
        archive.save(store, [(image, store.names_of(image.descriptor))], target)
    cluster.trainshed("image", "load", "-i", str(tmp_path / "bare.tar")).ok()
    try:
        step = {"image": "me/$(params.image):1"}
        script = "ls /usr/bin/python3 || echo bare | cat > $(results.said.path)"
        task = {
            "params": [{"name": "image", "default": "bare"}],
            "results": [{"name": "said"}],
            "steps": [{**step, "name": "say", "script": script}, {**step, "name": "own"}],
        }
        run = {
            "apiVersion": "tekton.dev/v1",
            "kind": "TaskRun",
            "metadata": {"name": "bare"},
            "spec": {"taskSpec": task},
        }
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(run)).ok()

        def status() -> Any:
            path = f"/apis/tekton.dev/v1/namespaces/{cluster.namespace}/taskruns/bare"
            return cluster.api.json("GET", path).get("status") or {}

        def state() -> str:
            return str((status().get("conditions") or [{}])[0].get("status"))

        until(lambda: state() in ("True", "False"), "the TaskRun is over", 120)
        assert state() == "True", (status(), cluster.diagnostics())
        assert status()["results"] == [{"name": "said", "type": "string", "value": "bare\n"}]
        assert "app:x:1235:" in cluster.kubectl("logs", "bare-pod", "-c", "step-own").ok()
    finally:
        cluster.trainshed("image", "rm", "me/bare:1").ok()
