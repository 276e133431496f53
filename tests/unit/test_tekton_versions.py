"""Tekton's objects of v1beta1 as v1, and back."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.tekton.versions import CONVERSIONS, AsV1Beta1

BOTH = AsV1Beta1()
CPU = {"limits": {"cpu": "1"}}
OLD_TASK = {
    "steps": [{"name": "a", "resources": CPU}],
    "sidecars": [{"name": "s", "resources": CPU}],
    "stepTemplate": {"resources": CPU},
}
NEW_TASK = {
    "steps": [{"name": "a", "computeResources": CPU}],
    "sidecars": [{"name": "s", "computeResources": CPU}],
    "stepTemplate": {"computeResources": CPU},
}
CUSTOM = {
    "apiVersion": "trainshed.dev/v1alpha1",
    "kind": "DistributedStep",
    "spec": {"steps": [{"resources": CPU}]},
}
OLD_PIPELINE = {
    "tasks": [{"name": "t", "taskSpec": OLD_TASK}],
    "finally": [{"name": "c", "taskSpec": CUSTOM}],
}
NEW_PIPELINE = {
    "tasks": [{"name": "t", "taskSpec": NEW_TASK}],
    "finally": [{"name": "c", "taskSpec": CUSTOM}],
}
OLD_OVERRIDES = {"stepOverrides": [{"name": "a", "resources": CPU}], "sidecarOverrides": []}
NEW_OVERRIDES = {"stepSpecs": [{"name": "a", "computeResources": CPU}], "sidecarSpecs": []}
BUNDLE = {
    "resolver": "bundles",
    "params": [
        {"name": "bundle", "value": "reg/b"},
        {"name": "name", "value": "t"},
        {"name": "kind", "value": "Task"},
    ],
}


def both_ways(kind: str, old: Any, new: Any) -> Any:
    return pytest.param(
        {"apiVersion": "tekton.dev/v1beta1", "kind": kind, **old},
        {"apiVersion": "tekton.dev/v1", "kind": kind, **new},
        id=kind,
    )


CASES = [
    both_ways("Task", {"spec": OLD_TASK}, {"spec": NEW_TASK}),
    both_ways("Pipeline", {"spec": OLD_PIPELINE}, {"spec": NEW_PIPELINE}),
    both_ways(
        "TaskRun",
        {
            "spec": {"serviceAccountName": "me", "taskSpec": OLD_TASK, **OLD_OVERRIDES},
            "status": {"taskResults": [1], "taskSpec": OLD_TASK, "retriesStatus": [{"taskResults": [2]}]},
        },
        {
            "spec": {"serviceAccountName": "me", "taskSpec": NEW_TASK, **NEW_OVERRIDES},
            "status": {"results": [1], "taskSpec": NEW_TASK, "retriesStatus": [{"results": [2]}]},
        },
    ),
    both_ways(
        "PipelineRun",
        {
            "spec": {
                "serviceAccountName": "me",
                "podTemplate": {"nodeSelector": {"a": "b"}},
                "timeouts": {"pipeline": "1h"},
                "pipelineSpec": OLD_PIPELINE,
                "taskRunSpecs": [
                    {
                        "pipelineTaskName": "t",
                        "taskServiceAccountName": "x",
                        "taskPodTemplate": {},
                        **OLD_OVERRIDES,
                    }
                ],
            },
            "status": {"pipelineResults": [1], "pipelineSpec": OLD_PIPELINE},
        },
        {
            "spec": {
                "taskRunTemplate": {"serviceAccountName": "me", "podTemplate": {"nodeSelector": {"a": "b"}}},
                "timeouts": {"pipeline": "1h"},
                "pipelineSpec": NEW_PIPELINE,
                "taskRunSpecs": [
                    {"pipelineTaskName": "t", "serviceAccountName": "x", "podTemplate": {}, **NEW_OVERRIDES}
                ],
            },
            "status": {"results": [1], "pipelineSpec": NEW_PIPELINE},
        },
    ),
]


@pytest.mark.parametrize(("old", "new"), CASES)
def test_fields_have_the_names_of_their_version(old: Object, new: Object) -> None:
    kept = copy_tree(old), copy_tree(new)
    assert BOTH.to_storage(old) == new
    assert BOTH.from_storage(new) == old
    assert (old, new) == kept, "neither way changes its argument"


def test_what_has_no_way_back() -> None:
    """The older spelling of the limit of time, and bundles, whose place resolvers took."""
    task = {"name": "t", "taskRef": {"name": "t", "bundle": "reg/b"}}
    old = {"kind": "PipelineRun", "spec": {"timeout": "1h", "pipelineSpec": {"tasks": [task]}}}
    made = BOTH.to_storage(old)
    assert made["spec"]["timeouts"] == {"pipeline": "1h"}
    assert made["spec"]["pipelineSpec"]["tasks"][0]["taskRef"] == BUNDLE
    run = BOTH.to_storage({"kind": "TaskRun", "spec": {"taskRef": {"name": "t", "bundle": "reg/b"}}})
    assert run["spec"]["taskRef"] == BUNDLE


@pytest.mark.parametrize("value", [None, 3, [], [3], "x", {"steps": 3, "tasks": {}, "taskSpec": 3}])
@pytest.mark.parametrize("kind", ["Task", "TaskRun", "Pipeline", "PipelineRun"])
def test_what_is_of_another_type_stays(kind: str, value: Any) -> None:
    """Schemas accept any field; what is wrong is for the run's condition to say."""
    old = {"kind": kind, "spec": value, "status": value}
    assert BOTH.to_storage(old)["spec"] == value
    assert BOTH.from_storage(old)["spec"] == value


def test_every_kind_of_both_versions_is_translated() -> None:
    assert sorted(plural for _, _, plural in CONVERSIONS) == [
        "pipelineruns",
        "pipelines",
        "taskruns",
        "tasks",
    ]
