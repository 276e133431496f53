"""Sets of object fields, kept in the wire form of `managedFields[].fieldsV1`.

A set is a tree of path elements: `f:<field>`, `k:{"name":"c"}` (item of a keyed list), `v:<json>` (item of a set).
An empty tree below an element says that the element itself is in the set; so does the key `.` when elements
below it are in the set as well. The root is never a member, so the empty root is the empty set.
Working on this form directly saves every conversion: entries are read, changed and stored as they are.

No function changes its arguments; results share subtrees, so treat them as immutable.

Source: KEP-555 (server-side apply) and the API reference's "Field management" page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.nodes import SchemaNode

FieldSet: TypeAlias = "dict[str, FieldSet]"

SELF = "."
_LEAF: FieldSet = {}
_NOTHING: dict[str, Any] = {}
_ABSENT: Any = object()

UNTRACKED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    }
)
"""Fields of metadata that identify the object or belong to the server: nobody owns them."""

_encode = msgspec.json.Encoder(order="sorted").encode


def list_keys(node: SchemaNode | None) -> tuple[str, ...] | None:
    """Return the keys of a keyed list, `()` for a list that is a set, None for a list owned as a whole.

    A built-in list without a list type is keyed by its strategic merge key, as upstream reads the same data.
    """
    if node is None:
        return None
    match node.list_type:
        case "map":
            return node.list_map_keys
        case "set":
            return ()
        case None if "merge" in node.patch_strategy.split(","):
            return (node.patch_merge_key,) if node.patch_merge_key else ()
    return None


def elements(items: list[Any], node: SchemaNode | None, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the items of a keyed list or set by path element, in order.

    None when an item lacks a key or two items share one: such a list can only be owned as a whole.
    """
    out: dict[str, Any] = {}
    for item in items:
        element, _ = item_element(item, node, keys)
        if element is None:
            return None
        out[element] = item
    return out if len(out) == len(items) else None


def item_element(item: Any, node: SchemaNode | None, keys: tuple[str, ...]) -> tuple[str | None, str]:
    """Return the path element of a list's item, or None and the key that it lacks.

    A key that is left out has its default; in a built-in item that is Go's zero value when there is no other.
    """
    if not keys:
        return "v:" + _encode(item).decode(), ""
    items = node.items if node is not None else None
    identity = {}
    for key in keys:
        value = item.get(key) if isinstance(item, dict) else None
        if value is None and items is not None:
            declared = items.properties.get(key)
            if declared is not None and declared.default is not msgspec.UNSET:
                value = declared.default
            else:
                value = items.zeros.values.get(key)
        if value is None:
            return None, key
        identity[key] = value
    return "k:" + _encode(identity).decode(), ""


# ------------------------------------------------------------------------------------- sets of whole objects


def owned_by(obj: Object, schema: SchemaNode) -> FieldSet:
    """Return the fields that an applied configuration `obj` names."""
    return _clean(owned(_tracked(obj), schema, dots=False))


def compare(old: Object, new: Object, schema: SchemaNode) -> tuple[FieldSet, FieldSet]:
    """Return (added or changed, removed) fields between two states of an object.

    A removed element stands for everything below it.
    """
    changed, removed = _difference(_tracked(old), _tracked(new), schema)
    return _clean(changed or {}), _clean(removed or {})


def _tracked(obj: Object) -> Object:
    out = {key: value for key, value in obj.items() if key != "apiVersion" and key != "kind"}
    metadata = obj.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    out["metadata"] = {k: v for k, v in fields.items() if k not in UNTRACKED_METADATA}
    return out


def _clean(fields: FieldSet) -> FieldSet:
    """Return `fields` without the root itself and without a bare `f:metadata`, which every object has."""
    metadata = fields.get("f:metadata")
    if SELF in fields or metadata is not None:
        fields = {k: v for k, v in fields.items() if k != SELF}
        if metadata is not None:
            metadata = {k: v for k, v in metadata.items() if k != SELF}
            if metadata:
                fields["f:metadata"] = metadata
            else:
                del fields["f:metadata"]
    return fields


def owned(value: Any, node: SchemaNode | None, *, dots: bool) -> FieldSet:
    """Return the tree below a value. `dots` adds `.` to every map and list, which a first write owns as well."""
    kind = type(value)
    if kind is dict:
        if not value or (node is not None and node.map_type == "atomic"):
            return _LEAF
        out: FieldSet = {SELF: _LEAF} if dots else {}
        properties = node.properties if node is not None else {}
        other = node.additional if node is not None else None
        for key, child in value.items():
            if type(child) is dict or type(child) is list:
                declared = properties.get(key)
                below = owned(child, declared or other, dots=dots)
                if not below and not dots and _is_open(child, declared or other, declared is not None):
                    continue  # owned entry by entry, and there is none
                # Entries of a map are members themselves; fields of a struct are not.
                if declared is None and below and SELF not in below:
                    below = {SELF: _LEAF, **below}
                out["f:" + key] = below
            else:
                out["f:" + key] = _LEAF
        return out
    if kind is list:
        keys = list_keys(node)
        items = elements(value, node, keys) if value and keys is not None else None
        if items is None:
            return _as_whole(value, node, keys) if dots else _LEAF
        out = {SELF: _LEAF} if dots else {}
        for element, item in items.items():
            below = owned(item, node.items if node is not None else None, dots=dots)
            out[element] = {SELF: _LEAF, **below} if below and SELF not in below else below
        return out
    return _LEAF


