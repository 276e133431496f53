"""What a pipeline becomes: the objects of Tekton."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
import yaml

from tests.unit.notebook_builder import Cell, compiled
from tests.unit.test_pipelines_baselines import example
from trainshed.pipelines.emit import local, tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.program import takes
from trainshed.pipelines.emit.text import documents
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.notebook.literals import Parameter
from trainshed.pipelines.runner.program import Parameter as RunnerParameter
from trainshed.pipelines.runner.program import Program, parameter_value

EXAMPLES = (
    *("candies.ipynb", "parameters-and-metrics.ipynb", "titanic.ipynb"),
    *(f"distributed-{name}.ipynb" for name in ("tensorflow", "pytorch", "jax", "xgboost")),
)


def pipeline(name: str) -> Pipeline:
    return example(name).checked()


def run(made: Pipeline, **options: Any) -> dict[str, Any]:
    """Return the run's object as it is read back from its YAML."""
    (found,) = yaml.load_all(documents(tekton.emit(made, Options(**options))), yaml.CSafeLoader)
    return dict(found)


def tasks(found: dict[str, Any]) -> dict[str, Any]:
    return {task["name"]: task for task in found["spec"]["pipelineSpec"]["tasks"]}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "options", [Options(), Options("v1beta1", split=True), Options(workers_as_tasks=True)]
)
def test_the_same_notebook_gives_the_same_bytes(name: str, options: Options) -> None:
    one, again = pipeline(name), pipeline(name)
    assert documents(tekton.emit(one, options)) == documents(tekton.emit(again, options))
    assert documents(local.emit(one, options)) == documents(local.emit(again, options))


def test_here_a_run_is_that_of_tekton_with_a_limit_of_steps_and_none_of_time() -> None:
    (here,), (there,) = (e.emit(pipeline("candies.ipynb"), Options(prepare=False)) for e in (local, tekton))
    assert here["metadata"]["annotations"].pop("trainshed.dev/tasks-at-once") == "4"
    assert here["spec"].pop("timeouts") == {"pipeline": "0"}
    assert here == there


def test_here_steps_may_start_before_their_turn_and_wait_for_it() -> None:
    """The task says so to the cluster, an argument to the runner, and a file is filled when the turn comes."""
    (here,) = local.emit(pipeline("candies.ipynb"), Options())
    spec = tasks(here)["kid1"]["taskSpec"]
    assert spec["metadata"]["annotations"]["trainshed.dev/waits-for-ready"] == "true"
    assert spec["steps"][0]["args"][-2:] == ["--ready", "/trainshed/program/ready"]
    (program,) = [v for v in spec["volumes"] if v["name"] == "program"]
    field = {"fieldPath": "metadata.annotations['tekton.dev/ready']"}
    assert {"path": "ready", "fieldRef": field} in program["downwardAPI"]["items"]


@pytest.mark.parametrize("tags", ["limit:nvidia.com/gpu:1", "distribute:JAX numWorkers:2"])
def test_steps_that_keep_something_from_others_or_meet_begin_with_their_pods(tags: str) -> None:
    made = compiled((f"step:a {tags}", "x = 1")).checked()
    for options in (Options(), Options(workers_as_tasks=True)):
        (found,) = local.emit(made, options)
        assert all("waits-for-ready" not in str(task) for task in tasks(found).values())


