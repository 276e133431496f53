"""The CEL types of kinds, as their schemas declare them: what expressions about their objects may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainshed.kube.cel.types import DYN, UNBOUNDED, Type, spellings
from trainshed.kube.schema.nodes import SchemaNode

_SCALARS = {"integer": "int", "number": "double", "boolean": "bool", "string": "string"}
_FORMATS = {"date-time": "timestamp", "date": "timestamp", "duration": "duration", "byte": "bytes"}


class _Fields(Mapping[str, Type]):
    """The fields of an object, whose types are found when they are asked for: schemas may hold themselves."""

    def __init__(self, nodes: Mapping[str, SchemaNode]) -> None:
        self._nodes = {spelled: node for name, node in nodes.items() for spelled in spellings(name)}

    def __getitem__(self, name: str) -> Type:
        return type_of(self._nodes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def type_of(node: SchemaNode) -> Type:
    """Return the type of a place of a schema; `dyn` where it declares none."""
    if node.int_or_string or node.quantity:
        return DYN
    if node.time:
        return Type("timestamp", 1)
    if node.items is not None:
        return Type("list", UNBOUNDED, type_of(node.items))
    if node.additional is not None:
        return Type("map", UNBOUNDED, type_of(node.additional))
    if node.properties:
        return Type("object", fields=_Fields(node.properties))
    if node.type in _SCALARS:
        return Type(_FORMATS.get(node.format, _SCALARS[node.type]), UNBOUNDED)
    return DYN
