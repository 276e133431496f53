"""The scale subresource of built-in workloads and of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.builtin.registry import find
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resourceinfo import ScalePaths
from trainshed.kube.meta.resources import DEPLOYMENTS, Resource, core
from trainshed.kube.wire.scale import from_scale, to_scale

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"b": "2", "a": "1"}}},
    "status": {"replicas": 1},
}


def paths_of(resource: Resource) -> ScalePaths:
    """Return where a built-in kind keeps its counts."""
    kind = find(resource)
    assert kind is not None and kind.info.scale is not None
    return kind.info.scale


def test_scale_of_a_deployment() -> None:
    assert to_scale(DEPLOYMENT, paths_of(DEPLOYMENTS)) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "3"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=1,b=2"},
    }


def test_scale_of_a_replication_controller_has_a_map_selector() -> None:
    controller = {"metadata": {}, "spec": {"replicas": 0, "selector": {"x": "y"}}}
    scale = to_scale(controller, paths_of(core("replicationcontrollers", "ReplicationController")))
    assert scale["status"] == {"replicas": 0, "selector": "x=y"}


def test_scale_of_a_custom_resource() -> None:
    paths = ScalePaths(".spec.worker.count", ".status.count", ".status.selector")
    obj = {"metadata": {"name": "w"}, "spec": {"worker": {"count": 4}}, "status": {"selector": "a=b"}}
    assert to_scale(obj, paths)["spec"] == {"replicas": 4}
    assert to_scale(obj, paths)["status"] == {"replicas": 0, "selector": "a=b"}
    assert from_scale(obj, {"spec": {"replicas": 5}}, paths)["spec"] == {"worker": {"count": 5}}
    assert obj["spec"] == {"worker": {"count": 4}}
    assert from_scale({"metadata": {}}, {"spec": {"replicas": 5}}, paths)["spec"] == {"worker": {"count": 5}}


def test_missing_replicas_is_upstreams_500() -> None:
    with pytest.raises(ApiError) as caught:
        to_scale({"metadata": {}, "spec": {}}, ScalePaths())
    assert caught.value.code == 500
    assert caught.value.message.endswith('the spec replicas field ".spec.replicas" does not exist')


@pytest.mark.parametrize(("replicas", "code"), [(-1, 422), ("3", 400), (True, 400), (1.5, 400)])
def test_replicas_that_are_refused(replicas: Any, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        from_scale(DEPLOYMENT, {"spec": {"replicas": replicas}}, ScalePaths())
    assert caught.value.code == code


def test_a_scale_without_replicas_asks_for_none() -> None:
    assert from_scale(DEPLOYMENT, {"spec": {}}, ScalePaths())["spec"]["replicas"] == 0
