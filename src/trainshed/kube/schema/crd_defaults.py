"""Defaults in the schema of a CRD: they have to be what the schema takes, and nothing else.

Source of rules and texts: `apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import Cause
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.nodes import SchemaNode, from_schema
from trainshed.kube.schema.rules import broken_rules
from trainshed.kube.schema.structural import validate


def default_causes(schema: Mapping[str, Any], path: str, *, root: bool = False) -> Iterator[Cause]:
    """Yield what is wrong with the defaults of a structural schema, at the place `path` and below."""
    if schema.get("default") is not None:
        yield from _default(schema, path, whole=root or bool(schema.get("x-kubernetes-embedded-resource")))
    if isinstance(schema.get("items"), Mapping):
        yield from default_causes(schema["items"], f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from default_causes(child, f"{path}.properties[{name}]")


def _default(schema: Mapping[str, Any], path: str, *, whole: bool) -> Iterator[Cause]:
    value, at = schema["default"], f"{path}.default"
    node: SchemaNode = from_schema(schema)
    held = from_schema({"type": "object", "properties": {"it": schema}})
    if conform({"it": value}, held, mode="ignore", what="", builtin=False)[0]["it"] != value:
        yield causes.invalid_shown(at, golang.anything(value), "must not have unknown fields")
    if whole and isinstance(value, dict):
        missing = [key for key in ("apiVersion", "kind") if not value.get(key)]
        yield from (causes.required(f"{at}.{key}", "must not be empty") for key in missing)
        if missing:
            return
    # Below a default, items are told of with a dot before them, and in the text without the default's place.
    found = [
        Cause(cause.reason, cause.message, f"{at}.{cause.field}" if cause.field else at)
        for cause in validate(value, node)
    ]
    if not found and node.with_rules:
        from trainshed.kube.schema.crd_rules import (
            uncompiled,  # the language is loaded with the first expression
        )

        found = list(uncompiled(value, schema, at))
        if not found:
            transitions = broken_rules(value, value, node)
            found = [_at(cause, at) for cause in transitions or broken_rules(value, None, node)]
    yield from found


def _at(cause: Cause, path: str) -> Cause:
    """Return a cause that has its place below a default."""
    field = "" if cause.field == causes.ROOT else cause.field
    joint = "" if not field or field.startswith("[") else "."
    return Cause(cause.reason, cause.message, f"{path}{joint}{field.removeprefix('.')}")
