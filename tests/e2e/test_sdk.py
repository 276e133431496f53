"""The real kubeflow-training SDK, 1.9 from the environment and 1.8.1 beside it, unmodified: upstream's own scenarios.

`sdk_scenarios.py` is the user's program. Gangs are Volcano's; those of scheduler-plugins are in `test_gangs.py`.

Upstream's cases, and where they are here:
    test_e2e_<kind>, plain          test_the_plain_job_of_every_kind_succeeds
    test_e2e_<kind>, gang           test_a_gang_of_every_kind_waits_and_runs_when_it_is_made_smaller
    create from function            test_a_function_becomes_pods_that_can_be_asked_for
    create from image               test_images_packages_and_elastic_workers
    managed_by (1.9)                test_managers
    e2e-fine-tune-llm (1.9)         test_fine_tuning_with_models_of_a_hub_says_what_it_lacks
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster

OLD = "1.8.1"
INSTALL_SECONDS = 180
RUN_SECONDS = 240
SCENARIOS = Path(__file__).with_name("sdk_scenarios.py")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    """A package index with one package. Not below /tmp: pods have a /tmp of their own, as containers do."""
    root = Path(tempfile.mkdtemp(prefix=".trainshed-index-", dir=Path.home()))
    page = root / "greeting/index.html"
    page.parent.mkdir()
    wheel = page.with_name("greeting-1.0-py3-none-any.whl")
    facts = "greeting-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("greeting.py", 'TEXT = "installed when the pod started"\n')
        archive.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        archive.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{facts}/RECORD", "")
    page.write_text(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>')
    yield root.as_uri()
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def old_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SDK 1.8.1 in a directory of its own: two versions do not fit into one environment."""
    folder = tmp_path_factory.mktemp("sdk")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, f"kubeflow-training=={OLD}"], check=True, timeout=INSTALL_SECONDS)
    return folder


