"""The API conventions, held for every declared field of every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from trainshed.api.registry import KINDS
from trainshed.kube.meta.objects import Object

UNITS = {"second", "minute", "hour", "deadline", "timeout", "ttl", "period", "delay"}


def structs(type_: inspect.Type) -> Iterator[inspect.StructType]:
    """Yield every struct in a type, outermost first."""
    if isinstance(type_, inspect.StructType):
        yield type_
        for field in type_.fields:
            yield from structs(field.type)
    for part in ("type", "item_type", "value_type"):
        if hasattr(type_, part):
            yield from structs(getattr(type_, part))
    for member in getattr(type_, "types", ()):
        yield from structs(member)


STRUCTS = {s.cls: s for kind in KINDS.values() for s in structs(inspect.type_info(kind.root))}
FIELDS = [
    pytest.param(field, id=f"{cls.__name__}.{field.encode_name}")
    for cls, s in STRUCTS.items()
    for field in s.fields
]


def extra(type_: inspect.Type) -> Object:
    """Return the annotations of a field, outermost first to win."""
    out: Object = {}
    while isinstance(type_, inspect.Metadata):
        out = {**(type_.extra_json_schema or {}), **out}
        type_ = type_.type
    return out


def leaves(type_: inspect.Type) -> Iterator[inspect.Type]:
    for part in ("type", "item_type", "value_type"):
        if hasattr(type_, part):
            yield from leaves(getattr(type_, part))
            return
    if isinstance(type_, inspect.UnionType):
        for member in type_.types:
            yield from leaves(member)
    else:
        yield type_


def test_the_walk_finds_the_declared_types() -> None:
    names = {cls.__name__ for cls in STRUCTS}
    assert names >= {
        "PyTorchJob",
        "RunPolicy",
        "SchedulingPolicy",
        "ReplicaSpec",
        "ElasticPolicy",
        "RDZVConf",
    }
    assert names >= {"JobStatus", "JobCondition", "ReplicaStatus"}


@pytest.mark.parametrize("field", FIELDS)
def test_documentation_starts_with_the_wire_name(field: inspect.Field) -> None:
    """It is what `kubectl explain` shows, below the name, so it must read as a sentence about it."""
    text = extra(field.type).get("description", "")
    assert re.match(rf"{field.encode_name} (is|are|says|names|makes|lets|stops|counts|describes)\b", text), (
        text
    )
    assert text.endswith("."), text


@pytest.mark.parametrize("field", FIELDS)
def test_names_are_camel_case(field: inspect.Field) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)*", field.encode_name)


@pytest.mark.parametrize("field", FIELDS)
def test_no_floats_and_sized_integers(field: inspect.Field) -> None:
    kinds = [type(leaf) for leaf in leaves(field.type)]
    assert inspect.FloatType not in kinds
    if inspect.IntType in kinds:
        assert extra(field.type)["format"] in ("int32", "int64")


@pytest.mark.parametrize("field", FIELDS)
def test_durations_have_their_unit_in_the_name(field: inspect.Field) -> None:
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", field.encode_name)}
    if words & UNITS and any(isinstance(leaf, inspect.IntType) for leaf in leaves(field.type)):
        assert "seconds" in words


@pytest.mark.parametrize("field", FIELDS)
def test_optional_fields_default_to_absent(field: inspect.Field) -> None:
    """New fields must be optional, and an absent one is not an empty one."""
    assert field.required or field.default is None


@pytest.mark.parametrize("cls", STRUCTS)
def test_structs_are_keyword_only_and_omit_defaults(cls: type[msgspec.Struct]) -> None:
    config: Any = cls.__struct_config__
    assert config.omit_defaults
    assert not config.forbid_unknown_fields, "an old reader must accept new fields"
    with pytest.raises(TypeError):
        cls("positional")
    assert (cls.__doc__ or "").strip()


def test_a_document_goes_through_its_type_unchanged() -> None:
    spec = {
        "runPolicy": {
            "ttlSecondsAfterFinished": 3,
            "schedulingPolicy": {"minResources": {"cpu": 1, "memory": "2Gi"}},
        },
        "elasticPolicy": {"nProcPerNode": 1, "rdzvConf": [{"key": "a", "value": "b"}], "rdzvId": "x"},
        "pytorchReplicaSpecs": {
            "Worker": {"replicas": 1, "template": {"spec": {"containers": [], "new": 1}}}
        },
        "nprocPerNode": "auto",
    }
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": spec}
    assert msgspec.to_builtins(msgspec.convert(job, KINDS["PyTorchJob"].root)) == job


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_is_declared(kind: Any) -> None:
    spec = next(s for cls, s in STRUCTS.items() if cls.__name__ == f"{kind.name}Spec")
    assert kind.replica_specs_field in {field.encode_name for field in spec.fields}
    assert kind.webhook_name == f"validator.{kind.singular}.training-operator.kubeflow.org"
    assert kind.webhook_path == f"/validate-kubeflow-org-v1-{kind.singular}"
    assert kind.crd_name == f"{kind.plural}.kubeflow.org"
    assert kind.list_kind == f"{kind.name}List"
