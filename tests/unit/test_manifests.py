"""The manifests of the operator: what they say, and that their permissions suffice."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from trainshed.api.registry import KINDS
from trainshed.jobs.registry import needed
from trainshed.kube.schema import soundness
from trainshed.kube.schema.crd import crd_defaults, validate_crd
from trainshed.operator import install, manifests, objects
from trainshed.operator.flags import parse


def test_embedded_objects_run_this_interpreter() -> None:
    found = [*install.embedded_objects()]
    workloads = [o for o in found if o["kind"] in ("Deployment", "Pod", "Job", "StatefulSet", "DaemonSet")]
    assert [o["metadata"]["name"] for o in workloads] == ["training-operator"]
    deployment = workloads[0]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == [sys.executable, "-m", "trainshed.operator"]
    assert deployment["metadata"]["namespace"] == "kubeflow"
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "training-operator"
    assert deployment["spec"]["selector"]["matchLabels"] == {"control-plane": "kubeflow-training-operator"}
    found[-1]["spec"] = None
    assert [*install.embedded_objects()][-1]["spec"] is not None, "the caller owns its copy"


def test_the_schemas_that_are_vouched_for_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions = [one for one in install.embedded_objects() if one["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == len(KINDS)
    monkeypatch.setattr(soundness, "_known", {})
    for definition in definitions:
        crd_defaults(definition)
        assert validate_crd(definition, None) == [], definition["metadata"]["name"]
    assert len(soundness._known) == len(definitions)


def test_what_the_embedded_cluster_takes_from_files_is_what_would_be_made() -> None:
    wanted = [*install.made(install.AUTO)]
    found = [obj for obj in install.embedded_objects(args=()) if obj["kind"] != "CustomResourceDefinition"]
    (container,) = wanted[-1]["spec"]["template"]["spec"]["containers"]
    container["command"][0] = sys.executable
    assert found == wanted
    assert install.definition_names() == [kind.resource.group_resource for kind in KINDS.values()]


def test_on_kubernetes_it_meets_the_restricted_pod_security_standard() -> None:
    """Source: kubernetes.io/docs/concepts/security/pod-security-standards."""
    pod = objects.deployment()["spec"]["template"]["spec"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    assert "volumes" not in pod and "hostNetwork" not in pod


def test_definitions_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each takes MiB while it is a tree, and what is taken at once is not given back."""
    found = install.embedded_objects()
    assert next(found)["kind"] == "Namespace"
    assert [next(found) for _ in KINDS] == [*objects.crds()]

    (tmp_path / "crds").mkdir()
    (tmp_path / install.EMBEDDED).write_text('{"kind": "Namespace"}\n')
    (tmp_path / install.DEFINITIONS).write_text('{"spec": {"versions": []}}\nno JSON\n')
    monkeypatch.setattr(install, "MANIFESTS", tmp_path)
    found = install.embedded_objects()
    next(found)
    assert next(found) == {"spec": {"versions": []}}
    with pytest.raises(msgspec.DecodeError):
        next(found)


def test_on_kubernetes_and_embedded_only_the_command_the_user_the_place_and_the_first_probes_differ() -> None:
    embedded = [*install.embedded_objects(python="python", args=(), gang="None")]
    here, there = (
        d["spec"]["template"]["spec"]["containers"][0] for d in (embedded[-1], objects.deployment())
    )
    assert here["startupProbe"]["httpGet"] == there["readinessProbe"]["httpGet"]
    assert here["startupProbe"]["periodSeconds"] == 1 and "initialDelaySeconds" not in here["readinessProbe"]
    del here["startupProbe"]
    here["readinessProbe"]["initialDelaySeconds"] = there["readinessProbe"]["initialDelaySeconds"]
    assert here["securityContext"].items() <= there["securityContext"].items()
    here["securityContext"] = there["securityContext"]
    pod = embedded[-1]["spec"]["template"]["spec"]
    (classes,) = (obj for obj in embedded if obj["kind"] == "PriorityClass")
    assert pod.pop("priorityClassName") == classes["metadata"]["name"]
    assert classes["preemptionPolicy"] == "Never", "it makes nobody go when its next version starts beside it"
    assert pod.pop("affinity")["nodeAffinity"], "not where nothing runs"
    assert embedded[-1] == objects.deployment()
    assert [o for o in embedded[:-1] if o["kind"] == "ClusterRole"] == [objects.cluster_role()]


@pytest.mark.parametrize(
    ("gang", "flags", "group"),
    [
        ("auto", ["--gang-scheduler-name=volcano", "--gang-policy-only"], "scheduling.volcano.sh"),
        ("volcano", ["--gang-scheduler-name=volcano"], "scheduling.volcano.sh"),
        ("mine", ["--gang-scheduler-name=mine"], "scheduling.x-k8s.io"),
        ("None", [], None),
    ],
)
def test_the_gang_scheduler_of_the_embedded_cluster(gang: str, flags: list[str], group: str | None) -> None:
    found = [*install.embedded_objects(args=(), gang=gang)]
    assert found[-1]["spec"]["template"]["spec"]["containers"][0]["args"] == flags
    (role,) = (obj for obj in found if obj["kind"] == "ClusterRole")
    groups = {rule["apiGroups"][0] for rule in role["rules"] if "podgroups" in rule["resources"]}
    assert groups == ({group} if group else set())


@pytest.mark.parametrize("name", ["volcano", "scheduler-plugins"])
def test_a_component_turns_gang_scheduling_on_with_what_it_needs(name: str) -> None:
    component_files = manifests.DIRECTORY / "components" / f"gang-{name}"
    (component,) = yaml.safe_load_all((component_files / "kustomization.yaml").read_text())
    (operation,) = yaml.safe_load(component["patches"][0]["patch"])
    flags = parse([operation["value"]], {})
    role, binding = yaml.safe_load_all((component_files / "roles.yaml").read_text())
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (resource,) = needed(flags.jobs)
    assert {(r["apiGroups"][0], r["resources"][0]) for r in role["rules"]} == {
        (resource.group, resource.plural),
        ("scheduling.k8s.io", "priorityclasses"),
    }
    assert (
        operation["path"].endswith("/args/-")
        and "args: []" in (manifests.DIRECTORY / "base/deployment.yaml").read_text()
    )


def test_the_operator_may_hold_its_lease() -> None:
    rules = objects.election_role()["rules"]
    verbs = {verb for rule in rules if rule["resources"] == ["leases"] for verb in rule["verbs"]}
    assert verbs == {"create", "get", "update"}
    assert objects.election_role_binding()["roleRef"]["name"] == objects.election_role()["metadata"]["name"]
