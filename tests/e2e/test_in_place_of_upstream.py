"""The steps of the docs by which this operator takes the place of upstream's, and back: no job and no CRD is lost.

The API server is the embedded one, without nodes: what runs is looked at in tests/cluster and tests/unit.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import kubectl_path
from tests.e2e.conftest import Kubectl
from trainshed.operator import manifests

PAGE = Path(__file__).parents[2] / "docs/how-to/run-on-a-real-cluster.md"
UPSTREAM = Path(__file__).with_name("manifests") / "upstream-operator.yaml"
WEBHOOKS = "validatingwebhookconfiguration"
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Worker": {"template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
        }
    },
}


@pytest.fixture
def kubectl(api_home: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """A kubectl on an API server on which upstream's operator is installed and has a job."""
    kubectl = Kubectl(kubectl_path(), api_home / "kubeconfig", tmp_path / "cache", "default")
    if kubectl("apply", "--server-side", "-f", str(UPSTREAM), namespace=False).rc:
        kubectl("apply", "--server-side", "-f", str(UPSTREAM), namespace=False).ok()
    kubectl("wait", "--for=condition=Established", "crd/pytorchjobs.kubeflow.org", namespace=False).ok()
    # Nobody answers the webhooks of an operator that does not run.
    kubectl("delete", WEBHOOKS, "--all", namespace=False).ok()
    kubectl("create", "-f", "-", stdin=json.dumps(JOB)).ok()
    kubectl("apply", "--server-side", "-f", str(UPSTREAM), namespace=False).ok()
    yield kubectl
    kubectl("delete", "-k", str(manifests.DIRECTORY), "--ignore-not-found", "--wait=false", namespace=False)
    kubectl("delete", "-f", str(UPSTREAM), "--ignore-not-found", "--wait=false", namespace=False)


def steps(heading: str) -> list[list[str]]:
    """Return the arguments of each kubectl in the section's console blocks."""
    section = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    commands = re.findall(r"^\$ kubectl (.+)$", section, re.MULTILINE)
    assert commands, f"no commands under {heading!r}"
    places = {".": str(manifests.DIRECTORY), "upstream.yaml": str(UPSTREAM)}
    return [[places.get(word, word) for word in shlex.split(command)] for command in commands]


def world(kubectl: Kubectl) -> dict[str, Any]:
    """Return which operator runs, how many webhooks there are, and the uids of what must stay."""
    deployment = kubectl.get("deployment", "training-operator", "-n", "kubeflow")
    found = kubectl("get", WEBHOOKS, "-o", "json", namespace=False)
    configurations = json.loads(found.ok())["items"]
    return {
        "image": deployment["spec"]["template"]["spec"]["containers"][0]["image"].partition(":")[0],
        "webhooks": sum(len(each["webhooks"]) for each in configurations),
        "crd": kubectl.get("crd", "pytorchjobs.kubeflow.org")["metadata"]["uid"],
        "job": kubectl.get("pytorchjob", "kept")["metadata"]["uid"],
    }


def test_there_and_back(kubectl: Kubectl) -> None:
    before = world(kubectl)
    assert (before["image"], before["webhooks"]) == ("kubeflow/training-operator", 5)
    for arguments in steps("In place of upstream's operator"):
        kubectl(*arguments, namespace=False).ok()
    ours = world(kubectl)
    assert ours == {**before, "image": "trainshed/training-operator", "webhooks": 0}
    assert kubectl.get("crd", "pytorchjobs.kubeflow.org")["spec"]["versions"][0].get("schema"), (
        "the CRD is ours"
    )
    kubectl("create", "-f", "-", stdin=json.dumps({**JOB, "metadata": {"name": "new"}})).ok()
    for arguments in steps("Back to upstream's operator"):
        kubectl(*arguments, namespace=False).ok()
    assert world(kubectl) == before


def test_applied_over_it_upstreams_webhooks_stay(kubectl: Kubectl) -> None:
    """Why there are steps: these webhooks would refuse every job, since nobody serves their paths."""
    kubectl(*steps("In place of upstream's operator")[-1], namespace=False).ok()
    assert world(kubectl)["webhooks"] == 5


def test_no_step_deletes_a_definition() -> None:
    for heading in ("In place of upstream's operator", "Back to upstream's operator"):
        for arguments in steps(heading):
            if arguments[0] == "delete":
                named = {each for each in arguments if not each.startswith("-")}
                assert named & {"deployment", WEBHOOKS} and not named & {"crd", "namespace"}, arguments
                assert not {"-k", "-f"} & set(arguments), "a whole directory holds the CRDs"
