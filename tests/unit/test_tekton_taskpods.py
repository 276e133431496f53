"""The pod of a TaskRun: steps, templates, workspaces."""

from __future__ import annotations

import pytest

from tests.unit.tekton_world import TaskWorld, task_run
from tests.unit.test_tekton_taskruns import HELLO, told, world
from trainshed.kube.meta.objects import Object
from trainshed.tekton import taskrun
from trainshed.tekton.taskpod import Carried, Entrypoint


def test_templates_parameters_and_paths_are_filled_in() -> None:
    it = world(
        {
            **HELLO,
            "script": "cat $(workspaces.data.path)/$(params.file) > $(results.out.path) $(inputs.params.file)",
        },
        params=[{"name": "file", "default": "a.txt"}],
        results=[{"name": "out"}],
        workspaces=[{"name": "data", "readOnly": True}],
        stepTemplate={"env": [{"name": "A", "value": "1"}], "workingDir": "src"},
        spec={"workspaces": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}, "subPath": "s"}]},
    )
    it.step()
    (container,) = it.pod["spec"]["containers"]
    assert told(container)["script"].endswith("cat /workspace/data/a.txt > /tekton/results/out a.txt")
    assert told(container)["cwd"] == "/workspace/src"
    assert {"name": "A", "value": "1"} in container["env"]
    (volume,) = [v for v in it.pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert {
        "name": volume["name"],
        "mountPath": "/workspace/data",
        "subPath": "s",
        "readOnly": True,
    } in container["volumeMounts"]


@pytest.mark.parametrize(
    "source",
    [
        {"emptyDir": {}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
        {"secret": {"secretName": "s"}},
        {"projected": {"sources": [{"secret": {"name": "s"}}]}},
        {"csi": {"driver": "d"}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_a_workspace_is_a_volume_of_its_kind(source: Object) -> None:
    it = world(
        {**HELLO, "script": "ls $(workspaces.data.path)"},
        workspaces=[{"name": "data"}],
        spec={"workspaces": [{"name": "data", **source}]},
    )
    it.step()
    (container,) = it.pod["spec"]["containers"]
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == "/workspace/data"]
    (volume,) = [v for v in it.pod["spec"]["volumes"] if v["name"] == mount["name"]]
    assert volume == {"name": mount["name"], **source}


def test_a_template_of_a_claim_is_a_claim_that_the_run_owns() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    it = world(
        HELLO,
        workspaces=[{"name": "data"}],
        spec={"workspaces": [{"name": "data", "volumeClaimTemplate": {"spec": spec}}]},
    )
    it.step()
    (claim,) = it.claims
    assert claim["spec"] == spec
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "TaskRun"
    (volume,) = [v for v in it.pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


@pytest.mark.parametrize(("bound", "said"), [(True, "true at /workspace/data"), (False, "false at ")])
def test_an_optional_workspace_may_be_left_out(bound: bool, said: str) -> None:
    it = world(
        {**HELLO, "script": "$(workspaces.data.bound) at $(workspaces.data.path)"},
        workspaces=[{"name": "data", "optional": True}],
        spec={"workspaces": [{"name": "data", "emptyDir": {}}] if bound else []},
    )
    it.step()
    (container,) = it.pod["spec"]["containers"]
    assert told(container)["script"].endswith(said)
    assert any(m["mountPath"] == "/workspace/data" for m in container["volumeMounts"]) is bound


def test_the_pod_template_is_the_pods_and_step_specs_are_its_steps() -> None:
    template = {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "securityContext": {"runAsUser": 1000},
        "env": [{"name": "A", "value": "template"}, {"name": "B", "value": "template"}],
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    over = [{"name": "hello", "computeResources": {"limits": {"memory": "1Gi"}}}]
    it = world(
        {**HELLO, "env": [{"name": "A", "value": "step"}], "computeResources": {"limits": {"cpu": "1"}}},
        spec={"podTemplate": template, "stepSpecs": over, "serviceAccountName": "robot"},
    )
    it.step()
    spec = it.pod["spec"]
    assert {key: spec[key] for key in ("nodeSelector", "tolerations", "securityContext")} == {
        key: template[key] for key in ("nodeSelector", "tolerations", "securityContext")
    }
    assert spec["serviceAccountName"] == "robot"
    assert {"name": "own", "emptyDir": {}} in spec["volumes"]
    (container,) = spec["containers"]
    assert {e["name"]: e["value"] for e in container["env"] if e["name"] in "AB"} == {
        "A": "step",
        "B": "template",
    }
    assert container["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}


def test_templates_of_steps_and_specs_of_sidecars_are_merged_as_kubernetes_does() -> None:
    """Field by field and by key; lists without a key are replaced."""
    secret = {"secretRef": {"name": "s"}}
    step = {
        **HELLO,
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "computeResources": {"limits": {"cpu": "2"}},
        "env": [{"name": "A", "value": "step"}],
        "envFrom": [secret],
    }
    template = {
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 7},
        "computeResources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "env": [{"name": "A", "value": "template"}, {"name": "B", "value": "template"}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
    }
    sidecar = {"name": "web", "image": "nginx", "computeResources": {"requests": {"cpu": "1"}}}
    over = [{"name": "web", "computeResources": {"limits": {"cpu": "3"}}}]
    it = world(step, stepTemplate=template, sidecars=[sidecar], spec={"sidecarSpecs": over})
    it.step()
    (container,), (web,) = it.pod["spec"]["containers"], it.pod["spec"]["initContainers"]
    assert container["securityContext"] == {
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        "runAsUser": 7,
    }
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert {e["name"]: e["value"] for e in container["env"]}.items() >= {"A": "step", "B": "template"}.items()
    assert container["envFrom"] == [secret]
    assert web["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}


def test_the_command_of_an_image_stands_in_for_a_missing_one() -> None:
    run = task_run({"taskSpec": {"steps": [{"name": "a", "image": "tool", "args": ["x"]}]}})
    it = TaskWorld(run, images={"tool": ("tool", "--now")})
    it.step()
    assert it.pod["spec"]["containers"][0]["args"] == ["tool", "--now", "x"]


def test_an_image_with_a_root_of_its_own_has_the_interpreter_mounted() -> None:
    carried = Carried(
        ("/p/loader", "/p/bin/python3"), (("/usr/bin", "/p/bin"), ("/usr/lib/python3", "/p/lib/python3"))
    )
    started = Entrypoint("python3", ("entrypoint.py",), carried, frozenset({"bare"}))
    steps = [
        {"name": "a", "image": "bare", "script": "true"},
        {"name": "b", "image": "other", "script": "true"},
    ]
    it = TaskWorld(task_run({"taskSpec": {"steps": steps}}), entrypoint=started)
    it.step()
    bare, other = it.pod["spec"]["containers"]
    assert bare["command"][:2] == ["/p/loader", "/p/bin/python3"]
    assert other["command"][:2] == ["python3", "-I"]
    mounted = {m["mountPath"]: (m["name"], m.get("readOnly")) for m in bare["volumeMounts"]}
    volumes = {v["name"]: v.get("hostPath") for v in it.pod["spec"]["volumes"]}
    name, read_only = mounted["/p/lib/python3"]
    assert read_only
    assert volumes[name] == {"path": "/usr/lib/python3", "type": "Directory"}
    assert "/p/bin" not in {m["mountPath"] for m in other["volumeMounts"]}
    del steps[0]
    it = TaskWorld(task_run({"taskSpec": {"steps": steps}}), entrypoint=started)
    it.step()
    assert all("hostPath" not in volume for volume in it.pod["spec"]["volumes"])


def test_a_long_script_is_cut_into_arguments_that_linux_takes() -> None:
    it = world({**HELLO, "script": "#!/bin/sh\n" + "x" * 300_000})
    it.step()
    (container,) = it.pod["spec"]["containers"]
    assert max(map(len, container["command"])) < 128 * 1024
    assert len(told(container)["script"]) > 300_000


@pytest.mark.parametrize("field", ["mountPath", "mountpath"])
def test_a_workspace_that_one_step_asks_for_is_not_seen_by_others(field: str) -> None:
    alone = {**HELLO, "workspaces": [{"name": "secret", field: "/only/here"}]}
    it = world(
        alone,
        {"name": "b", "image": "x", "command": ["true"]},
        workspaces=[{"name": "secret"}],
        spec={"workspaces": [{"name": "secret", "secret": {"secretName": "s"}}]},
    )
    it.step()
    first, second = ([m["mountPath"] for m in c["volumeMounts"]] for c in it.pod["spec"]["containers"])
    assert "/only/here" in first
    assert not {"/only/here", "/workspace/secret"} & set(second)


def test_resources_of_the_whole_task_are_asked_for_once() -> None:
    it = world(
        HELLO,
        {"name": "b", "image": "x", "command": ["true"]},
        spec={"computeResources": {"requests": {"cpu": "1"}}},
    )
    it.step()
    asked = [c.get("resources", {}).get("requests", {}) for c in it.pod["spec"]["containers"]]
    assert asked == [{"cpu": "1"}, {}]


def test_the_name_of_a_pod_fits_however_long_the_runs() -> None:
    name = taskrun.pod_name(task_run({}, name="x" * 63))
    assert len(name) <= 63
    assert name.endswith("-pod")