def test_a_run_of_tekton() -> None:
    found = run(pipeline("candies.ipynb"))
    assert (found["apiVersion"], found["kind"]) == ("tekton.dev/v1", "PipelineRun")
    assert found["metadata"]["generateName"] == "candies-sharing-"
    (workspace,) = found["spec"]["workspaces"]
    assert workspace["volumeClaimTemplate"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    assert found["spec"]["pipelineSpec"]["params"] == [{"name": "CANDIES", "type": "string", "default": "20"}]
    made = tasks(found)
    assert {name: task.get("runAfter") for name, task in made.items()} == {
        "sack": None,
        "kid1": ["sack"],
        "kid2": ["kid1"],
        "kid3": ["kid1", "kid2"],
    }
    (step,) = made["kid3"]["taskSpec"]["steps"]
    assert step["command"] == ["python", "-m", "trainshed.pipelines.runner"]
    assert "--param=CANDIES=$(params.CANDIES)" in step["args"]
    program = msgspec.json.decode(
        made["kid3"]["taskSpec"]["metadata"]["annotations"]["trainshed.dev/program"], type=Program
    )
    assert [(i.name, i.step) for i in program.inputs] == [("kid1", "kid1"), ("kid2", "kid2")]


def declared(task: dict[str, Any]) -> set[str]:
    return {p["name"] for p in task["taskSpec"].get("params", ())}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_variable_of_a_run_is_declared(name: str) -> None:
    """Tekton refuses a run that uses a parameter, result or workspace which nobody declares."""
    found = run(pipeline(name), workers_as_tasks=True)
    spec = found["spec"]["pipelineSpec"]
    known = {p["name"] for p in spec.get("params", ())}
    for task in spec["tasks"]:
        assert declared(task) == {p["name"] for p in task["params"]}
        for parameter in task["params"]:
            value = parameter["value"]
            assert (
                value == "$(context.pipelineRun.name)" or value.removeprefix("$(params.").rstrip(")") in known
            )
        assert {w["name"] for w in task["taskSpec"]["workspaces"]} == {w["name"] for w in task["workspaces"]}
        assert {w["workspace"] for w in task["workspaces"]} <= {w["name"] for w in spec["workspaces"]}
    results = {
        f"$(tasks.{t['name']}.results.{r['name']})"
        for t in spec["tasks"]
        for r in t["taskSpec"].get("results", ())
    }
    assert {r["value"] for r in spec.get("results", ())} == results


def test_metrics_are_results() -> None:
    found = run(pipeline("parameters-and-metrics.ipynb"))
    assert found["spec"]["pipelineSpec"]["results"] == [
        {"name": "d1", "value": "$(tasks.create-matrix.results.d1)"},
        {"name": "d2", "value": "$(tasks.create-matrix.results.d2)"},
        {"name": "sum-result", "value": "$(tasks.sum-matrix.results.sum-result)"},
    ]
    (step,) = tasks(found)["create-matrix"]["taskSpec"]["steps"]
    assert step["computeResources"] == {"limits": {"nvidia.com/gpu": "2"}}


def test_v1beta1_and_split() -> None:
    made = pipeline("parameters-and-metrics.ipynb")
    definition, found = tekton.emit(
        made,
        Options(
            "v1beta1",
            split=True,
            run_name="mine",
            namespace="ns",
            service_account="sa",
            parameters={"d1": "3"},
        ),
    )
    assert (definition["kind"], definition["metadata"]["name"]) == ("Pipeline", "hp-test")
    assert found["apiVersion"] == definition["apiVersion"] == "tekton.dev/v1beta1"
    assert found["metadata"]["name"] == "mine"
    assert found["spec"]["pipelineRef"] == {"name": "hp-test"}
    assert found["spec"]["serviceAccountName"] == "sa"
    assert found["spec"]["params"] == [{"name": "d1", "value": "3"}]
    (step,) = definition["spec"]["tasks"][0]["taskSpec"]["steps"]
    assert "computeResources" not in step
    assert step["resources"] == {"limits": {"nvidia.com/gpu": "2"}}


@pytest.mark.parametrize(
    ("strategy", "kind", "field", "replicas", "container"),
    [
        ("MultiWorkerMirroredStrategy", "TFJob", "tfReplicaSpecs", {"Worker": 3}, "tensorflow"),
        ("DDP", "PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 2}, "pytorch"),
        ("JAX", "JAXJob", "jaxReplicaSpecs", {"Worker": 3}, "jax"),
        ("XGBoost", "XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}, "xgboost"),
    ],
)
def test_a_distributed_step_carries_a_job(
    strategy: str, kind: str, field: str, replicas: dict[str, int], container: str
) -> None:
    cells: list[Cell] = [
        ("pipeline-parameters", "LR = 0.1"),
        ("step:a", "x = 1"),
        (f"step:t prev:a distribute:{strategy} numWorkers:3", "y = x * LR"),
        ("step:e prev:t", "print(y)"),
    ]
    found = run(compiled(*cells).checked())
    assert found["spec"]["workspaces"][0]["volumeClaimTemplate"]["spec"]["accessModes"] == ["ReadWriteMany"]
    task = tasks(found)["t"]
    assert (task["taskSpec"]["apiVersion"], task["taskSpec"]["kind"]) == (
        "trainshed.dev/v1alpha1",
        "DistributedStep",
    )
    job = task["taskSpec"]["spec"]["job"]
    assert job["kind"] == kind
    specs = job["spec"][field]
    assert {role: spec["replicas"] for role, spec in specs.items()} == replicas
    for spec in specs.values():
        (made,) = spec["template"]["spec"]["containers"]
        assert made["name"] == container
        assert {"name": "NUM_WORKERS", "value": "3"} in made["env"]
        assert "--param=LR=$(params.LR)" in made["args"]
    assert tasks(found)["e"]["runAfter"] == ["t"]


def test_a_torchrun_step_is_a_job_that_the_operator_takes() -> None:
    from trainshed.api.v1 import pytorch

    task = tasks(run(pipeline("distributed-pytorch.ipynb")))["train"]
    job = task["taskSpec"]["spec"]["job"]
    decoded = msgspec.convert(
        {**job, "metadata": {"name": "train", "namespace": "default"}}, pytorch.PyTorchJob
    )
    assert decoded.spec.nproc_per_node == "1"


def test_workers_as_tasks() -> None:
    found = tasks(run(pipeline("distributed-tensorflow.ipynb"), workers_as_tasks=True))
    assert list(found) == [
        "variables",
        "dataprocessing",
        "training1",
        "training2",
        "training3",
        "modelevaluation",
    ]
    assert found["modelevaluation"]["runAfter"] == ["training1", "training2", "training3"]
    for index in range(3):
        args = found[f"training{index + 1}"]["taskSpec"]["steps"][0]["args"]
        assert args[args.index("--worker") + 1] == str(index)
        assert args[args.index("--workers") + 1] == "3"


def test_code_that_looks_like_a_variable_of_tekton_stays_as_it_is() -> None:
    source = "print('$(params.x) $(context.pipelineRun.name)')"
    found = run(
        compiled(("pipeline-parameters", "x = '$(params.y)'"), ("step:a", f"{source}\nprint(x)")).checked()
    )
    task = tasks(found)["a"]
    text = task["taskSpec"]["metadata"]["annotations"]["trainshed.dev/program"]
    assert "$" not in text
    assert msgspec.json.decode(text, type=Program).blocks[0].source.startswith(source)
    assert "params" not in found["spec"]["pipelineSpec"]


@pytest.mark.parametrize("value", ['it\'s "quoted"', "line\nbreak", "back\\slash", "{{x}}", "ü"])
def test_texts_of_parameters_arrive_unchanged(value: str) -> None:
    made = compiled(("pipeline-parameters", f"x = {value!r}"), ("step:a", "print(x)")).checked()
    (parameter,) = run(made)["spec"]["pipelineSpec"]["params"]
    assert parameter["default"] == value


def test_volumes_settings_and_environment() -> None:
    made = compiled(
        (
            "step:a image:registry:5000/i:1 env:A:b secret:s:k:TOKEN retries:2 timeout:10m label:l:v annotation:a:b:c"
            " request:cpu:1",
            "x = 1",
        ),
        pipeline_name="p",
        timeout=60,
        abs_working_dir="/raw/work",
        volumes=[
            {"name": "raw", "mount_point": "/raw", "type": "pvc"},
            {"name": "new", "mount_point": "/new", "type": "new_pvc", "size": 2, "size_type": "Gi"},
        ],
    ).checked()
    found = run(made)
    assert found["spec"]["timeouts"] == {"pipeline": "60s"}
    assert [w["name"] for w in found["spec"]["workspaces"]] == ["data", "new"]
    task = tasks(found)["a"]
    assert (task["retries"], task["timeout"]) == (2, "10m")
    assert task["taskSpec"]["metadata"]["labels"]["l"] == "v"
    assert task["taskSpec"]["metadata"]["annotations"]["a"] == "b:c"
    (step,) = task["taskSpec"]["steps"]
    assert (step["image"], step["workingDir"]) == ("registry:5000/i:1", "/raw/work")
    assert step["env"] == [
        {"name": "A", "value": "b"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert step["computeResources"] == {"requests": {"cpu": "1"}}
    assert {"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}} in task["taskSpec"]["volumes"]


@pytest.mark.parametrize(("api", "field"), [("v1", "podTemplate"), ("v1beta1", "taskPodTemplate")])
def test_where_a_step_may_run(api: Literal["v1", "v1beta1"], field: str) -> None:
    tags = "toleration:gpu=yes:NoSchedule toleration:spot pull-secret:registry"
    cells: list[Cell] = [
        (f"step:a {tags}", "x = 1"),
        (f"step:b prev:a distribute:JAX numWorkers:2 {tags}", "y = x"),
    ]
    (found,) = tekton.emit(compiled(*cells, security_context={"run_as_user": 5}).checked(), Options(api))
    fields = {
        "tolerations": [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ],
        "imagePullSecrets": [{"name": "registry"}],
    }
    own = {"securityContext": {"runAsUser": 5}, **fields}
    assert found["spec"]["taskRunSpecs"] == [{"pipelineTaskName": "a", field: own}]
    job = tasks(found)["b"]["taskSpec"]["spec"]["job"]
    assert fields.items() <= job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"].items()


def test_a_working_directory_is_that_of_the_volume_that_has_it() -> None:
    volumes = [{"name": "data", "mount_point": "/data", "type": "pvc"}]
    for directory, expected in (("/data/w", "/data/w"), ("/data", "/data"), ("/database/w", None)):
        made = compiled(("step:a", "x = 1"), abs_working_dir=directory, volumes=volumes).checked()
        (step,) = tasks(run(made))["a"]["taskSpec"]["steps"]
        assert step.get("workingDir") == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_steps_ask_for_no_root_and_mount_under_own_paths(name: str) -> None:
    found = run(pipeline(name))
    assert "securityContext" not in msgspec.json.encode(found).decode()
    for task in tasks(found).values():
        for step in task["taskSpec"].get("steps", ()):
            assert {m["mountPath"] for m in step["volumeMounts"]} - {"/marshal"} == {"/trainshed/program"}
            assert {w["mountPath"] for w in task["taskSpec"]["workspaces"]} == {"/trainshed/data"}


def test_programs_are_plain_json() -> None:
    task = tasks(run(pipeline("candies.ipynb")))["sack"]
    assert json.loads(task["taskSpec"]["metadata"]["annotations"]["trainshed.dev/program"])["step"] == "sack"


MARSHAL: tuple[Cell, ...] = (
    ("step:data", "open('/marshal/rows', 'w').write('1')"),
    ("step:train prev:data distribute:{} numWorkers:3", "open('/marshal/model', 'w').write('2')"),
    ("step:last prev:train", "print(open('/marshal/model').read())"),
)


def with_strategy(name: str, **settings: Any) -> Pipeline:
    return compiled(*((tags.format(name), source) for tags, source in MARSHAL), **settings).checked()


def job_of(found: dict[str, Any], task: str) -> dict[str, Any]:
    spec: dict[str, Any] = tasks(found)[task]["taskSpec"]["spec"]["job"]["spec"]
    return next(value for key, value in spec.items() if key.endswith("ReplicaSpecs"))


def mounted(container: dict[str, Any], path: str = "/marshal") -> dict[str, Any] | None:
    return next((m for m in container["volumeMounts"] if m["mountPath"] == path), None)


def test_steps_share_the_directory_that_cells_of_kale_name() -> None:
    found = run(with_strategy("MultiWorkerMirroredStrategy"))
    for name in ("data", "last"):
        (step,) = tasks(found)[name]["taskSpec"]["steps"]
        assert mounted(step) == {
            "name": "$(workspaces.data.volume)",
            "mountPath": "/marshal",
            "subPath": "marshal/0",
        }
    (container,) = job_of(found, "train")["Worker"]["template"]["spec"]["containers"]
    assert mounted(container) == {
        "name": "data",
        "mountPath": "/marshal",
        "subPathExpr": "marshal/$(TRAINSHED_REPLICA_INDEX)",
    }, "worker 0 has what the steps have, the others one of their own"
    (index,) = [e for e in container["env"] if e["name"] == "TRAINSHED_REPLICA_INDEX"]
    label = "metadata.labels['training.kubeflow.org/replica-index']"
    assert index["valueFrom"] == {"fieldRef": {"fieldPath": label}}


def test_of_a_job_with_a_master_it_is_the_master_that_shares_the_directory() -> None:
    roles = job_of(run(with_strategy("DDP")), "train")
    found = {
        role: mounted(replica["template"]["spec"]["containers"][0])["subPathExpr"]  # type: ignore[index]
        for role, replica in roles.items()
    }
    assert found == {
        "Master": "marshal/$(TRAINSHED_REPLICA_INDEX)",
        "Worker": "marshal/worker-$(TRAINSHED_REPLICA_INDEX)",
    }


def test_workers_as_tasks_have_a_shared_directory_each() -> None:
    found = tasks(run(with_strategy("JAX"), workers_as_tasks=True))
    steps = {name: found[name]["taskSpec"]["steps"][0] for name in ("train1", "train2", "train3", "last")}
    assert {name: mounted(step)["subPath"] for name, step in steps.items()} == {  # type: ignore[index]
        "train1": "marshal/0",
        "train2": "marshal/1",
        "train3": "marshal/2",
        "last": "marshal/0",
    }


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"marshal_path": "/elsewhere"}, None),
        ({"volumes": [{"name": "v", "mount_point": "/marshal", "type": "pvc"}]}, None),
        ({"volumes": [{"name": "v", "mount_point": "/marshals", "type": "pvc"}]}, "/marshal"),
        ({"marshal_path": "/marshal/"}, "/marshal"),
    ],
)
def test_the_shared_directory_is_there_only_where_cells_name_it(
    settings: dict[str, Any], where: str | None
) -> None:
    (step,) = tasks(run(with_strategy("JAX", **settings)))["last"]["taskSpec"]["steps"]
    own = next((m for m in step["volumeMounts"] if m["name"].startswith("$(workspaces.data")), None)
    assert (own and own["mountPath"]) == where
    assert mounted(tasks(run(pipeline("candies.ipynb")))["sack"]["taskSpec"]["steps"][0]) is None


def test_steps_around_a_mirrored_strategy_have_the_keras_that_knows_it() -> None:
    found = run(with_strategy("MultiWorkerMirroredStrategy"))
    (step,) = tasks(found)["last"]["taskSpec"]["steps"]
    assert {"name": "TF_USE_LEGACY_KERAS", "value": "1"} in step["env"]
    (container,) = job_of(found, "train")["Worker"]["template"]["spec"]["containers"]
    assert {"name": "TF_USE_LEGACY_KERAS", "value": "1"} in container["env"]
    own = compiled(
        ("step:a distribute:MultiWorkerMirroredStrategy numWorkers:2 env:TF_USE_LEGACY_KERAS:0", "x = 1")
    )
    (container,) = job_of(run(own.checked()), "a")["Worker"]["template"]["spec"]["containers"]
    assert {"name": "TF_USE_LEGACY_KERAS", "value": "0"} in container["env"]
    assert "env" not in tasks(run(with_strategy("JAX")))["last"]["taskSpec"]["steps"][0]


def test_here_steps_run_in_the_directory_of_the_notebook() -> None:
    (found,) = local.emit(pipeline("distributed-pytorch.ipynb"), Options(directory="/home/me/notebooks"))
    own = {"hostPath": {"path": "/home/me/notebooks", "type": "Directory"}}
    spec = tasks(found)["data"]["taskSpec"]
    pod = job_of(found, "train")["Worker"]["template"]["spec"]
    for container, volumes in ((spec["steps"][0], spec["volumes"]), (pod["containers"][0], pod["volumes"])):
        (volume,) = [v for v in volumes if "hostPath" in v]
        assert volume == {"name": "notebook-directory", **own}
        assert mounted(container, "/home/me/notebooks") is not None
        assert container["args"][container["args"].index("--work") + 1] == "/home/me/notebooks"
        assert "workingDir" not in container, "modules beside the notebook are not for the runner"


@pytest.mark.parametrize("directory", ["/", "/data/mine"])
def test_a_directory_that_cannot_be_mounted_is_left_alone(directory: str) -> None:
    volumes = [{"name": "v", "mount_point": "/data", "type": "pvc"}]
    made = compiled(("step:a", "x = 1"), volumes=volumes).checked()
    (found,) = local.emit(made, Options(directory=directory))
    assert not [v for v in tasks(found)["a"]["taskSpec"]["volumes"] if "hostPath" in v]
    args = tasks(found)["a"]["taskSpec"]["steps"][0]["args"]
    assert args[args.index("--work") + 1].endswith("/files")


@pytest.mark.parametrize("kind", ["int", "float", "str", "bool"])
@pytest.mark.parametrize(
    "text", ["", "1", "-1", " 2 ", "1_0", "1.5", "1e3", "nan", "true", "FALSE", "On", "no", "maybe", "0x1"]
)
def test_a_parameter_is_refused_before_the_run_if_the_runner_would_refuse_it(
    kind: Literal["int", "float", "str", "bool"], text: str
) -> None:
    try:
        parameter_value(RunnerParameter("p", kind, ""), text)
    except ValueError:
        assert not takes(Parameter("p", kind, ""), text)
    else:
        assert takes(Parameter("p", kind, ""), text)
