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
        ({"items": {"maxLength": "5"}}, f"string {_WANTED} JSONSchemaProps.{_AT}.items.maxLength of type int64"),
        ({"allOf": [{"nullable": 1}]}, f"number {_WANTED} JSONSchemaProps.{_AT}.allOf.nullable of type bool"),
        ({"required": "a"}, f"string {_WANTED} JSONSchemaProps.{_AT}.required of type []string"),
    ],
)  # fmt: skip
def test_a_keyword_of_another_type_is_refused(schema: Object, text: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(schema)
    assert caught.value.code == 400
    assert caught.value.message.endswith(f"json: cannot unmarshal {text}")


@pytest.mark.parametrize(
    "value", [{"type": None}, {"default": False, "enum": [1, "a"]}, {"minimum": 1, "maximum": 1.5}]
)
def test_null_and_values_of_any_type_are_taken(value: Any) -> None:
    assert decode(value)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == value
