"""`check` without a cluster: refusals with what may be meant, findings, JSON, and that nothing ends in a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import manifest_fuzz
from trainshed.api.registry import KINDS
from trainshed.cli.main import app
from trainshed.cluster.paths import StatePaths
from trainshed.sdk.fieldnames import nearest, unknown_fields
from trainshed.sdk.offline import schema_of

GOLDEN = Path(__file__).parents[1] / "golden"
JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: pytorch, image: "busybox", command: [echo, hi]}]
"""


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `trainshed check` on a text, in a state directory in which nothing was ever started."""
    home = tmp_path / "home"
    monkeypatch.setenv("TRAINSHED_HOME", str(home))

    def check(text: str, *arguments: str) -> Any:
        file = tmp_path / "job.yaml"
        file.write_text(text)
        done = CliRunner().invoke(app, ["check", str(file), *arguments])
        assert not home.exists(), "nothing is started or written"
        return done

    return check


GANG = JOB.replace("spec:", "spec:\n  runPolicy: {schedulingPolicy: {scheduleTimeoutSeconds: 9}}", 1)


@pytest.mark.parametrize(
    ("kept", "foreign", "said"),
    [
        (None, True, "PodGroups of Volcano have none"),
        ("volcano", True, "PodGroups of Volcano have none"),
        ("mine", False, ""),
        ("None", True, "no gang scheduler is configured"),
        ("", True, "PodGroups of Volcano have none"),
    ],
)
def test_a_stopped_cluster_is_known_by_the_gang_scheduler_that_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str | None, foreign: bool, said: str
) -> None:
    """`up` keeps the name, and the operator starts with it the next time."""
    monkeypatch.setenv("TRAINSHED_HOME", str(tmp_path / "home"))
    paths = StatePaths(tmp_path / "home").prepare()
    if kept is not None:
        paths.gang_scheduler.write_text(kept)
    file = tmp_path / "job.yaml"
    file.write_text(
        GANG.replace("spec:\n          cont", "spec:\n          schedulerName: mine\n          cont")
    )
    done = CliRunner().invoke(app, ["check", str(file)])
    assert "no cluster runs" in done.stderr
    assert ("there is no scheduler mine" in done.stdout) == foreign
    assert done.exit_code == (1 if foreign else 0)
    warnings = [
        line for line in done.stdout.splitlines() if line.startswith("! ") and "schedulingPolicy" in line
    ]
    assert len(warnings) == bool(said) and all(said in line for line in warnings)


def test_a_refused_job_is_named_once(checked: Any) -> None:
    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: half}\n"
    done = checked(head + "spec: {pytorchReplicaSpecs: {Worker: }}", "--offline")
    assert done.exit_code == 1
    assert done.stderr.startswith("✗ PyTorchJob half: spec.pytorchReplicaSpecs[Worker]: Required value\n")


def test_a_job_that_is_in_order(checked: Any) -> None:
    done = checked(JOB, "--offline")
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "✓ PyTorchJob train: valid"
    assert second == (
        "· spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].image: busybox is not pulled: the container"
        " has this machine's programs and files; if it needs others: trainshed image add busybox --layer"
        " DIRECTORY:PATH TS202"
    )


def test_without_a_cluster_none_is_started(checked: Any) -> None:
    done = checked(JOB)
    assert done.exit_code == 0 and "no cluster runs: checked without one" in done.stderr


def test_what_cannot_start_is_exit_code_1(checked: Any) -> None:
    done = checked(
        JOB.replace("command: [echo, hi]", "resources: {limits: {nvidia.com/gpu: 8}}"), "--offline"
    )
    assert done.exit_code == 1
    head, *lines = done.stdout.splitlines()
    assert head == "✗ PyTorchJob train: valid, but it cannot start as things are"
    assert [line[0] + line[-5:] for line in lines] == ["✗TS201", "✗TS302"]


def test_several_causes_are_a_list_with_what_may_be_meant(checked: Any) -> None:
    text = JOB.replace("replicas: 2", "replica: 2").replace("image: ", "imge: ")
    done = checked(text, "--offline")
    assert done.exit_code == 1 and done.stdout == ""
    assert done.stderr.splitlines() == [
        "✗ PyTorchJob train: refused",
        "  - spec.pytorchReplicaSpecs.Worker.replica: unknown field; did you mean replicas?",
        "  - spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].imge: unknown field; did you mean image?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("PyTorchJob", "PytorchJob", "did you mean PyTorchJob (kubeflow.org/v1)?"),
        ("kubeflow.org/v1", "kubeflow.org/v1beta2", "did you mean apiVersion kubeflow.org/v1?"),
        (
            "kubeflow.org/v1\nkind: PyTorchJob",
            "trainer.kubeflow.org/v1alpha1\nkind: TrainJob",
            "this release runs the kinds",
        ),
        (
            "kubeflow.org/v1\nkind: PyTorchJob",
            "kubeflow.tmax.io/v1\nkind: Notebook",
            "trainshed notebook run",
        ),
        ("kind: PyTorchJob", "kind: Profile", "kubectl create namespace"),
        ("name: pytorch,", "name: main,", "must have at least one container with name pytorch"),
        ("Worker:", "Wrker:", "Wrker"),
    ],
)
def test_what_is_said_of_a_refusal(checked: Any, old: str, new: str, said: str) -> None:
    done = checked(JOB.replace(old, new), "--offline")
    assert done.exit_code == 1 and said in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_json(checked: Any) -> None:
    text = JOB + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '-'}\n"
    done = checked(text, "--offline", "-o", "json")
    job, configmap = json.loads(done.stdout)
    assert (job["kind"], job["name"], job["accepted"], job["canStart"]) == ("PyTorchJob", "train", True, True)
    (finding,) = job["findings"]
    assert set(finding) == {"code", "severity", "path", "message", "fix"} and finding["code"] == "TS202"
    assert not configmap["accepted"] and "metadata.name" in configmap["refusal"]


def test_warnings_of_the_rules(checked: Any) -> None:
    text = JOB.replace("spec:\n  py", "spec:\n  runPolicy: {schedulingPolicy: {minAvailable: 99}}\n  py", 1)
    assert "! PyTorchJob train: " in checked(text, "--offline").stdout


def test_images_beside_the_manifest_are_known(checked: Any, tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("images: [{name: busybox, entrypoint: [sh]}]\n")
    done = checked(JOB.replace("command: [echo, hi]", "args: [-c, 'true']"), "--offline")
    assert (done.exit_code, done.stdout) == (0, "✓ PyTorchJob train: valid\n")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("spec.pytorchReplicaSpec", "pytorchReplicaSpecs"),
        ("spec.pytorchReplicaSpecs.Worker.Replicas", "replicas"),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].comand", "command"),
        ('spec.pytorchReplicaSpecs.Worker.template.spec.containers[name="main"].comand', "command"),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.limit", "limits"),
        ("spec.activeDeadlineSeconds", "runPolicy.activeDeadlineSeconds"),
        ("spec.zzz", ""),
        ("nowhere.at.all", ""),
        ("", ""),
    ],
)
def test_the_nearest_field(path: str, meant: str) -> None:
    schema = schema_of({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"})
    assert nearest(path, schema) == meant


def test_fields_of_kinds_that_nobody_knows_have_no_neighbours() -> None:
    said = 'x: strict decoding error: unknown field "spec.a", unknown field "spec.b"'
    assert unknown_fields(said, None) == ["spec.a: unknown field", "spec.b: unknown field"]


def test_fields_that_an_apply_does_not_know() -> None:
    head = "failed to create typed patch object (ns/bad; kubeflow.org/v1, Kind=PyTorchJob): "
    assert unknown_fields(f"{head}.spec.a: field not declared in schema", None) == ["spec.a: unknown field"]
    both = f"{head}errors:\n  .spec.a: field not declared in schema\n  .spec.b[0].c: field not declared in schema"
    assert unknown_fields(both, None) == ["spec.a: unknown field", "spec.b[0].c: unknown field"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_golden_job_of_each_kind_is_taken(checked: Any, kind: str) -> None:
    for obj in manifest_fuzz.seeds():
        if obj["kind"] == kind:
            (verdict,) = json.loads(checked(json.dumps(obj), "--offline", "-o", "json").stdout)
            assert verdict["accepted"], verdict
            return
    pytest.fail(f"no golden {kind}")


def test_no_manifest_ends_in_a_traceback() -> None:
    ends, broken = manifest_fuzz.try_all(300, seed=7, look=manifest_fuzz.check)
    assert not broken, f"{len(broken)} of 300:\n{broken[0]}"
    assert ends["refused"] > 100 and ends["foreseen"] + ends["taken"] > 10, ends
