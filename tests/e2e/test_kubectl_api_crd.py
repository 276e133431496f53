"""Custom resources with every kubectl: rows 102, 125 and 135-143 of the conformance list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Api, Kubectl

pytestmark = pytest.mark.timeout(120)
CRD = Path(__file__).with_name("manifests") / "crd.yaml"


def widget(name: str = "w1", **spec: Any) -> str:
    body = {"apiVersion": "kapi.test/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
    return json.dumps(body)


@pytest.fixture
def widgets(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A kubectl with the definition applied; it goes away afterwards."""
    kubectl("apply", "-f", str(CRD)).ok()
    yield kubectl
    kubectl("delete", "crd", "widgets.kapi.test", "--ignore-not-found").ok()


def test_definition_and_resource_in_one_go(kubectl: Kubectl, tmp_path: Path) -> None:
    both = tmp_path / "both.yaml"
    both.write_text(CRD.read_text() + "\n---\n" + widget(size=5))
    first = kubectl("apply", "-f", str(both))
    if first.rc:  # a kubectl that read discovery before it sent the definition
        kubectl("apply", "-f", str(both)).ok()
    kubectl("wait", "--for=condition=Established", "crd/widgets.kapi.test", "--timeout=5s").ok()
    assert "widgets" in kubectl("api-resources", "--api-group=kapi.test").ok()
    assert kubectl("get", "wd").ok().split()[:4] == ["NAME", "SIZE", "PHASE", "AGE"]
    assert "COLOR" in kubectl("get", "wd", "-o", "wide").ok()
    assert "widget.kapi.test/w1" in kubectl("get", "all").ok()
    kubectl("describe", "wd", "w1").ok()
    assert "-required-" in kubectl("explain", "wd.spec").ok()
    kubectl("delete", "crd", "widgets.kapi.test").ok()
    fresh = ("--cache-dir", str(tmp_path / "cache"))
    kubectl(*fresh, "get", "wd").failed("the server doesn't have a resource type")


def test_values_are_checked_and_defaulted(widgets: Kubectl) -> None:
    create = ("create", "-f", "-")
    widgets(*create, stdin=widget(size=500)).failed(
        "Invalid", "spec.size in body should be less than or equal to 100"
    )
    widgets(*create, stdin=widget(size=5, color="blue")).failed(
        'Unsupported value: "blue": supported values: "red", "green"'
    )
    widgets(*create, stdin=widget(size=60)).failed("size must not exceed max")
    widgets(*create, stdin=widget(size=5, note="far too long")).failed(
        "Too long: may not be more than 8 bytes"
    )
    missing = json.dumps({"apiVersion": "kapi.test/v1", "kind": "Widget", "metadata": {"name": "w"}})
    widgets(*create, stdin=missing).failed("spec: Required value")
    widgets(*create, stdin=widget(size=5, foo=1)).failed('strict decoding error: unknown field "spec.foo"')
    warned = widgets(*create, "--validate=warn", stdin=widget(size=5, foo=1))
    assert 'unknown field "spec.foo"' in warned.err
    warned.ok()
    held = widgets.get("wd", "w1")
    assert held["spec"] == {"size": 5, "max": 50, "color": "red", "replicas": 1}


def test_status_scale_and_generation(widgets: Kubectl, api: Api) -> None:
    widgets("create", "-f", "-", stdin=widget(size=5)).ok()
    path = f"/apis/kapi.test/v1/namespaces/{widgets.namespace}/widgets/w1"
    merge = "application/merge-patch+json"
    body = {"spec": {"size": 9}, "status": {"phase": "Good"}}
    held = api.json("PATCH", f"{path}/status", body, content_type=merge)
    assert (held["spec"]["size"], held["status"], held["metadata"]["generation"]) == (5, {"phase": "Good"}, 1)
    held = api.json("PATCH", path, {"spec": {"size": 6}, "status": {"phase": "Bad"}}, content_type=merge)
    assert (held["spec"]["size"], held["status"], held["metadata"]["generation"]) == (6, {"phase": "Good"}, 2)
    assert "scaled" in widgets("scale", "wd", "w1", "--replicas=2").ok()
    assert widgets.get("wd", "w1")["spec"]["replicas"] == 2
    assert api.json("GET", f"{path}/scale")["spec"] == {"replicas": 2}


def test_patches(widgets: Kubectl) -> None:
    widgets("create", "-f", "-", stdin=widget(size=5)).ok()
    refused = widgets("patch", "wd", "w1", "-p", '{"spec":{"size":6}}')
    assert refused.rc == 1
    assert "application/merge-patch+json" in refused.err
    widgets("patch", "wd", "w1", "--type=merge", "-p", '{"spec":{"size":6}}').ok()
    widgets("apply", "-f", "-", stdin=widget("w2", size=5)).ok()
    widgets("apply", "-f", "-", stdin=widget("w2", size=7)).ok()
    widgets("apply", "--server-side", "-f", "-", stdin=widget("w3", size=7)).ok()
    assert [w["spec"]["size"] for w in widgets.get("wd")["items"]] == [6, 7, 7]
    assert "widget.kapi.test/w1 condition" not in widgets("get", "wd").ok()


def test_big_definitions(kubectl: Kubectl, tmp_path: Path) -> None:
    """Client-side apply of a definition over 256 KiB must fail, server-side apply must work."""
    import yaml

    big = yaml.safe_load(CRD.read_text())
    spec = big["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for i in range(3000):
        spec[f"field{i}"] = {"type": "string", "description": "words " * 15}
    path = tmp_path / "big.json"
    path.write_text(json.dumps(big))
    kubectl("apply", "-f", str(path)).failed("metadata.annotations: Too long")
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", str(path)).ok()
    kubectl("delete", "crd", "widgets.kapi.test").ok()
