from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.patch.typed import refusal
from trainshed.kube.schema.nodes import builtin, from_crd

POD = builtin(("", "v1", "Pod"))
CUSTOM = from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "on": {"type": "boolean"},
                    "keyed": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id"],
                        "items": {"type": "object", "properties": {"id": {"type": "string"}}},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)


def said(spec: Any, schema: Any = CUSTOM) -> str:
    config = {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w"}, "spec": spec}
    error = refusal(config, schema)
    return "" if error is None else error.message


def test_what_fits() -> None:
    assert said({"tags": ["a"], "on": True, "keyed": [{"id": "a"}, {"id": "b"}], "free": {"x": [1]}}) == ""
    assert said({"tags": None, "on": None}) == ""
    assert said({"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}, POD) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"more": 1}, ".spec.more: field not declared in schema"),
        ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
        ({"tags": "a"}, ".spec.tags: expected list, got &{a}"),
        ({"on": "yes"}, ".spec.on: expected boolean, got &{yes}"),
        ({"keyed": [{"id": "a"}, {"id": "a"}]}, '.spec.keyed: duplicate entries for key [id="a"]'),
        (
            {"keyed": [{}]},
            ".spec.keyed: element 0: associative list with keys has an element that omits key field "
            '"id" (and doesn\'t have default value)',
        ),
        ([1], ".spec: expected map, got &{[1]}"),
    ],
)
def test_what_does_not(spec: Any, text: str) -> None:
    assert said(spec) == f"failed to create typed patch object (/w; g/v1, Kind=W): {text}"


def test_of_a_built_in_kind() -> None:
    twice = {"containers": [{"name": "c"}, {"name": "c"}]}
    assert said(twice, POD).endswith('.spec.containers: duplicate entries for key [name="c"]')
    assert said({"priority": "high"}, POD).endswith(
        ".spec.priority: expected numeric (int or float), got string"
    )
    assert said({"nodeName": 1}, POD).endswith(
        ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}"
    )
    assert said({"containers": [{"image": "i"}]}, POD) == "", "a name that is left out is an empty one"


def test_several_are_listed() -> None:
    assert said({"a": 1, "b": 2}).endswith(
        "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema"
    )
