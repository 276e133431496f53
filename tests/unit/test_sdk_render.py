"""What the operator would create, without a cluster."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.launcher import Gang, make_launchjob, registered
from tests.unit.jobs_builders import make_job
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.sdk.errors import UserError
from trainshed.sdk.render import render, render_all

GOLDEN = Path(__file__).parent.parent / "golden"
REFUSED = GOLDEN / "xgboost-no-master.input.yaml"
CASES = sorted(
    path for path in GOLDEN.glob("*.input.yaml") if "---" not in path.read_text() and path != REFUSED
)
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def typed(job: Object) -> Object:
    """Return the job as a manifest has it: no uid, no namespace."""
    out = copy.deepcopy(job)
    for field in ("uid", "namespace"):
        out["metadata"].pop(field, None)
    return out


def names(objects: tuple[Object, ...]) -> list[str]:
    return [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects]


def identity(obj: Any) -> Any:
    """Return an object without what a server adds to a stored job, or gives it."""
    out = copy.deepcopy(obj)
    for owner in out["metadata"]["ownerReferences"]:
        owner.pop("uid", None)
    for container in out.get("spec", {}).get("containers", ()):
        for port in container.get("ports", ()):
            port.pop("protocol", None)
    return out


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_it_is_what_the_operator_creates(path: Path) -> None:
    """The golden files hold what the decision of the operator is about the same manifests."""
    (job,) = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    output = path.with_name(path.name.replace(".input.", ".output."))
    documents = yaml.load_all(output.read_text(), yaml.CSafeLoader)
    expected = [identity(document) for document in documents if "kind" in document]
    assert [identity(obj) for obj in render(job).objects] == expected


def test_a_job_that_cannot_run_is_refused_as_the_webhook_does() -> None:
    (job,) = yaml.load_all(REFUSED.read_text(), yaml.CSafeLoader)
    with pytest.raises(ApiError, match=r"spec\.xgbReplicaSpecs\[Master\]: Required value: must be present"):
        render(job)


def test_what_waits_for_another_object_is_there_too() -> None:
    """A gang that is not placed holds the pods; a ConfigMap comes first."""
    with registered(Gang()):
        assert names(render(typed(make_launchjob())).objects) == [
            "ConfigMap job-config",
            "ServiceAccount job-launcher",
            "Role job-launcher",
            "PodGroup job",
            "Pod job-launcher",
            "Pod job-worker-0",
            "Pod job-worker-1",
        ]


def test_owners_are_named_without_the_uid_that_no_server_gave() -> None:
    (pod, _) = render(typed(make_job(master=1))).objects
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "name": "train",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.parametrize(
    ("own", "chosen", "expected"), [(None, "", "default"), (None, "team", "team"), ("mine", "team", "mine")]
)
def test_namespace(own: str | None, chosen: str, expected: str) -> None:
    job = typed(make_job(master=1))
    if own is not None:
        job["metadata"]["namespace"] = own
    (rendered,) = render_all([job], namespace=chosen)
    assert {obj["metadata"]["namespace"] for obj in rendered.objects} == {expected}


def test_the_manifest_is_not_changed_and_its_status_counts_for_nothing() -> None:
    job = make_job(master=1, status={"conditions": [{"type": "Failed", "status": "True"}]})
    before = copy.deepcopy(job)
    assert names(render(job).objects) == ["Pod train-master-0", "Service train-master-0"]
    assert job == before


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (make_job(master=1, suspend=True), "it is suspended"),
        (
            make_job(master=1, managedBy="kueue.x-k8s.io/multikueue"),
            "it is managed by kueue.x-k8s.io/multikueue",
        ),
    ],
)
def test_where_nothing_is_created_it_says_why(job: Object, why: str) -> None:
    rendered = render(job)
    assert (rendered.objects, rendered.why_nothing) == ((), why)


def test_several_jobs_and_what_is_no_job() -> None:
    jobs = [make_job(master=1, name="a"), CONFIGMAP, make_job(workers=1, name="b")]
    assert [job.name for job in render_all(jobs)] == ["a", "b"]


def test_manifests_without_a_job_are_refused() -> None:
    with pytest.raises(UserError, match="there are no jobs"):
        render_all([CONFIGMAP])
    with pytest.raises(UserError, match="nothing acts on ChainerJob of"):
        render_all([{**make_job(master=1), "kind": "ChainerJob"}])
    with pytest.raises(UserError, match=r"nothing acts on PyTorchJob of kubeflow\.org/v2"):
        render_all([{**make_job(master=1), "apiVersion": "kubeflow.org/v2"}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nprocPerNode": 2}, "spec.nprocPerNode"),
        ({"colour": "red"}, 'unknown field "spec.colour"'),
        ({"pytorchReplicaSpecs": None}, "spec.pytorchReplicaSpecs"),
        ({"runPolicy": {"managedBy": "x"}}, "spec.runPolicy.managedBy: Unsupported value"),
        ({"elasticPolicy": {}}, "must be configured if elastic policy is used"),
    ],
)
def test_a_refusal_names_the_field(change: Object, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        render(make_job(master=1, spec=change))
    assert message in caught.value.message


def test_warnings_are_kept() -> None:
    rendered = render(make_job(workers=1, spec={"elasticPolicy": {"nProcPerNode": 2}}))
    assert rendered.warnings == (
        "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead",
    )


def changes(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every node below the top."""
    for key, child in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(child, dict | list):
            yield from changes(child, (*path, key))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_a_manifest_with_one_thing_wrong_ends_in_objects_or_in_words(path: Path) -> None:
    (job,) = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    right = copy.deepcopy(job)
    for where in [where for where in changes(job) if where[0] == "spec"]:
        *above, last = where
        parent = functools.reduce(operator.getitem, above, job)
        kept = parent[last]
        for parent[last] in (None, 7, "x", [None], {}):
            try:
                render(job)
            except (ApiError, UserError) as error:
                assert str(error)
        parent[last] = kept
    assert job == right, "who renders it does not change it"
