"""How a field of a declared type says what it is: text for people, keywords for the CRD schema.

A declared field is `Annotated[T, doc("wireName is ...", ...)]`. The text becomes the description in the CRD
and so the answer of `kubectl explain`; the keywords become part of the field's OpenAPI schema.
"""

from __future__ import annotations

from typing import Any

from msgspec import Meta

from trainshed.kube.cel.re2 import QUANTITY_PATTERN

CORE_TYPE = "x-core-type"
"""Keyword that names the Kubernetes type whose schema stands here; never part of a finished CRD."""


def doc(text: str, **schema: Any) -> Meta:
    """Return the annotation of a field: `text` starts with the wire name; `schema` are OpenAPI keywords."""
    return Meta(description=text, extra_json_schema=schema)


def core(text: str, definition: str, **schema: Any) -> Meta:
    """Return the annotation of a field that holds a core Kubernetes type, e.g. `core.v1.PodTemplateSpec`."""
    return Meta(description=text, extra_json_schema={CORE_TYPE: definition, **schema})


INT32 = {"format": "int32"}
INT64 = {"format": "int64"}
DATE_TIME = {"format": "date-time"}

QUANTITY: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
"""Schema of a resource quantity such as `500m`, `2Gi` or 4."""
