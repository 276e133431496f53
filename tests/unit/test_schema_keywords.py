"""Keywords of the schemas in definitions have types: a value of another is told as Kubernetes' decoder tells it."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS
from trainshed.kube.schema.decode import cannot_handle, conform
from trainshed.kube.schema.nodes import builtin

_WANTED = "into Go struct field"
_AT = "spec.versions.schema.openAPIV3Schema"


def definition(schema: Object) -> Object:
    return {
        "metadata": {"name": "a"},
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }


def decode(schema: Object) -> Object:
    node = builtin((CRDS.group, CRDS.version, CRDS.kind))
    what = cannot_handle(CRDS.kind, CRDS.version)
    return conform(definition(schema), node, mode="strict", what=what, builtin=True)[0]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            {"properties": {"spec": {"x-kubernetes-validations": [{"rule": "true", "message": False}]}}},
            f"bool {_WANTED} ValidationRule.{_AT}.properties.x-kubernetes-validations.message of type string",
        ),
        ({"type": False}, f"bool {_WANTED} JSONSchemaProps.{_AT}.type of type string"),
        ({"items": {"maxLength": "5"}}, f"string {_WANTED} JSONSchemaProps.{_AT}.items of type int64"),
        ({"maxLength": 1.5}, f"number 1.5 {_WANTED} JSONSchemaProps.{_AT}.maxLength of type int64"),
        ({"properties": []}, f"array {_WANTED} JSONSchemaProps.{_AT}.properties of type map[string]v1.JSONSchemaProps"),
        ({"properties": {"a": 1}}, f"number {_WANTED} JSONSchemaProps.{_AT}.properties of type v1.JSONSchemaProps"),
        ({"allOf": {}}, f"object {_WANTED} JSONSchemaProps.{_AT}.allOf of type []v1.JSONSchemaProps"),
        ({"enum": "a"}, f"string {_WANTED} JSONSchemaProps.{_AT}.enum of type []v1.JSON"),
        ({"required": [1]}, f"number {_WANTED} JSONSchemaProps.{_AT}.required of type string"),
        ({"externalDocs": {"url": 1}}, f"number {_WANTED} ExternalDocumentation.{_AT}.externalDocs.url of type string"),
        ({"dependencies": {"a": [1]}}, f"number {_WANTED} JSONSchemaProps.{_AT}.dependencies of type string"),
        (
            {"x-kubernetes-validations": {}},
            f"object {_WANTED} JSONSchemaProps.{_AT}.x-kubernetes-validations of type v1.ValidationRules",
        ),
        ({"allOf": [{"nullable": 1}]}, f"number {_WANTED} JSONSchemaProps.{_AT}.allOf.nullable of type bool"),
        ({"required": "a"}, f"string {_WANTED} JSONSchemaProps.{_AT}.required of type []string"),
    ],
)  # fmt: skip
def test_a_keyword_of_another_type_is_refused(schema: Object, text: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(schema)
    assert caught.value.code == 400
    assert caught.value.message.endswith(f"json: cannot unmarshal {text}")


def test_what_may_be_a_schema_or_something_else() -> None:
    with pytest.raises(ApiError, match="boolean or JSON schema expected"):
        decode({"additionalProperties": "x"})
    assert stored({"additionalProperties": False, "dependencies": {"a": ["b"]}}) == {
        "additionalProperties": False,
        "dependencies": {"a": ["b"]},
    }


def stored(schema: Object) -> Any:
    return decode(schema)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize(
    "value", [{"default": False, "enum": [1, "a", None]}, {"minimum": 0, "maximum": 1.5}]
)
def test_values_of_any_type_are_taken(value: Any) -> None:
    assert stored(value) == value


def test_what_is_empty_is_left_out_as_go_does() -> None:
    given = {"type": None, "nullable": False, "required": [], "properties": {}, "title": "", "items": "x"}
    kept = {"x-kubernetes-preserve-unknown-fields": False, "x-kubernetes-list-type": "", "maxLength": 0}
    assert stored({**given, **kept, "allOf": [None, {"enum": []}]}) == {**kept, "allOf": [{}, {}]}