def _as_whole(items: list[Any], node: SchemaNode | None, keys: tuple[str, ...] | None) -> FieldSet:
    """Return the tree below a list that is written as a whole: of one whose items share a key, each key."""
    if not items or keys is None:
        return _LEAF
    found = [item_element(item, node, keys)[0] for item in items]
    return {SELF: _LEAF, **{one: _LEAF for one in found if one is not None}} if None not in found else _LEAF


def _is_open(value: Object | list[Any], node: SchemaNode | None, is_field: bool) -> bool:
    """Return whether a map or list is never owned itself, but only what is in it."""
    if isinstance(value, list):
        return not value and list_keys(node) is not None
    return bool(value) and is_field and node is not None and node.map_type != "atomic" and not node.keeps_all


def _difference(old: Any, new: Any, node: SchemaNode | None) -> tuple[FieldSet | None, FieldSet | None]:
    """Return (changed, removed) trees of two unequal values, None for an empty one.

    A null beside a map or list is one without entries.
    """
    if not old and not new:
        return _LEAF, None
    if isinstance(old, dict | None) and isinstance(new, dict | None):
        if node is not None and node.map_type == "atomic":
            return _LEAF, None
        if node is None:
            return _difference_of(old or {}, new or {}, None, None, "f:")
        return _difference_of(old or {}, new or {}, node, node.additional, "f:")
    if isinstance(old, list | None) and isinstance(new, list | None):
        keys = list_keys(node)
        before = elements(old or [], node, keys) if keys is not None else None
        after = elements(new or [], node, keys) if keys is not None else None
        if before is None or after is None:
            return _LEAF, None
        return _difference_of(before, after, None, node.items if node is not None else None, "")
    return _LEAF, None


def _difference_of(
    old: dict[str, Any],
    new: dict[str, Any],
    struct: SchemaNode | None,
    other: SchemaNode | None,
    prefix: str,
) -> tuple[FieldSet | None, FieldSet | None]:
    """Compare entry by entry. What a struct always has counts as unchanged while it has its zero value."""
    declared, zeros = (struct.properties, struct.zeros.values) if struct is not None else (_NOTHING, _NOTHING)
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key, value in new.items():
        before = old.get(key, zeros.get(key, _ABSENT))
        if before is _ABSENT:
            changed[prefix + key] = owned(value, declared.get(key, other), dots=True)
            continue
        if before is value or before == value:
            continue
        more, less = _difference(before, value, declared.get(key, other))
        if more is not None:
            changed[prefix + key] = more
        if less is not None:
            removed[prefix + key] = less
    for key in old:
        if key not in new:
            if key not in zeros:
                removed[prefix + key] = _LEAF
            elif old[key] != zeros[key]:
                more, less = _difference(old[key], zeros[key], declared.get(key, other))
                if more is not None:
                    changed[prefix + key] = more
                if less is not None:
                    removed[prefix + key] = less
    return changed or None, removed or None


# ------------------------------------------------------------------------------------------------- algebra


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the fields that are in either set."""
    if not a or not b:
        return a or b
    out = dict(a)
    for element, below in b.items():
        mine = out.get(element)
        out[element] = below if mine is None else _join(mine, below)
    return out


def _join(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a:
        return b if not b or SELF in b else {SELF: _LEAF, **b}
    if not b:
        return a if SELF in a else {SELF: _LEAF, **a}
    return a if a is b else union(a, b)


def subtract(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the fields of `a` that are not in `b`; a leaf of `b` takes everything below it along."""
    out: FieldSet | None = None
    for element, below in b.items():
        mine = a.get(element)
        if mine is None:
            continue
        left = _without(mine, below)
        if left is mine:
            continue
        out = dict(a) if out is None else out
        if left is None:
            del out[element]
        else:
            out[element] = left
    return a if out is None else out


def _without(mine: FieldSet, other: FieldSet) -> FieldSet | None:
    """Return what is left of an element's tree, None when that is nothing."""
    if not other:
        return None
    if not mine:
        return None if SELF in other else mine
    left = subtract(mine, other)
    if left is mine:
        return mine
    if not left:
        return None
    return _LEAF if len(left) == 1 and SELF in left else left


def contested(changed: FieldSet, owned_by_other: FieldSet) -> FieldSet:
    """Return the values in `changed` that the other set owns: what a forced apply takes away.

    A value that changed as a whole takes what is below it along. Maps and lists that only came into being
    (their own `.`) are nobody's loss.
    """
    out: FieldSet = {}
    for element, below in changed.items():
        other = owned_by_other.get(element)
        if other is None or element == SELF:
            continue
        if not below:
            out[element] = _LEAF
        elif other:
            inner = contested(below, other)
            if inner:
                out[element] = inner
    return out


def paths(fields: FieldSet) -> Iterator[str]:
    """Yield the members as messages name them, `.spec.containers[name="c"].image`, sorted."""
    for element in sorted(fields):
        below = fields[element]
        name = described_element(element)
        if not below or SELF in below:
            yield name
        for rest in paths({k: v for k, v in below.items() if k != SELF}):
            yield name + rest


def described_element(element: str) -> str:
    """Return a path element as messages name it: `.image`, `[name="c"]`, `[="a"]`."""
    kind, _, text = element.partition(":")
    match kind:
        case "f":
            return "." + text
        case "k":
            identity: dict[str, Any] = msgspec.json.decode(text)
            return "[" + ",".join(f"{k}={_encode(v).decode()}" for k, v in identity.items()) + "]"
        case "v":
            return f"[={text}]"
    return f"[{text}]"
