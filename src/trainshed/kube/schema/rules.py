"""Rules of CRDs in CEL, evaluated where a schema has some: the language is loaded with the first of them."""

from __future__ import annotations

from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.nodes import SchemaNode


def broken_rules(obj: Object, old: Object | None, schema: SchemaNode) -> list[Cause]:
    """Return the causes of all rules that `obj` breaks; `old` is the object before an update.

    Call it only for objects that pass `structural.validate`: rules assume the declared types.
    """
    if not schema.with_rules:
        return []
    from trainshed.kube.schema.cel import evaluate_rules

    return evaluate_rules(obj, old, schema)
