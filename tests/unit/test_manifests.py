"""The committed manifests are what the code says, kustomize can build them, and permissions suffice."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trainshed.operator import install, manifests, objects


def test_committed_manifests_are_up_to_date() -> None:
    assert manifests.differences() == [], "run `python -m trainshed.operator.manifests`"


def test_embedded_objects_run_this_interpreter() -> None:
    found = install.embedded_objects()
    workloads = [o for o in found if o["kind"] in ("Deployment", "Pod", "Job", "StatefulSet", "DaemonSet")]
    assert [o["metadata"]["name"] for o in workloads] == ["training-operator"]
    deployment = workloads[0]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == [sys.executable, "-m", "trainshed.operator"]
    assert deployment["metadata"]["namespace"] == "kubeflow"
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "training-operator"
    assert deployment["spec"]["selector"]["matchLabels"] == {"control-plane": "kubeflow-training-operator"}
    found[-1]["spec"] = None
    assert install.embedded_objects()[-1]["spec"] is not None, "the caller owns its copy"


def test_on_kubernetes_and_embedded_only_the_command_and_the_first_probes_differ() -> None:
    embedded = install.embedded_objects(python="python", args=())
    here, there = (
        d["spec"]["template"]["spec"]["containers"][0] for d in (embedded[-1], objects.deployment())
    )
    assert here["startupProbe"]["httpGet"] == there["readinessProbe"]["httpGet"]
    assert here["startupProbe"]["periodSeconds"] == 1 and "initialDelaySeconds" not in here["readinessProbe"]
    del here["startupProbe"]
    here["readinessProbe"]["initialDelaySeconds"] = there["readinessProbe"]["initialDelaySeconds"]
    assert embedded[-1] == objects.deployment()
    assert [o for o in embedded[:-1] if o["kind"] == "ClusterRole"] == [objects.cluster_role()]


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl to run kustomize")
@pytest.mark.parametrize("overlay", [".", "overlays/standalone", "overlays/kubeflow"])
def test_kustomize_builds(overlay: str) -> None:
    assert KUBECTL is not None
    path = manifests.DIRECTORY / overlay
    built = subprocess.run([KUBECTL, "kustomize", str(path)], capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(built.stdout)]
    assert kinds.count("Deployment") == 1
    assert "CustomResourceDefinition" in kinds
    assert ("Namespace" in kinds) == (overlay != "overlays/kubeflow")


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl to run kustomize")
def test_webhook_component_turns_the_webhook_on(tmp_path: Path) -> None:
    assert KUBECTL is not None
    shutil.copytree(manifests.DIRECTORY, tmp_path / "m")
    (tmp_path / "m" / "mine").mkdir()
    (tmp_path / "m" / "mine" / "kustomization.yaml").write_text(
        "resources: [../overlays/standalone]\ncomponents: [../components/webhook]\n"
    )
    built = subprocess.run(
        [KUBECTL, "kustomize", str(tmp_path / "m" / "mine")], capture_output=True, text=True, timeout=60
    )
    assert built.returncode == 0, built.stderr
    documents = list(yaml.safe_load_all(built.stdout))
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--enable-webhook"]
    assert any(d["kind"] == "ValidatingWebhookConfiguration" for d in documents)
