"""Strategic merge patch: a merge patch in which lists of keyed items merge item by item.

Which lists are keyed, and by what, comes from the schema (`patch_merge_key`, `patch_strategy`); a list without
a `merge` strategy is replaced whole. Directives in the patch:

    $patch: replace | delete             of the map that it stands in; of a list's item: of the whole list, of the item
    $deleteFromPrimitiveList/<field>     values to take out of a list of scalars
    $setElementOrder/<field>             order of the listed items; the server's own items keep their places
    $retainKeys                          the only fields that stay (unions such as a volume's source)

A field that the target does not have takes the patch's value without the maps that are directives; what else begins
with `$` is in there no directive, but a field that there is none of.

Sources: the API conventions' page on strategic merge patch; what kube-apiserver answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from trainshed.kube.meta import golang
from trainshed.kube.meta.equality import repeated, token
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.nodes import SchemaNode

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"
_GONE = object()


def strategic_merge(target: Object, patch: Object, schema: SchemaNode) -> Object:
    """Return `target` with `patch` applied; arguments are not changed, unchanged parts are shared.

    Raises:
        ApiError: 400 when a directive is malformed or an item of a keyed list lacks its key. Most of it is a 500 of
            kube-apiserver's; the words are its own.
    """
    return _merge_map(target, patch, schema)


def _merge_map(target: Object, patch: Object, node: SchemaNode | None) -> Object:
    if _DIRECTIVE in patch:
        match patch[_DIRECTIVE]:
            case "replace":
                return {key: value for key, value in patch.items() if key != _DIRECTIVE}
            case "delete":
                return {}
        raise _unknown_directive(patch)

    out = _retained(target, patch)
    rest = {key: value for key, value in patch.items() if key != _RETAIN}
    for key, order in patch.items():
        if key.startswith(_ORDER):
            del rest[key]
            _merge_ordered(out, _field_of(key, "setElementOrder"), order, rest, node)
    for key in [key for key in rest if key.startswith(_DELETE_FROM)]:
        _take_out(out, _field_of(key, "primitive"), rest.pop(key))
    for key, value in rest.items():
        merged = _GONE if value is None else _merged_field(out.get(key), value, _child(node, key))
        if merged is _GONE:
            out.pop(key, None)
        else:
            out[key] = merged
    return out


def _merged_field(existing: Any, value: Any, child: SchemaNode | None) -> Any:
    """Return what a field becomes, `_GONE` when nothing of it is left."""
    strategies = _strategies(child)
    if isinstance(value, dict) and isinstance(existing, dict):
        return value if "replace" in strategies else _merge_map(existing, value, child)
    if isinstance(value, list) and isinstance(existing, list):
        return _merge_list(existing, value, child) if "merge" in strategies else value
    return _new(value)


def _new(value: Any) -> Any:
    """Return the value of a field that is new: without nulls, and without the maps that hold a directive."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) is not None:
            return _GONE
        parts = {key: _new(part) for key, part in value.items() if part is not None}
        return {key: part for key, part in parts.items() if part is not _GONE}
    if isinstance(value, list):
        return [item for item in map(_new, value) if item is not _GONE]
    return value


def _retained(target: Object, patch: Object) -> Object:
    if _RETAIN not in patch:
        return dict(target)
    kept = patch[_RETAIN]
    given = [
        key
        for key, value in patch.items()
        if value is not None and key != _RETAIN and not key.startswith((_DELETE_FROM, _ORDER))
    ]
    if not isinstance(kept, list) or any(key not in kept for key in given):
        raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in target.items() if key in kept}


def _take_out(out: Object, field: str, unwanted: Any) -> None:
    """Take values out of a list of scalars; from a field that is none nothing is taken."""
    existing = out.get(field)
    if unwanted is None:
        out.pop(field, None)
    elif isinstance(unwanted, list) and isinstance(existing, list):
        _check_alike(existing, unwanted)
        gone = set(map(token, unwanted))
        out[field] = [item for item in existing if token(item) not in gone]


def _merge_list(existing: list[Any], patch: list[Any], node: SchemaNode | None) -> list[Any]:
    key = node.patch_merge_key if node is not None else None
    _check_alike(existing, patch)
    if node is None or key is None or not isinstance(next(iter(existing + patch), None), dict):
        known, again = _places(existing, None), repeated(patch)
        added = [item for at, item in enumerate(patch) if token(item) not in known and at not in again]
        return _ordered(existing + added, patch, existing, None)
    existing, patch = _directed(existing, patch, key)
    out = list(existing)
    places = _places(out, key)
    for item in patch:
        at = places.setdefault(token(_identity(item, key)), len(out))
        if at == len(out):
            out.append(item)
        else:
            out[at] = _merge_map(out[at], item, node.items)
    # The patch's items keep its order and go first; an item of the server's stays in front of those that it preceded.
    return _ordered(out, patch, existing, key)