@pytest.fixture(scope="module", params=["1.9", OLD])
def seen(request: pytest.FixtureRequest, session_cluster: Cluster, index: str) -> Any:
    """What the user's program saw, with one version of the SDK."""
    cluster, namespace = session_cluster, f"sdk-{request.param.replace('.', '-')}"
    cluster.up()
    cluster.until_operator()
    cluster.trainshed(
        "image", "add", "docker.io/hello-world", "--entrypoint", "echo 'Hello from Docker!'"
    ).ok()
    cluster.kubectl("create", "namespace", namespace).ok()
    environment = cluster.environment
    if request.param == OLD:
        environment["PYTHONPATH"] = str(request.getfixturevalue("old_sdk"))
    done = subprocess.run(
        [sys.executable, str(SCENARIOS), namespace, index],
        capture_output=True,
        text=True,
        env=environment,
        timeout=RUN_SECONDS,
    )
    if done.returncode != 0:
        cluster.namespace = namespace
        pytest.fail(f"{done.stdout}\n{done.stderr}\n{cluster.diagnostics()}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert ("site-packages" in found["module"]) == (request.param == "1.9"), found["module"]
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
    return {"version": request.param, "printed": done.stdout, **found}


PODS = {
    "PyTorchJob": ["master-0", "worker-0"],
    "TFJob": ["worker-0"],
    "MPIJob": ["launcher", "worker-0"],
    "XGBoostJob": ["master-0", "worker-0"],
    "PaddleJob": ["worker-0", "worker-1"],
    "JAXJob": ["worker-0", "worker-1"],
    "MXJob": ["scheduler-0", "server-0", "worker-0"],
}


def test_the_plain_job_of_every_kind_succeeds(seen: Any) -> None:
    other = "MXJob" if seen["version"] == "1.9" else "JAXJob"
    assert seen["plain"].keys() == PODS.keys() - {other}
    for kind, found in seen["plain"].items():
        assert found["conditions"] == ["Created", "Succeeded"], kind
        assert found["is"] == ["created", "succeeded"], kind
        assert found["listed"], kind
        names = [f"plain-{kind.lower()}-{part}" for part in PODS[kind]]
        assert found["pods"] == names, kind
        # The launcher printed the name of the worker in which it ran a program.
        said = [names[1]] if kind == "MPIJob" else names if kind in ("PaddleJob", "JAXJob") else names[:1]
        assert [log.split()[-1] for _, log in sorted(found["logs"].items())] == said, kind


def test_a_function_becomes_pods_that_can_be_asked_for(seen: Any) -> None:
    found = seen["functions"]
    assert found["pods"] == ["function-master-0", "function-worker-0", "function-worker-1"]
    assert found["master"] == ["function-master-0"]
    assert found["workers"] == ["function-worker-0", "function-worker-1"]
    assert found["worker 1"] == ["function-worker-1"]
    assert found["nobody"] == []
    assert found["unknown type"] == "ValueError"


def test_logs_are_read_followed_and_told_with_events(seen: Any) -> None:
    found = seen["functions"]
    assert found["worker log"]["function-worker-1"].split() == ["rank", "2", "of", "3", "steps", "3"]
    assert "[Pod function-master-0]: rank 0 of 3 steps 3" in seen["printed"]
    assert "rank 0 of 3 steps 3" in found["followed"]
    assert found["events"] == ["pytorchjob/function"]


def test_images_packages_and_elastic_workers(seen: Any) -> None:
    found = seen["functions"]
    assert found["image"] == {"image-master-0": "Hello from Docker!\n"}
    assert found["packages"]["packages-master-0"].endswith("installed when the pod started\n")
    assert found["elastic"] == ["1:2 c10d elastic-worker-0:23456 3\n"] * 2


def test_tensorflow_by_function_and_image(seen: Any) -> None:
    assert seen["functions"]["tf"] == {
        "tf-function-chief-0": "{'type': 'chief', 'index': 0}\n",
        "tf-function-worker-0": "{'type': 'worker', 'index': 0}\n",
        "tf-image-worker-0": "Hello from Docker!\n",
    }


def test_suspended_resumed_failed_and_deleted(seen: Any) -> None:
    found = seen["lives"]
    assert found["suspended"] == ["Created", "Suspended"]
    assert found["pods of a suspended job"] == []
    assert found["resumed"] == ["Created", "Succeeded"]
    assert found["waiting for a failed job"] == "RuntimeError"
    assert found["failed"] == {"Created": "PyTorchJobCreated", "Failed": "PyTorchJobFailed"}
    assert found["get deleted"] == "RuntimeError 404"
    assert found["delete deleted"] == "RuntimeError 404"


def test_what_is_wrong_is_refused(seen: Any) -> None:
    found = seen["lives"]
    assert found["not a label"] == "RuntimeError 422"
    assert found["twice"] == "RuntimeError 409"
    assert set(found["function of another kind"].values()) == {"ValueError"}


def test_fine_tuning_with_models_of_a_hub_says_what_it_lacks(seen: Any) -> None:
    assert seen["train"]["without libraries"] == "ImportError"
    # With them the SDK makes a claim and a job of images that fetch from the hub: nobody has them here.
    said = seen["train"]["with"]
    assert said.startswith("CreateContainerError: no command specified: image "), said
    assert "storage-initializer" in said
    assert "register the image: trainshed image add " in said


def test_a_gang_of_every_kind_waits_and_runs_when_it_is_made_smaller(seen: Any) -> None:
    assert seen["gangs"].keys() == seen["plain"].keys()
    for kind, found in seen["gangs"].items():
        assert found["held"] == [True, False], f"{kind}: created, and not running"
        names = [f"gang-{kind.lower()}-{part}" for part in PODS[kind]]
        assert found["pods"] == dict.fromkeys(names, "volcano"), kind
        assert {"scheduling.k8s.io/group-name", "volcano.sh/task-spec"} <= set(found["marks"]), kind


def test_managers(seen: Any) -> None:
    if seen["version"] == OLD:
        assert seen["managers"] is None
        return
    assert seen["managers"] == {
        "made": {
            "kubeflow.org/training-operator": "nothing",
            "kueue.x-k8s.io/multikueue": "nothing",
            "kueue.x-k8s.io/other": "RuntimeError 403",
        },
        "jobs": ["managed-elsewhere", "managed-here"],
        "left alone": [],
    }
