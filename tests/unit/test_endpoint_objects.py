"""Labels and annotations of Endpoints and slices, as recorded with kube-controller-manager 1.33."""

from __future__ import annotations

from typing import Any

from trainshed.cluster.controllers.endpoint_objects import endpoint_slices, endpoints, mirrored_slices


def service(**spec: Any) -> Any:
    metadata = {"name": "web", "namespace": "ns", "uid": "u", "labels": {"l": "x"}}
    return {"metadata": metadata, "spec": {"selector": {"app": "web"}, **spec}}


def test_labels_say_who_manages_them_and_whether_the_service_is_headless() -> None:
    managed = {"l": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert endpoints(service(), [])["metadata"]["labels"] == managed
    headless = service(clusterIP="None")
    assert endpoints(headless, [])["metadata"]["labels"] == {**managed, "service.kubernetes.io/headless": ""}
    (found,) = endpoint_slices(headless, [])
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    (found,) = endpoint_slices(service(clusterIP="10.96.0.7"), [])
    assert "service.kubernetes.io/headless" not in found["metadata"]["labels"]


def test_annotations_of_endpoints_are_mirrored_but_for_those_of_tools() -> None:
    written = {
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "e",
            "annotations": {
                "note": "x",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
            },
        },
        "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
    }
    (found,) = mirrored_slices(service(selector=None), written)
    assert found["metadata"]["annotations"] == {"note": "x"}
