"""kubectl's kustomize builds the committed manifests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from trainshed.operator import manifests

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
def test_components_turn_on_what_they_are_for(tmp_path: Path) -> None:
    assert KUBECTL is not None
    shutil.copytree(manifests.DIRECTORY, tmp_path / "m")
    (tmp_path / "m" / "mine").mkdir()
    (tmp_path / "m" / "mine" / "kustomization.yaml").write_text(
        "resources: [../overlays/standalone]\ncomponents: [../components/webhook, ../components/gang-volcano]\n"
    )
    built = subprocess.run(
        [KUBECTL, "kustomize", str(tmp_path / "m" / "mine")], capture_output=True, text=True, timeout=60
    )
    assert built.returncode == 0, built.stderr
    documents = list(yaml.safe_load_all(built.stdout))
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "--enable-webhook",
        "--gang-scheduler-name=volcano",
    ]
    assert any(d["kind"] == "ValidatingWebhookConfiguration" for d in documents)
