"""What is foreseen of manifests: for each rule one that it finds, with place and remedy, and one that it passes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.cluster.images.directories import Image
from trainshed.cluster.node.pod.unsupported import Capabilities
from trainshed.findings import Severity
from trainshed.operator.install import embedded_objects, embedded_options
from trainshed.sdk.foresight.findings import RULES, Finding
from trainshed.sdk.foresight.foresee import of_object
from trainshed.sdk.foresight.gather import of_cluster
from trainshed.sdk.foresight.world import World
from trainshed.testing.builders import JOB_KINDS

NODE = {
    "metadata": {"name": "vm", "labels": {"zone": "a"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
MISSING = ("PersistentVolumeClaim", "ConfigMap", "Secret", "ServiceAccount")
LOCAL = World(
    found={
        **{(kind, "default", "gone"): None for kind in MISSING},
        ("PriorityClass", "", "gone"): None,
        ("Namespace", "", "gone"): None,
        ("Namespace", "", "default"): {"metadata": {"name": "default"}},
        ("ConfigMap", "default", "there"): {"metadata": {"name": "there"}, "data": {"a": "b"}},
    },
    nodes=[NODE],
    images={"known:latest": Image(entrypoint=("python3",))},
    schedulers=frozenset({"default-scheduler"}),
    capabilities=Capabilities(),
)
ELSEWHERE = World(found=LOCAL.found, nodes=[NODE])
NEEDED = {"MPIJob": "Launcher", "XGBoostJob": "Master"}
"""Types without which there is no job."""
KINDS = {
    name: (kind.replica_specs_field, kind.container_name, NEEDED.get(name, "Worker"))
    for name, kind in JOB_KINDS.items()
}


def job(
    container: dict[str, Any] | None = None, *, kind: str = "PyTorchJob", replicas: int = 1, **spec: Any
) -> Any:
    field, name, replica = KINDS[kind]
    containers = [{"name": name, "image": "known", "command": ["python3"], **(container or {})}]
    template = {"spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {field: {replica: {"replicas": replicas, "template": template}}},
    }


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def foresee(objects: Sequence[Any], world: World) -> tuple[Finding, ...]:
    whole = world.with_objects(objects)
    return tuple(finding for obj in objects for finding in of_object(obj, whole))


def codes(obj: Any, world: World = LOCAL) -> list[str]:
    return [finding.code for finding in foresee([obj], world)]


def one(obj: Any, world: World = LOCAL) -> Finding:
    (finding,) = foresee([obj], world)
    return finding


TEMPLATE = "spec.pytorchReplicaSpecs[Worker].template."


@pytest.mark.parametrize(
    ("obj", "code", "path", "message", "fix"),
    [
        (
            job(**volume(persistentVolumeClaim={"claimName": "gone"})),
            "TS101",
            "spec.volumes[0].persistentVolumeClaim",
            "there is no PersistentVolumeClaim gone",
            "--adapt",
        ),
        (
            job(**volume(configMap={"name": "gone"})),
            "TS102",
            "spec.volumes[0].configMap",
            "there is no ConfigMap gone",
            "create configmap gone",
        ),
        (
            job({"volumeMounts": [{"name": "w", "mountPath": "/w"}]}),
            "TS601",
            "spec.containers[0].volumeMounts[0].name",
            'Not found: "w"',
            "",
        ),
        (
            job(**volume(secret={"secretName": "gone"})),
            "TS103",
            "spec.volumes[0].secret",
            "there is no Secret gone",
            "create secret generic gone",
        ),
        (
            job(**volume(projected={"sources": [{"secret": {"name": "gone"}}]})),
            "TS103",
            "spec.volumes[0].projected.sources[0].secret",
            "there is no Secret gone",
            "",
        ),
        (
            job({"envFrom": [{"configMapRef": {"name": "gone"}}]}),
            "TS102",
            "spec.containers[0].envFrom[0].configMapRef",
            "there is no ConfigMap gone",
            "",
        ),
        (
            job({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}}]}),
            "TS103",
            "spec.containers[0].env[0].valueFrom.secretKeyRef",
            "there is no Secret gone",
            "",
        ),
        (
            job({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]}),
            "TS107",
            "spec.containers[0].env[0].valueFrom.configMapKeyRef",
            "the ConfigMap there has no key k",
            "add k",
        ),
        (
            job(serviceAccountName="gone"),
            "TS104",
            "spec.serviceAccountName",
            "there is no ServiceAccount gone",
            "",
        ),
        (
            job(priorityClassName="gone"),
            "TS105",
            "spec.priorityClassName",
            "there is no PriorityClass gone",
            "leave it out",
        ),
        (
            job({"image": "own/image:1", "command": None, "args": ["--epochs=2"]}),
            "TS201",
            "spec.containers[0].image",
            "nothing here knows what own/image:1 runs",
            "trainshed image add own/image:1 --entrypoint",
        ),
        (
            job({"image": "own/image:1"}),
            "TS202",
            "spec.containers[0].image",
            "own/image:1 is not pulled",
            "--layer",
        ),
        (
            job({"command": ["sh", "-c", "pip3 install -q torchvision && python3 a.py"]}),
            "TS203",
            "spec.containers[0].command",
            "`pip3 install` runs at each start",
            "",
        ),
        (
            job({"resources": {"requests": {"memory": "900Gi"}}}),
            "TS301",
            "spec.containers[0].resources.requests.memory",
            "asks for 900Gi memory, and the largest node has 8Gi",
            "--adapt",
        ),
        (
            job({"resources": {"limits": {"nvidia.com/gpu": "1"}}}),
            "TS302",
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            "no node has nvidia.com/gpu",
            "--adapt",
        ),
        (job(nodeSelector={"zone": "b"}), "TS303", "spec.nodeSelector", "no node has such labels", "--adapt"),
        (
            job(schedulerName="kai-scheduler"),
            "TS305",
            "spec.schedulerName",
            "there is no scheduler kai-scheduler",
            "--adapt",
        ),
        (
            job({"resources": {"requests": {"cpu": "1500m"}}}, replicas=3),
            "TS306",
            "",
            "all replicas together ask for 4500m cpu, and all nodes together have 4",
            "--workers",
        ),
        (
            job(hostNetwork=True, replicas=2),
            "TS402",
            "spec.hostNetwork",
            "2 replicas share the network of 1 node",
            "leave hostNetwork out",
        ),
        (
            job(
                containers=[
                    {"name": "pytorch", "image": "known", "command": ["a"]},
                    {
                        "name": "side",
                        "image": "known",
                        "command": ["a"],
                        "ports": [{"name": "pytorchjob-port", "containerPort": 1}],
                    },
                ]
            ),
            "TS403",
            "spec.containers[1].ports[0]",
            "pytorchjob-port is read from the container pytorch; the job uses 23456",
            "",
        ),
        (
            job({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}),
            "TS501",
            "spec.containers[0].securityContext.appArmorProfile",
            "profiles of AppArmor and SELinux are not applied",
            "",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("TS") else "",
)
def test_what_is_foreseen(obj: Any, code: str, path: str, message: str, fix: str) -> None:
    finding = one(obj)
    assert (finding.code, finding.severity) == (code, RULES[code].severity)
    assert finding.path == (TEMPLATE + path if path else "spec")
    assert message in finding.message and fix in finding.fix
    assert "\n" not in finding.text


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_looked_into(kind: str) -> None:
    assert codes(job(kind=kind)) == []
    assert codes(job(kind=kind, schedulerName="volcano-too")) == ["TS305"]


def test_the_local_cluster_has_the_scheduler_that_its_operator_was_told_of() -> None:
    async def main() -> None:
        api = FakeApi()
        client = Client(api)
        assert "mine" not in ((await of_cluster(client, [], {})).schedulers or ())
        (deployment,) = (obj for obj in embedded_objects(gang="mine") if obj["kind"] == "Deployment")
        await api.put(
            "/apis/apps/v1/namespaces/kubeflow/deployments/training-operator", spec=deployment["spec"]
        )
        found = await of_cluster(client, [], {})
        assert found.schedulers == {"default-scheduler", "volcano", "scheduler-plugins-scheduler", "mine"}
        assert found.operator == embedded_options("mine")
        for gang in ("auto", "None"):
            *_, deployment = embedded_objects(gang=gang)
            await api.put(
                "/apis/apps/v1/namespaces/kubeflow/deployments/training-operator", spec=deployment["spec"]
            )
            assert (await of_cluster(client, [], {})).operator == embedded_options(gang)
        elsewhere = await of_cluster(client, [], None)
        assert (elsewhere.schedulers, elsewhere.operator) == (None, None), "who knows, elsewhere"

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("policy", "found"), [("ExitCode", []), ("Never", []), ("Sometimes", ["TS601"])])
def test_a_restart_policy_that_pods_do_not_have(kind: str, policy: str, found: list[str]) -> None:
    obj = job(kind=kind)
    field, _, replica = KINDS[kind]
    obj["spec"][field][replica]["restartPolicy"] = policy
    assert codes(obj) == found
    for finding in foresee([obj], LOCAL):
        assert finding.text == (
            f'spec.{field}[{replica}].restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "ExitCode", "OnFailure", "Never"'
        )


def test_what_is_the_same_of_several_replica_types_is_said_once() -> None:
    obj = job(schedulerName="kai-scheduler")
    specs = obj["spec"]["pytorchReplicaSpecs"]
    specs["Master"] = copy.deepcopy(specs["Worker"])
    assert one(obj).path == "spec.pytorchReplicaSpecs[Worker,Master].template.spec.schedulerName"


def test_plain_pods_and_workloads_are_looked_into() -> None:
    template = job(serviceAccountName="gone")["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template}
    cron = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    assert one(pod).path == "spec.serviceAccountName"
    for version, kind, spec, path in (
        ("apps/v1", "Deployment", {"template": template}, "spec.template.spec."),
        ("batch/v1", "Job", {"template": template}, "spec.template.spec."),
        ("batch/v1", "CronJob", cron, "spec.jobTemplate.spec.template.spec."),
    ):
        obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
        assert one(obj).path == f"{path}serviceAccountName"


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("PersistentVolumeClaim", "v1", volume(persistentVolumeClaim={"claimName": "gone"})),
        ("ConfigMap", "v1", volume(configMap={"name": "gone"})),
        ("Secret", "v1", volume(secret={"secretName": "gone"})),
        ("ServiceAccount", "v1", {"serviceAccountName": "gone"}),
        ("PriorityClass", "scheduling.k8s.io/v1", {"priorityClassName": "gone"}),
    ],
)
def test_what_comes_in_the_same_files_is_there(kind: str, version: str, spec: Any) -> None:
    brought = {"apiVersion": version, "kind": kind, "metadata": {"name": "gone"}}
    assert foresee([job(**spec), brought], LOCAL) == ()
    assert len(foresee([job(**spec)], LOCAL)) == 1
    elsewhere = copy.deepcopy(brought) | {"metadata": {"name": "gone", "namespace": "other"}}
    if kind != "PriorityClass":
        assert len(foresee([job(**spec), elsewhere], LOCAL)) == 1, "in another namespace it is another object"


def test_a_namespace_that_is_not_there() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "gone"}}
    finding = one(obj)
    assert (finding.code, finding.fix) == ("TS106", "kubectl create namespace gone")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}}
    assert foresee([namespace, obj], LOCAL) == ()


def test_what_is_known_to_be_gone_does_not_hide_what_is_there() -> None:
    here, gone = ("ConfigMap", "a", "here"), ("ConfigMap", "a", "gone")
    world = World(found={here: {"kind": "ConfigMap"}}).without([here, gone])
    assert not world.is_missing(*here) and world.is_missing(*gone)
    assert not world.is_missing("ConfigMap", "a", "unknown")


def test_a_storage_class_that_is_not_there() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    claim |= {"spec": {"storageClassName": "manual"}}
    world = World(found={("StorageClass", "", "manual"): None})
    assert codes(claim, world) == ["TS108"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": claim["spec"],
    }
    assert foresee([claim, volume], world) == (), "a static volume needs no class"


def test_nothing_is_said_of_what_is_not_known() -> None:
    obj = job(
        {
            "image": "own/image",
            "command": None,
            "resources": {"requests": {"memory": "900Gi", "x.io/y": 1}, "limits": {"x.io/y": 1}},
        },
        schedulerName="kai-scheduler",
        nodeSelector={"zone": "b"},
        serviceAccountName="unasked",
        hostNetwork=True,
        replicas=9,
        **volume(secret={"secretName": "unasked"}),
    )
    assert foresee([obj], World()) == ()


@pytest.mark.parametrize(
    "spec",
    [
        volume(configMap={"name": "gone", "optional": True}),
        volume(secret={"secretName": "gone", "optional": True}),
        {"priorityClassName": "system-node-critical"},
        {"schedulerName": "default-scheduler"},
        {"nodeSelector": {"zone": "a"}},
    ],
)
def test_what_is_in_order_is_not_said(spec: Any) -> None:
    assert codes(job(**spec)) == []


def test_arguments_that_are_a_command_line_need_no_entrypoint() -> None:
    assert codes(job({"image": "busybox", "command": None, "args": ["sh", "-c", "true"]})) == []


def test_taints_on_every_node() -> None:
    tainted = {**NODE, "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
    world = World(nodes=[tainted])
    assert codes(job(), world) == ["TS304"]
    assert codes(job(tolerations=[{"key": "gpu", "operator": "Exists"}]), world) == []


@pytest.mark.parametrize(("world", "code"), [(ELSEWHERE, "TS401"), (LOCAL, "TS405")], ids=["cluster", "here"])
def test_shared_memory_is_in_the_way_on_clusters_only(world: World, code: str) -> None:
    container = {"args": ["train.py", "--num-workers", "4"]}
    assert codes(job(container), world) == [code]
    assert codes(job({"args": ["--num-workers=0"]}), world) == []
    mounted = {**container, "volumeMounts": [{"name": "s", "mountPath": "/dev/shm"}]}
    volumes = [{"name": "s", "emptyDir": {"medium": "Memory"}}]
    assert codes(job(mounted, volumes=volumes), world) == []
    assert RULES["TS401"].severity == Severity.WARNING
    assert RULES["TS405"].severity == Severity.INFO


def test_sidecars_of_a_mesh() -> None:
    namespace = {"metadata": {"name": "default", "labels": {"istio-injection": "enabled"}}}
    world = World(found={("Namespace", "", "default"): namespace})
    assert codes(job(), world) == ["TS404"]
    obj = job()
    template = obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {"sidecar.istio.io/inject": "false"}}
    assert codes(obj, world) == []
    template["metadata"] = {"labels": {"sidecar.istio.io/inject": "true"}}
    assert codes(obj, LOCAL) == ["TS404"]


def test_errors_are_what_keeps_a_pod_from_starting() -> None:
    errors = {code for code, rule in RULES.items() if rule.severity == Severity.ERROR}
    assert errors >= {"TS101", "TS201", "TS301", "TS302", "TS305"} and "TS501" not in errors


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "gone", "1Gi", "x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["name", "a"]), inner, max_size=3),
    max_leaves=6,
)


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [each for key, value in inner for each in [(*path, key), *paths(value, (*path, key))]]


WHOLE = job(
    {
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}}],
        "envFrom": [{"configMapRef": {"name": "gone"}}],
        "ports": [{"name": "p", "containerPort": 1, "hostPort": 1}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "securityContext": {"runAsUser": 1},
    },
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    tolerations=[{"key": "a"}],
    nodeSelector={"a": "b"},
    **volume(projected={"sources": [{"configMap": {"name": "gone", "items": [{"key": "a", "path": "b"}]}}]}),
)


@given(st.sampled_from(paths(WHOLE)[3:]), ANYTHING)
@times(3)
def test_documents_of_any_shape_are_taken(path: tuple[Any, ...], value: Any) -> None:
    obj = copy.deepcopy(WHOLE)
    parent = obj
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    if not isinstance(obj.get("metadata"), dict) or not isinstance(obj.get("kind"), str):
        return
    for finding in foresee([obj], LOCAL):
        assert finding.code in RULES


def test_a_command_that_the_operator_gives_is_one() -> None:
    """Workers of an MPIJob sleep until the launcher starts ranks in them."""
    mpi = job({"command": ["mpirun"]}, kind="MPIJob")
    specs = mpi["spec"]["mpiReplicaSpecs"]
    specs["Worker"] = {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "mpi", "image": "gone"}]}},
    }
    codes = {found.code for found in foresee([mpi], LOCAL)}
    assert "TS201" not in codes and "TS202" in codes
    specs["Worker"]["template"]["spec"]["containers"].append({"name": "side", "image": "gone"})
    assert "TS201" in {found.code for found in foresee([mpi], LOCAL)}
