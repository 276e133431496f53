"""What a pipeline becomes for Kubeflow Pipelines, made and read back with that project's own library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from google.protobuf import json_format
from kfp import components
from kfp.pipeline_spec.pipeline_spec_pb2 import ExecutorOutput
from typer.testing import CliRunner

from tests.unit.notebook_builder import compiled
from tests.unit.test_pipelines_baselines import example
from tests.unit.test_pipelines_emit import EXAMPLES
from trainshed.cli.main import app
from trainshed.pipelines.emit import kfp
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import program
from trainshed.pipelines.runner.inside import Session
from trainshed.pipelines.runner.program import Circumstances, Job, MetricsArtifact, Program

NOTEBOOKS = Path(__file__).parents[2] / "examples/notebooks"


@pytest.mark.parametrize("name", EXAMPLES)
def test_kfps_own_loader_takes_the_output(name: str) -> None:
    made = example(name).checked()
    text = kfp.emit(made, Options())
    assert text == kfp.emit(example(name).checked(), Options())
    loaded = components.load_component_from_text(text)
    dag = loaded.pipeline_spec.root.dag
    assert sorted(dag.tasks) == sorted(step.name.replace("_", "-") for step in made.steps)
    for step in made.steps:
        task = dag.tasks[step.name.replace("_", "-")]
        awaited = {*step.previous, *(i.step for i in step.inputs)}
        assert set(task.dependent_tasks) == {name.replace("_", "-") for name in awaited}
        sources = {
            key: (value.task_output_artifact.producer_task, value.task_output_artifact.output_artifact_key)
            for key, value in task.inputs.artifacts.items()
        }
        assert sources == {f"in_{i.name}": (i.step.replace("_", "-"), f"out_{i.output}") for i in step.inputs}


def test_metrics_are_shown_by_an_artifact(tmp_path: Path) -> None:
    """The runner is called as the component says, and KFP's own reader takes what it writes."""
    made = example("parameters-and-metrics.ipynb").checked()
    content = yaml.safe_load(kfp.emit(made, Options()))
    component = content["components"]["comp-sum-matrix"]
    schema = component["outputDefinitions"]["artifacts"]["trainshed_metrics"]["artifactType"]["schemaTitle"]
    assert schema == "system.Metrics"
    args = content["deploymentSpec"]["executors"][component["executorLabel"]]["container"]["args"]
    values = {
        "--metrics-artifact": "{{$.outputs.artifacts['trainshed_metrics'].path}}",
        "--metrics-uri": "{{$.outputs.artifacts['trainshed_metrics'].uri}}",
        "--metrics-name": "trainshed_metrics",
        "--executor-output": "{{$.outputs.output_file}}",
    }
    assert {name: args[args.index(name) + 1] for name in values} == values
    step = compiled(
        ("step:a", "loss = 0.5\nsteps = 3"), ("pipeline-metrics", "print(loss)\nprint(steps)")
    ).checked()
    artifact = MetricsArtifact("m", "minio://b/m", str(tmp_path / "a/m"))
    program_ = msgspec.convert(program(step.steps[0], ()), Program)
    where = Circumstances(
        str(tmp_path / "data"),
        "r",
        metrics_artifact=artifact,
        artifacts={"out_x": "minio://b/x"},
        executor_output=str(tmp_path / "o/output.json"),
    )
    Session(Job(program_, where), {"loss": 0.5, "steps": 3}).finish()
    written = json_format.Parse((tmp_path / "o/output.json").read_text(), ExecutorOutput())
    (shown,) = written.artifacts["m"].artifacts
    assert (shown.uri, dict(shown.metadata)) == ("minio://b/m", {"loss": 0.5, "steps": 3.0})
    assert [one.uri for one in written.artifacts["out_x"].artifacts] == ["minio://b/x"]
    assert json.loads((tmp_path / "a/m").read_text()) == {"loss": 0.5, "steps": 3}


LOCALLY = """
import sys
from kfp import components, local
from kfp.local.subprocess_task_handler import SubprocessTaskHandler

# Without Docker the steps are processes here, as components of Python alone may be.
SubprocessTaskHandler.validate_not_container_component = lambda self, command: None
local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[2], raise_on_error=True)
print("ended", components.load_component_from_file(sys.argv[1])(d1=3).state)
"""


def test_kfps_local_runner_runs_the_output(tmp_path: Path) -> None:
    """Its order, placeholders, parameters and artifacts from step to step."""
    file = tmp_path / "out.yaml"
    text = kfp.emit(example("parameters-and-metrics.ipynb").checked(), Options())
    # A container has its `/tmp` for itself.
    file.write_text(text.replace("/tmp/trainshed-", f"{tmp_path}/"))
    done = subprocess.run(
        [sys.executable, "-c", LOCALLY, file, "made"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ended TaskState.FINAL" in done.stdout
    (loaded,) = tmp_path.glob("made/*/sum-matrix/executor_output.json")
    metrics = json.loads(loaded.read_text())["artifacts"]["trainshed_metrics"]["artifacts"][0]["metadata"]
    assert isinstance(metrics["sum-result"], float)
    (matrix,) = tmp_path.glob("made/*/create-matrix/out_rnd_matrix/0/rnd_matrix.npy")
    assert matrix.stat().st_size == 128 + 8 * 3 * 6


@pytest.mark.parametrize("value", ['it\'s "quoted"', "line\nbreak", "back\\slash", "{{x}}", "ü"])
def test_texts_of_parameters_arrive_unchanged(value: str) -> None:
    made = compiled(("pipeline-parameters", f"x = {value!r}"), ("step:a", "print(x)")).checked()
    content = yaml.safe_load(kfp.emit(made, Options()))
    assert content["root"]["inputDefinitions"]["parameters"]["x"]["defaultValue"] == value


def test_what_is_left_out_is_said() -> None:
    found = kfp.limits(compiled(("step:a label:l:v limit:hugepages-2Mi:1", "x = 1")).checked())
    assert [d.message for d in found] == [
        "Kubeflow Pipelines: labels of step a left out",
        "Kubeflow Pipelines: the limit hugepages-2Mi of step a left out",
    ]


def test_compile_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    arguments = [
        "notebook",
        "compile",
        str(NOTEBOOKS / "candies.ipynb"),
        "--to",
        "kfp",
        "--output",
        str(file),
    ]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert yaml.safe_load(file.read_text())["pipelineInfo"]["name"] == "candies-sharing"
