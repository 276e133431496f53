"""What `pods/resize` takes of what is sent, and which pods it never touches."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.builtin.parts.pod.resizing import resize_causes, resized
from trainshed.kube.meta.objects import Object


def pod(*containers: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}, "status": {}}


def container(cpu: str = "100m", **more: Any) -> Object:
    return {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


def test_of_what_is_sent_amounts_and_their_policy_count() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    sent = pod(container("200m", image="other", resizePolicy=policy), activeDeadlineSeconds=5)
    assert resized(pod(container()), sent)["spec"] == {"containers": [container("200m", resizePolicy=policy)]}


@pytest.mark.parametrize(
    ("sent", "field", "text"),
    [
        (pod(), "spec.containers", "containers may not be added or removed on resize"),
        (
            pod({**container(), "name": "other"}),
            "spec.containers[0].name",
            "containers may not be renamed or reordered on resize",
        ),
    ],
)
def test_other_containers_are_seen_and_refused(sent: Object, field: str, text: str) -> None:
    old = pod(container())
    found = [cause for cause in resize_causes(resized(old, sent), old) if cause.field == field]
    assert [cause.message for cause in found] == [f"Forbidden: {text}"]


@pytest.mark.parametrize(
    ("old", "text"),
    [
        (
            pod(container(), resources={"requests": {"cpu": "1"}}),
            "pods with pod-level resources cannot be resized",
        ),
        (pod(container(), os={"name": "windows"}), "windows pods cannot be resized"),
        (
            {**pod(container()), "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            "static pods cannot be resized",
        ),
    ],
)
def test_some_pods_are_never_resized(old: Object, text: str) -> None:
    (cause,) = resize_causes(old, old)
    assert (cause.field, cause.message) == ("<nil>", f"Forbidden: {text}")


def test_a_pod_that_runs_where_nobody_resizes_is_refused() -> None:
    running: Object = {"name": "main", "state": {"running": {}}}
    old = {**pod(container()), "status": {"containerStatuses": [running]}}
    (cause,) = resize_causes(pod(container("200m")), old)
    assert cause.message == "Forbidden: Pod running on node without support for resize"
    told = {**old, "status": {"containerStatuses": [{**running, "resources": {}}]}}
    assert list(resize_causes(pod(container("200m")), told)) == []
