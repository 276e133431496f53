"""Manifests of clusters, relaxed for a laptop; and scripts as jobs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests import manifest_fuzz
from tests.unit.test_sdk_foresight import LOCAL, NODE, foresee, job, volume
from trainshed.kube.wire import yamltext
from trainshed.sdk.adapt import Wishes, adapt, diff
from trainshed.sdk.documents import documents
from trainshed.sdk.errors import UserError
from trainshed.sdk.foresight.world import World
from trainshed.sdk.offline import judge
from trainshed.sdk.script import SCRIPTED, Script, job_of

PLAIN = Wishes()


def spec_of(obj: Any, replica: str = "Worker") -> Any:
    return obj["spec"]["pytorchReplicaSpecs"][replica]["template"]["spec"]


def adapted(obj: Any, wishes: Wishes = PLAIN, world: World = LOCAL) -> Any:
    before = copy.deepcopy(obj)
    (*made, after) = adapt([obj], world, wishes)
    assert obj == before, "what is given stays as it is"
    return made, after


DEMANDING = job(
    {
        "resources": {
            "requests": {"cpu": "16", "memory": "64Gi"},
            "limits": {"nvidia.com/gpu": "8", "rdma/ib": "1", "memory": "64Gi"},
        }
    },
    replicas=4,
    nodeSelector={"gpu": "a100"},
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
            }
        }
    },
    tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    schedulerName="kai-scheduler",
    imagePullSecrets=[{"name": "registry"}],
    priorityClassName="gone",
    serviceAccountName="gone",
    runtimeClassName="nvidia",
    hostNetwork=True,
    **volume(persistentVolumeClaim={"claimName": "gone"}),
)


def test_what_a_cluster_asks_for_is_relaxed_until_nothing_is_in_the_way() -> None:
    (claim,), after = adapted(DEMANDING)
    assert (claim["kind"], claim["metadata"]["name"]) == ("PersistentVolumeClaim", "gone")
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    spec = spec_of(after)
    assert set(spec) == {"containers", "volumes"}
    resources = spec["containers"][0]["resources"]
    # 4 replicas share 90 % of 4 cores and 8Gi.
    assert resources["requests"] == {"cpu": "900m", "memory": "1843Mi"}
    assert resources["limits"] == {"memory": "64Gi"}
    assert foresee([claim, after], LOCAL) == ()  # the memory limit, too, is honoured


def test_what_can_be_had_stays() -> None:
    obj = job(
        {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        nodeSelector={"zone": "a"},
        schedulerName="default-scheduler",
    )
    assert adapted(obj) == ([], obj)
    assert diff([obj], [adapted(obj)[1]]) == []


def test_devices_that_are_there_stay_unless_cpu_is_wished_for() -> None:
    node = copy.deepcopy(NODE)
    node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    world = World(nodes=[node])
    obj = job({"resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert adapted(obj, world=world) == ([], obj)
    container = spec_of(adapted(obj, Wishes(cpu=True), world)[1])["containers"][0]
    assert "resources" not in container


def test_the_number_of_workers() -> None:
    obj = job(replicas=16)
    obj["spec"]["elasticPolicy"] = {"minReplicas": 8, "maxReplicas": 16}
    after = adapted(obj, Wishes(workers=2))[1]
    assert after["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
    assert after["spec"]["elasticPolicy"] == {"minReplicas": 2, "maxReplicas": 16}
    with pytest.raises(UserError, match="no job has workers"):
        adapt(
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}], LOCAL, Wishes(workers=2)
        )


def test_a_namespace_that_is_not_there_is_made_first() -> None:
    obj = job(**volume(persistentVolumeClaim={"claimName": "data"}))
    obj["metadata"]["namespace"] = "gone"
    world = World(found={("Namespace", "", "gone"): None, ("PersistentVolumeClaim", "gone", "data"): None})
    made, _ = adapted(obj, world=world)
    assert [each["kind"] for each in made] == ["Namespace", "PersistentVolumeClaim"]
    assert made[1]["metadata"] == {"name": "data", "namespace": "gone"}


def test_a_claim_of_a_class_that_is_not_there_takes_the_default() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": {"storageClassName": "efs", "accessModes": ["ReadWriteMany"]},
    }
    (after,) = adapt([claim], World(found={("StorageClass", "", "efs"): None}), PLAIN)
    assert after["spec"] == {"accessModes": ["ReadWriteMany"]}


def test_the_diff_is_that_of_the_manifests() -> None:
    obj = job(schedulerName="kai-scheduler")
    lines = diff([obj], [adapted(obj)[1]])
    assert lines[0].startswith("--- PyTorchJob train") and lines[1].startswith("+++ PyTorchJob train")
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-          schedulerName: kai-scheduler"]
    claim = adapted(DEMANDING)[0]
    assert all(line.startswith(("+", "---", "@@")) for line in diff([], claim))


def test_what_is_printed_is_what_is_applied() -> None:
    made, after = adapted(DEMANDING)
    assert list(documents(yamltext.documents([*made, after]))) == [*made, after]


def test_documents_of_any_shape_are_taken() -> None:
    def look(text: str) -> str:
        try:
            objects = [obj for obj in documents(text) if isinstance(obj, dict)]
        except Exception:
            return "no YAML"
        for obj in objects:
            if not isinstance(obj.get("metadata"), dict) or not isinstance(obj.get("kind"), str):
                return "no object"
            try:
                judge(obj, "default")
            except Exception:
                return "refused"
        adapt(objects, LOCAL, PLAIN)
        return "adapted"

    ends, broken = manifest_fuzz.try_all(200, seed=3, look=look)
    assert not broken, broken[0]
    assert ends["adapted"], ends


# Scripts.

SCRIPT = Script(
    path=Path("/home/me/code/train it.py"), directory=Path("/home/me/code"), arguments=("--lr", "1e-3")
)


@pytest.mark.parametrize("kind", [kind.name for kind in SCRIPTED])
def test_a_script_of_every_kind_is_a_job_that_is_taken(kind: str) -> None:
    script = Script(path=SCRIPT.path, directory=SCRIPT.directory, workers=3, kind=kind)
    obj = job_of(script)
    assert judge(obj, "default") == ()
    assert obj["metadata"]["name"] == "train-it"
    (specs,) = [value for key, value in obj["spec"].items() if key.endswith("ReplicaSpecs")]
    assert sum(each["replicas"] for name, each in specs.items() if name != "Launcher") == 3


def test_what_a_script_runs() -> None:
    spec = spec_of(job_of(SCRIPT), "Master")
    (container,) = spec["containers"]
    assert container["command"] == ["python3", "-u", "/home/me/code/train it.py", "--lr", "1e-3"]
    assert container["workingDir"] == container["volumeMounts"][0]["mountPath"] == "/home/me/code"
    assert "Worker" not in job_of(SCRIPT)["spec"]["pytorchReplicaSpecs"]


def test_torchrun_starts_several_processes() -> None:
    obj = job_of(Script(path=SCRIPT.path, directory=SCRIPT.directory, workers=2, processes=4))
    assert obj["spec"]["nprocPerNode"] == "4"
    assert spec_of(obj)["containers"][0]["command"][:3] == ["python3", "-m", "torch.distributed.run"]
    with pytest.raises(UserError, match="--nproc is for PyTorchJob"):
        job_of(Script(path=SCRIPT.path, directory=SCRIPT.directory, processes=2, kind="jax"))


@pytest.mark.parametrize(
    ("file", "name"), [("Train_ResNet.v2.py", "train-resnet-v2"), ("01.py", "run-01"), ("é.py", "run")]
)
def test_names(file: str, name: str) -> None:
    assert job_of(Script(path=Path("/a") / file, directory=Path("/a")))["metadata"]["name"] == name


def test_a_script_elsewhere_has_both_directories() -> None:
    obj = job_of(Script(path=Path("/src/a.py"), directory=Path("/work")))
    assert [v["hostPath"]["path"] for v in spec_of(obj, "Master")["volumes"]] == ["/src", "/work"]


def test_a_kind_that_runs_no_script() -> None:
    with pytest.raises(UserError, match="--kind MXJob"):
        job_of(Script(path=Path("/a.py"), directory=Path("/"), kind="MXJob"))
