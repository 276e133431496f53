"""Strategic merge patch: a merge patch in which lists of keyed items merge item by item.

Which lists are keyed, and by what, comes from the schema (`patch_merge_key`, `patch_strategy`); a list without
a `merge` strategy is replaced whole. Directives in the patch:

    $patch: replace | delete | merge     of the map, or of the list item, that it stands in
    $deleteFromPrimitiveList/<field>     values to take out of a merged list of scalars
    $setElementOrder/<field>             order of the listed items; the server's own items keep their places
    $retainKeys                          the only fields that stay (unions such as a volume's source)

Source: the API conventions' page on strategic merge patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.nodes import SchemaNode

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(target: Object, patch: Object, schema: SchemaNode) -> Object:
    """Return `target` with `patch` applied; arguments are not changed, unchanged parts are shared.

    Raises:
        ApiError: 400 when a directive is malformed or an item of a keyed list lacks its key.
    """
    return _merge_map(target, patch, schema)


def _merge_map(target: Object, patch: Object, node: SchemaNode | None) -> Object:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"bad patch type: {directive} in {_DIRECTIVE}")

    out = dict(target)
    _retain(out, patch)
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            field = key.removeprefix(_DELETE_FROM)
            unwanted = _list_directive(key, value)
            if isinstance(out.get(field), list):
                out[field] = [item for item in out[field] if item not in unwanted]
        elif key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = _list_directive(key, value)
    for key, value in patch.items():
        if key[:1] == "$" and (key in (_DIRECTIVE, _RETAIN) or key.startswith((_DELETE_FROM, _ORDER))):
            continue
        child = node.child(key) if node is not None else None
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = _merged_field(out.get(key), value, child)
        elif isinstance(value, list) and child is not None and "merge" in child.patch_strategy.split(","):
            existing = out.get(key)
            out[key] = _merge_list(existing if isinstance(existing, list) else [], value, child)
        else:
            out[key] = value
    for field, order in orders.items():
        merged, before = out.get(field), target.get(field)
        if isinstance(merged, list):
            child = node.child(field) if node is not None else None
            out[field] = _ordered(
                merged,
                order,
                before if isinstance(before, list) else [],
                child.patch_merge_key if child else None,
            )
    return out


def _merged_field(existing: Any, value: Object, child: SchemaNode | None) -> Object:
    if child is not None and "replace" in child.patch_strategy.split(","):
        return value
    return _merge_map(existing if isinstance(existing, dict) else {}, value, child)


def _retain(out: Object, patch: Object) -> None:
    kept = patch.get(_RETAIN)
    if kept is None:
        return
    for field in list(out):
        if field not in _list_directive(_RETAIN, kept):
            del out[field]


def _list_directive(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"invalid patch: {name} must be a list")
    return value


def _merge_list(existing: list[Any], patch: list[Any], node: SchemaNode) -> list[Any]:
    key = node.patch_merge_key
    if key is None:
        added = [item for i, item in enumerate(patch) if item not in existing and item not in patch[:i]]
        return _ordered(existing + added, patch, existing, None)
    # An item that holds only `$patch: replace` speaks for the whole list.
    if any(_replaces_list(item) for item in patch):
        return [item for item in patch if not _replaces_list(item)]
    out = list(existing)
    for item in patch:
        identity = _identity(item, key)
        at = next(
            (i for i, old in enumerate(out) if isinstance(old, dict) and old.get(key) == identity), None
        )
        directive = item.get(_DIRECTIVE)
        if directive == "delete":
            out = [old for old in out if not (isinstance(old, dict) and old.get(key) == identity)]
        elif at is None:
            out.append(_merge_map({}, item, node.items))
        else:
            out[at] = _merge_map(out[at], item, node.items)
    # The patch's items keep its order and go first; an item of the server's stays in front of those that it preceded.
    return _ordered(out, [item for item in patch if item.get(_DIRECTIVE) != "delete"], existing, key)


def _replaces_list(item: Any) -> bool:
    return isinstance(item, dict) and len(item) == 1 and item.get(_DIRECTIVE) == "replace"


def _identity(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise bad_request(f"invalid patch: an item of a list merged by {key} must be an object")
    if key not in item:
        raise bad_request(f"map: {item} does not contain declared merge key: {key}")
    return item[key]


def _ordered(merged: list[Any], order: list[Any], before: list[Any], key: str | None) -> list[Any]:
    """Return `merged` with the listed items in `order`; an item that only the server knows stays in front of
    the listed items that it stood in front of."""
    ranks = [_name(item, key) for item in order]
    names = [_name(item, key) for item in merged]
    listed = sorted((i for i, name in enumerate(names) if name in ranks), key=lambda i: ranks.index(names[i]))
    unlisted = [i for i, name in enumerate(names) if name not in ranks]
    server = [_name(item, key) for item in before]
    out: list[Any] = []
    for i in listed:
        while unlisted and _precedes(names[unlisted[0]], names[i], server):
            out.append(merged[unlisted.pop(0)])
        out.append(merged[i])
    return out + [merged[i] for i in unlisted]


def _precedes(one: Any, other: Any, server: Sequence[Any]) -> bool:
    return one in server and other in server and server.index(one) < server.index(other)


def _name(item: Any, key: str | None) -> Any:
    return item.get(key) if key is not None and isinstance(item, dict) else item
