"""The `components.schemas` of OpenAPI v3 documents: what `kubectl explain` prints.

Built-in kinds come from the data of Kubernetes 1.33 (`kube.schema.nodes`), brought back from JSON Schema to the
form that an API server publishes: `null` is no type, a `$ref` with a description is wrapped in `allOf`.
Custom kinds come from their CRD, with the three fields that every object has.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.schema.definitions import builtin_definition, definition_name
from trainshed.kube.schema.publishing import publish

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

_DEFS = "#/$defs/"
_COMPONENTS = "#/components/schemas/"
_API_VERSION = (
    "Version of the schema that this object follows, as <group>/<version>. "
    "Servers convert what they recognise and reject the rest."
)
_KIND = "Kind of this object, in CamelCase. It cannot change."


def reference(name: str) -> Object:
    """Return a `$ref` to a component."""
    return {"$ref": f"{_COMPONENTS}{name}"}


def schema_name(group: str, version: str, kind: str) -> str:
    """Return the component's name of a kind that is not in the data: reversed group, version, kind."""
    return ".".join([*reversed(group.split(".")), version, kind])


def component_name(group: str, version: str, kind: str) -> str:
    """Return the component's name of any kind."""
    return definition_name((group, version, kind)) or schema_name(group, version, kind)


def components(
    infos: Iterable[ResourceInfo], others: Iterable[str] = (), known: Set[str] = frozenset()
) -> dict[str, Object]:
    """Return the schemas of these kinds, of their lists and subresources, of other definitions, and of all that they
    refer to, without built-in ones that are known.
    """
    out: dict[str, Object] = {}
    _collect(others, out, known)
    for info in infos:
        resource = info.resource
        kinds = [(resource.group, resource.version, resource.kind)]
        if info.stored or "list" in info.verbs:
            kinds.append((resource.group, resource.version, info.list_kind))
        for sub in info.subresources.values():
            if sub.kind and sub.version:
                kinds.append((sub.group, sub.version, sub.kind))
        for kind in kinds:
            name = definition_name(kind)
            if info.crd and kind[2] in (resource.kind, info.list_kind):
                own = _custom(info) if kind[2] == resource.kind else _list_of(info)
                out[schema_name(*kind)] = own
                _collect((OBJECT_META, LIST_META), out, known)
            elif name is not None:
                _collect((name,), out, known)
            elif kind[2] == info.list_kind:
                out[schema_name(*kind)] = _list_of(info)
                _collect((LIST_META,), out, known)
            else:
                out[schema_name(*kind)] = _envelope({}, *kind)
                _collect((OBJECT_META,), out, known)
    return dict(sorted(out.items()))


def _collect(names: Iterable[str], out: dict[str, Object], known: Set[str]) -> None:
    """Add definitions and, transitively, what they refer to."""
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in out or name in known:
            continue
        referred: set[str] = set()
        out[name] = _published(builtin_definition(name), referred)
        if out[name].get("x-kubernetes-group-version-kind"):
            # The data pins the values of these two fields; published schemas leave them open.
            for key in ("apiVersion", "kind"):
                out[name].get("properties", {}).get(key, {}).pop("enum", None)
        publish(name, out[name])
        pending.extend(referred - out.keys())


def _published(node: Any, referred: set[str]) -> Any:
    """Return a node of the data as an API server publishes it; collects the names it refers to."""
    if isinstance(node, list):
        return [_published(item, referred) for item in node]
    if not isinstance(node, dict):
        return node
    out: Object = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            types = [item for item in value if item != "null"]
            out["type"] = types[0] if len(types) == 1 else types
        elif key == "properties" and isinstance(value, dict):
            out["properties"] = {name: _published(child, referred) for name, child in value.items()}
        elif key == "$ref" and isinstance(value, str):
            name = value.removeprefix(_DEFS)
            referred.add(name)
            out["$ref"] = f"{_COMPONENTS}{name}"
        elif key in ("items", "additionalProperties", "oneOf", "anyOf", "allOf", "not"):
            out[key] = _published(value, referred)
        else:
            out[key] = value
    if "$ref" in out and len(out) > 1:
        # Beside a $ref everything else is ignored by OpenAPI 3.0.
        out["allOf"] = [{"$ref": out.pop("$ref")}]
    return out


def _envelope(schema: Object, group: str, version: str, kind: str) -> Object:
    """Return an object's schema with apiVersion, kind, metadata and the kind it stands for."""
    properties = {
        **section(schema, "properties"),
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {
            "allOf": [reference(OBJECT_META)],
            "default": {},
            "description": "Name, labels, annotations and what the server keeps about the object.",
        },
    }
    return {
        "type": "object",
        **schema,
        "properties": dict(sorted(properties.items())),
        "x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": version}],
    }


def _custom(info: ResourceInfo) -> Object:
    resource = info.resource
    schema: Object = msgspec.json.decode(info.schema) if info.schema else {}
    return _envelope(schema, resource.group, resource.version, resource.kind)


def _list_of(info: ResourceInfo) -> Object:
    resource = info.resource
    out = _envelope({}, resource.group, resource.version, info.list_kind)
    out["description"] = f"{info.list_kind} is a list of {resource.kind}."
    out["properties"]["metadata"] = {"allOf": [reference(LIST_META)], "default": {}}
    out["properties"]["items"] = {
        "type": "array",
        "items": {"allOf": [reference(component_name(resource.group, resource.version, resource.kind))]},
        "description": f"The {resource.plural}.",
    }
    out["required"] = ["items"]
    return out
