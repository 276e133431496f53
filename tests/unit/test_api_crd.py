"""The CustomResourceDefinition: structural throughout, complete, and the same every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from trainshed.api.crd import crd
from trainshed.api.podschema import core_schema
from trainshed.api.registry import KINDS
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.kube.meta.objects import Object

MAX_ANNOTATION_BYTES = 262144
"""What `kubectl apply` may store beside an object it applies."""


def walk(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield every schema with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from walk(part, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], path + "[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], path + "{}")


def schema_of(kind: str) -> Object:
    (version,) = crd(KINDS[kind])["spec"]["versions"]
    root: Object = version["schema"]["openAPIV3Schema"]
    return root


def at(kind: str, path: str) -> Object:
    return dict(walk(schema_of(kind)))[path]


KEYWORDS = {
    "type",
    "description",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "format",
    "default",
    "pattern",
    "anyOf",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(kind: str) -> None:
    """The rules of an API server: every part typed, no references, lists with items, no null."""
    for path, schema in walk(schema_of(kind)):
        assert set(schema) <= KEYWORDS, path
        if schema.get("x-kubernetes-int-or-string"):
            assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}] and "type" not in schema, path
            continue
        assert schema["type"] in ("object", "array", "string", "integer", "boolean", "number"), path
        assert not {"properties", "additionalProperties"} <= set(schema), path
        assert ("items" in schema) == (schema["type"] == "array"), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), path
    assert at(kind, ".metadata") == {"type": "object"}, "an API server refuses everything else"


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_list_maps_always_have_a_value(kind: str) -> None:
    for path, schema in walk(schema_of(kind)):
        if schema.get("x-kubernetes-list-type") == "map":
            item = schema["items"]
            for key in schema["x-kubernetes-list-map-keys"]:
                assert key in item.get("required", ()) or "default" in item["properties"][key], (
                    f"{path} {key}"
                )
        if schema.get("x-kubernetes-list-type") == "set":
            assert schema["items"]["type"] != "object", path


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_every_time_and_small_enough_for_apply(kind: str) -> None:
    first = json.dumps(crd(KINDS[kind]))
    assert json.dumps(crd(KINDS[kind])) == first
    assert len(first) < MAX_ANNOTATION_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_callers_may_change_what_they_get(kind: str) -> None:
    before = json.dumps(crd(KINDS[kind]))
    for _, schema in walk(schema_of(kind)):
        schema["description"] = "changed"
    assert json.dumps(crd(KINDS[kind])) == before


def test_names_columns_and_subresources() -> None:
    made = crd(PYTORCHJOB)
    assert made["metadata"] == {"name": "pytorchjobs.kubeflow.org"}
    assert made["spec"]["names"] == {
        "kind": "PyTorchJob",
        "listKind": "PyTorchJobList",
        "plural": "pytorchjobs",
        "singular": "pytorchjob",
    }
    (version,) = made["spec"]["versions"]
    assert [(c["name"], c["type"], c["jsonPath"]) for c in version["additionalPrinterColumns"]] == [
        ("State", "string", ".status.conditions[-1:].type"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.pytorchReplicaSpecs.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        },
    }


TEMPLATE = ".spec.pytorchReplicaSpecs{}.template"
QUANTITY = ".spec.runPolicy.schedulingPolicy.minResources{}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec", {"required": ["pytorchReplicaSpecs"]}),
        (".spec.runPolicy", {"type": "object", "default": {}}),
        (".spec.runPolicy.suspend", {"type": "boolean", "default": False}),
        (".spec.runPolicy.activeDeadlineSeconds", {"type": "integer", "format": "int64"}),
        (".spec.runPolicy.backoffLimit", {"type": "integer", "format": "int32"}),
        (TEMPLATE + ".spec", {"required": ["containers"]}),
        (
            TEMPLATE + ".spec.containers",
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
        (TEMPLATE + ".spec.containers[]", {"required": ["name"]}),
        (
            TEMPLATE + ".spec.containers[].ports",
            {"x-kubernetes-list-map-keys": ["containerPort", "protocol"]},
        ),
        (TEMPLATE + ".spec.containers[].ports[].protocol", {"type": "string", "default": "TCP"}),
        (TEMPLATE + ".spec.containers[].resources.limits{}", {"x-kubernetes-int-or-string": True}),
        (TEMPLATE + ".spec.containers[].livenessProbe.httpGet.port", {"x-kubernetes-int-or-string": True}),
        (TEMPLATE + ".spec.containers[].envFrom[].secretRef.name", {"default": ""}),
        (TEMPLATE + ".spec.containers[].livenessProbe.grpc.service", {"default": ""}),
        (TEMPLATE + ".spec.volumes[].rbd.pool", {"default": "rbd"}),
        (TEMPLATE + ".spec.volumes[].azureDisk.readOnly", {"default": False}),
        (".status.conditions[]", {"required": ["status", "type"]}),
        (".spec.elasticPolicy.metrics[]", {"required": ["type"]}),
        (".spec.elasticPolicy.metrics[].resource.target.averageValue", {"x-kubernetes-int-or-string": True}),
    ],
)
def test_what_users_rely_on(path: str, expected: dict[str, Any]) -> None:
    assert at("PyTorchJob", path).items() >= expected.items()


def test_only_quantities_have_a_pattern() -> None:
    assert "pattern" in at("PyTorchJob", QUANTITY)
    assert "pattern" not in at("PyTorchJob", TEMPLATE + ".spec.containers[].livenessProbe.httpGet.port")


@pytest.mark.parametrize("path", [TEMPLATE, TEMPLATE + ".spec.volumes[].ephemeral.volumeClaimTemplate"])
def test_embedded_metadata_keeps_what_a_template_may_carry(path: str) -> None:
    metadata = at("PyTorchJob", path + ".metadata")
    assert sorted(metadata["properties"]) == ["annotations", "finalizers", "labels", "name", "namespace"]


def test_the_queue_cannot_change() -> None:
    (rule,) = at("PyTorchJob", ".spec.runPolicy.schedulingPolicy.queue")["x-kubernetes-validations"]
    assert rule == {
        "rule": "self == oldSelf",
        "message": "spec.runPolicy.schedulingPolicy.queue is immutable",
    }


def test_our_fields_are_documented_and_core_ones_are_not() -> None:
    undocumented = [
        path
        for path, schema in walk(schema_of("PyTorchJob"))
        if path and path[-1] not in "]}" and not schema.get("description")
    ]
    inside = (
        ".metadata",
        TEMPLATE + ".",
        ".spec.elasticPolicy.metrics[].",
        ".status.replicaStatuses{}.labelSelector.",
    )
    assert [path for path in undocumented if not path.startswith(inside)] == []
    assert not any(s.get("description") for p, s in walk(schema_of("PyTorchJob")) if p.startswith(inside))


def test_a_core_type_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        core_schema("core.v1.Nothing")
    with pytest.raises(KeyError):
        core_schema("else.v1.Pod")