def _directed(existing: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return the items that directives leave, and those items of the patch that are none."""
    gone = set()
    for item in patch:
        directive = item.get(_DIRECTIVE, _GONE)
        if directive == "delete":
            gone.add(token(_identity(item, key)))
        elif directive == "merge":
            raise bad_request("merging lists cannot yet be specified in the patch")
        elif directive not in (_GONE, "replace"):
            raise _unknown_directive(item)
    plain = [item for item in patch if _DIRECTIVE not in item]
    # An item that says `replace` speaks for the whole list, and for nothing else that it holds.
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return plain, []
    return [old for old in existing if token(old.get(key)) not in gone], plain


def _merge_ordered(out: Object, field: str, order: Any, rest: Object, node: SchemaNode | None) -> None:
    """Merge a list that the order of its items comes with, and take it from the `rest` of the patch."""
    if node is not None and node.additional is not None:
        raise bad_request("merging an object in json but data type is not struct, instead is: map")
    before, patch = out.get(field, []), rest.get(field, [])
    for value in (order, before, patch):
        if not isinstance(value, list):
            raise _not_a("[]interface {}", value)
    child = _child(node, field)
    key = child.patch_merge_key if child is not None else None
    _check_order(patch, order, key)
    if field not in out and field not in rest:
        return
    if field not in rest:
        merged = before
    else:
        merged = _merged_field(out.get(field), rest.pop(field), child)
    _check_alike(before, patch)
    out[field] = _ordered(merged, order, before, key)


def _check_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """Raise `ApiError` 400 unless the items of a patch stand in the order that it gives, in its sequence."""
    if not patch or not order:
        return
    items = [token(_keyed(item, key)) for item in patch if not _has_directive(item)]
    found = 0
    for each in order:
        if found < len(items) and token(_keyed(each, key)) == items[found]:
            found += 1
    if found < len(items):
        raise bad_request(
            f"The order in patch list:\n{golang.printed(patch)}\n doesn't match"
            f" {_ORDER} list:\n{golang.printed(order)}\n"
        )


def _has_directive(item: Any) -> bool:
    return isinstance(item, dict) and _DIRECTIVE in item


def _check_alike(*lists: list[Any]) -> None:
    """Raise `ApiError` 400 for items of several types, and for lists of lists."""
    items = [item for each in lists for item in each]
    if items and isinstance(items[0], list):
        raise bad_request("lists of lists are not supported")
    if any(type(item) is not type(items[0]) for item in items):
        shown = golang.printed(list(lists))
        raise bad_request(f"list element types are not identical: {shown}")


def _keyed(item: Any, key: str | None) -> Any:
    if key is None:
        return item
    if not isinstance(item, dict):
        raise _not_a("map[string]interface {}", item)
    return _identity(item, key)


def _identity(item: Object, key: str) -> Any:
    if key not in item:
        raise bad_request(f"map: {golang.printed(item)} does not contain declared merge key: {key}")
    return item[key]


def _unknown_directive(patch: Object) -> ApiError:
    directive = patch[_DIRECTIVE]
    shown = golang.printed(directive)
    if directive is None:
        shown = "%!s(<nil>)"
    elif isinstance(directive, bool | int | float):
        shown = f"%!s({golang.type_name(directive)}={shown})"
    return bad_request(f"unknown patch type: {shown} in map: {golang.printed(patch)}")


def _not_a(wanted: str, value: Any) -> ApiError:
    return bad_request(f"expected a {wanted}, but received a {golang.type_name(value)}")


def _field_of(directive: str, name: str) -> str:
    prefix, _, field = directive.partition("/")
    if not field or prefix not in (_DELETE_FROM, _ORDER):
        raise bad_request(f"invalid patch format of {name} list")
    return field


def _child(node: SchemaNode | None, key: str) -> SchemaNode | None:
    return node.child(key) if node is not None else None


def _strategies(node: SchemaNode | None) -> Sequence[str]:
    return node.patch_strategy.split(",") if node is not None else ()


def _ordered(merged: list[Any], order: list[Any], before: list[Any], key: str | None) -> list[Any]:
    """Return `merged` with the listed items in `order`; an item that only the server knows stays in front of
    the listed items that it stood in front of."""
    ranks, server = _places(order, key), _places(before, key)
    names = [token(_name(item, key)) for item in merged]
    listed = sorted((i for i, name in enumerate(names) if name in ranks), key=lambda i: ranks[names[i]])
    unlisted = deque(i for i, name in enumerate(names) if name not in ranks)
    out: list[Any] = []
    for i in listed:
        while unlisted and _precedes(names[unlisted[0]], names[i], server):
            out.append(merged[unlisted.popleft()])
        out.append(merged[i])
    return out + [merged[i] for i in unlisted]


def _precedes(one: Hashable, other: Hashable, server: Mapping[Hashable, int]) -> bool:
    return one in server and other in server and server[one] < server[other]


def _name(item: Any, key: str | None) -> Any:
    return item.get(key) if key is not None and isinstance(item, dict) else item


def _places(items: list[Any], key: str | None) -> dict[Hashable, int]:
    """Return where each name stands first: lists of a megabyte are merged, and must not be searched for each item."""
    places: dict[Hashable, int] = {}
    for at, item in enumerate(items):
        places.setdefault(token(_name(item, key)), at)
    return places
