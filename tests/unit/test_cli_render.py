"""`trainshed render`: objects on stdout, everything else on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.unit.jobs_builders import make_job
from trainshed.cli.main import app


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["render", *arguments], input=given)


@pytest.fixture
def two_jobs(tmp_path: Path) -> str:
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([make_job(master=1, name="a"), make_job(workers=1, name="b")]))
    return str(file)


NAMES = ["a-master-0", "a-master-0", "b-worker-0", "b-worker-0"]


def test_yaml_of_several_jobs(two_jobs: str) -> None:
    result = run(two_jobs)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [obj["metadata"]["name"] for obj in yaml.safe_load_all(result.stdout)] == NAMES
    assert "&id" not in result.stdout, "no aliases"


def test_json_is_one_list(two_jobs: str) -> None:
    listed = json.loads(run("-o", "json", two_jobs).stdout)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert [obj["metadata"]["name"] for obj in listed["items"]] == NAMES


def test_standard_input_and_namespace() -> None:
    job = make_job(master=1)
    del job["metadata"]["namespace"]
    result = run("-", "-n", "team", given=yaml.safe_dump(job))
    assert {obj["metadata"]["namespace"] for obj in yaml.safe_load_all(result.stdout)} == {"team"}


def test_a_job_whose_name_the_server_makes() -> None:
    job = make_job(master=1)
    job["metadata"] = {"generateName": "train-", "namespace": "team"}
    result = run("-", given=yaml.safe_dump(job))
    assert result.exit_code == 0
    found = [obj["metadata"]["name"] for obj in yaml.safe_load_all(result.stdout)]
    assert found == ["train-xxxxx-master-0"] * 2
    assert result.stderr == (
        "! PyTorchJob train-xxxxx: metadata.generateName: xxxxx stands for what the server will choose\n"
    )
    job["metadata"] = {"generateName": 3}
    assert (
        "metadata.generateName: Invalid value: 3: must be a string"
        in run("-", given=yaml.safe_dump(job)).stderr
    )


def test_a_wrong_job_is_one_line_and_no_output() -> None:
    result = run("-", given=yaml.safe_dump(make_job(master=2)))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        'error: admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the request:'
        " spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1\n"
    )


def test_a_suspended_job_says_so_on_stderr() -> None:
    result = run("-", given=yaml.safe_dump(make_job(master=1, suspend=True)))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "PyTorchJob train: nothing is created, for it is suspended\n"


def test_a_warning_goes_to_stderr() -> None:
    job = make_job(workers=1, spec={"elasticPolicy": {"nProcPerNode": 2}})
    result = run("-", given=yaml.safe_dump(job))
    assert "nProcPerNode is deprecated" in result.stderr
    assert "deprecated" not in result.stdout
