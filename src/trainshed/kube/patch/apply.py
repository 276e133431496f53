"""Server-side apply: merge what a manager wants into the live object, and remember what it wanted.

    conflict     a field that the manager sets to another value, and that somebody else owns; 409 unless forced
    removal      a field that the manager owned, does not name any more, and that nobody else owns
    shared       a field set to the value that it has: several managers own it

Source: KEP-555 and the API reference's "Server-Side Apply" page.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import ApiError, Cause, bad_request, invalid
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.patch import fieldset, lastapplied, managedfields
from trainshed.kube.patch.fieldset import SELF, FieldSet
from trainshed.kube.schema.nodes import SchemaNode

_KUBECTL = "kubectl"
_BEFORE_FIRST_APPLY = "before-first-apply"

_encode = msgspec.json.Encoder(order="sorted").encode


def apply(
    live: Object | None,
    applied: Object,
    schema: SchemaNode,
    *,
    manager: str,
    force: bool,
    subresource: str,
    now: str,
    has_status: bool = False,
    sent: Object | None = None,
) -> Object:
    """Return the object after `manager` applied `applied`; `live` None creates it.

    The caller fills `metadata.name` and `namespace` from the URL, checks both documents, and skips the write when
    `managedfields.same_but_times(live, result)`.

    Args:
        has_status: the kind has a `status` subresource: `status` of the main resource is ignored, and through
            `status` nothing else is seen.
        now: RFC 3339 time of the write, seconds.
        sent: the configuration without what the URL says, for the annotation of kubectl; `applied` by default.

    Raises:
        ApiError: 400 for a document that is no configuration to apply, 409 for a conflict with another manager
            (one `FieldManagerConflict` cause per field), 422 for another uid.
    """
    _check(live, applied)
    wanted = _visible(applied, subresource, has_status)
    version = metadata_of(applied).get("resourceVersion")
    if not schema.builtin:
        wanted = _without_nulls(wanted, schema)
    fields = fieldset.owned_by(wanted, schema)
    entries = managedfields.entries_of(live) if live is not None else []
    if live is None:
        return _with_own(wanted, entries, fields, manager, subresource, now)
    if not entries:
        entries = _before_first_apply(live, schema, now)

    own = next((entry for entry in entries if _is_own(entry, manager, subresource)), None)
    others = [entry for entry in entries if entry is not own]
    if version:  # whether it is the current one is checked with every other write's
        wanted = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    merged: Object = _merge(live, wanted, schema)
    if own is not None and own["fieldsV1"] != fields:  # a repeated apply has nothing to remove
        kept = fields
        for entry in others:
            kept = fieldset.union(kept, entry["fieldsV1"])
        merged = _prune(merged, own["fieldsV1"], kept, schema)
    changed, removed = fieldset.compare(live, merged, schema)
    taken = [fieldset.contested(changed, entry["fieldsV1"]) for entry in others]
    if any(taken) and not force:
        _refuse_conflicts(live, schema, manager, others, taken)
    left = []
    for entry in others:
        remaining = fieldset.subtract(fieldset.subtract(entry["fieldsV1"], changed), removed)
        if remaining:
            left.append(entry if remaining is entry["fieldsV1"] else {**entry, "fieldsV1": remaining})
    # The time of an entry tells when its manager last changed the object; one that never did has none.
    status_sent = (
        has_status and not subresource and applied.get("status", live.get("status")) != live.get("status")
    )
    time = now if changed or removed or status_sent else (own or {}).get("time") or ""
    if manager == _KUBECTL and not subresource:
        merged = lastapplied.refreshed(merged, sent or applied)
    return _with_own(merged, left, fields, manager, subresource, time)


def _check(live: Object | None, applied: Object) -> None:
    for field in ("apiVersion", "kind"):
        if not isinstance(applied.get(field), str) or not applied[field]:
            raise bad_request(
                f"Object '{field}' is missing in the applied configuration: {field} must be set"
            )
    metadata = metadata_of(applied)
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    stored = metadata_of(live or {})
    name, kind = metadata.get("name") or stored.get("name", ""), applied["kind"]
    uid = metadata.get("uid")
    if not uid or uid == stored.get("uid"):
        return
    if live is not None:
        group = str(applied["apiVersion"]).rpartition("/")[0]
        raise invalid(kind, group, name, [causes.invalid("metadata.uid", uid, "field is immutable")] * 2)
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    raise ApiError(409, "Conflict", message, name=name, kind=kind)


def _visible(applied: Object, subresource: str, has_status: bool) -> Object:
    """Return the part of a configuration that this endpoint may change; read-only metadata never counts."""
    if subresource == "status":
        out = {key: applied[key] for key in ("apiVersion", "kind", "status") if key in applied}
        names = {k: v for k, v in metadata_of(applied).items() if k in ("name", "namespace")}
        return {**out, "metadata": names}
    metadata = {
        key: value
        for key, value in metadata_of(applied).items()
        if key in ("name", "namespace", "generateName") or key not in fieldset.UNTRACKED_METADATA
    }
    out = {key: value for key, value in applied.items() if not (has_status and key == "status")}
    return {**out, "metadata": metadata}


def _without_nulls(value: Any, node: SchemaNode | None) -> Any:
    """Return `value` without null fields: generators print `status: null` or `creationTimestamp: null` where they
    mean nothing at all. What a custom schema declares nullable, or does not describe, keeps its nulls."""
    if node is not None and node.preserve_unknown and not node.properties:
        return value  # such as the schema inside a CRD, where `default: null` is a value
    if isinstance(value, dict):
        out: Object | None = None
        for key, item in value.items():
            if item is not None and not isinstance(item, dict | list):
                continue
            child = node.child(key) if node is not None else None
            kept = _without_nulls(item, child)
            if item is None and not (child is not None and child.nullable):
                out = dict(value) if out is None else out
                del out[key]
            elif kept is not item:
                out = dict(value) if out is None else out
                out[key] = kept
        return value if out is None else out
    if isinstance(value, list):
        items = node.items if node is not None else None
        left = [_without_nulls(item, items) if isinstance(item, dict | list) else item for item in value]
        return value if all(a is b for a, b in zip(left, value, strict=True)) else left
    return value


def _before_first_apply(live: Object, schema: SchemaNode, now: str) -> list[Object]:
    fields, _ = fieldset.compare({}, live, schema)
    if not fields:
        return []
    api_version = str(live.get("apiVersion", ""))
    return [managedfields.make_entry(_BEFORE_FIRST_APPLY, "Update", api_version, "", now, fields)]


def _is_own(entry: Object, manager: str, subresource: str) -> bool:
    # Appliers keep their identity over API versions: what was applied as v1beta1 is pruned when applied as v1.
    return (
        entry.get("operation") == "Apply"
        and entry.get("manager") == manager
        and (entry.get("subresource") or "") == subresource
    )


def _with_own(
    obj: Object, others: list[Object], fields: FieldSet, manager: str, subresource: str, time: str
) -> Object:
    entries = list(others)
    if fields:
        api_version = str(obj.get("apiVersion", ""))
        entries.append(managedfields.make_entry(manager, "Apply", api_version, subresource, time, fields))
    return managedfields.with_entries(obj, managedfields.in_order(entries))


# --------------------------------------------------------------------------------------------------- merging


def _merge(live: Any, wanted: Any, node: SchemaNode | None) -> Any:
    """Return `live` with `wanted` laid over it; `live` itself where that changes nothing."""
    if wanted is None and isinstance(live, dict | list) and node is not None and not _is_atomic(live, node):
        return live  # a null asks for no entries, and those of others stay
    if isinstance(live, dict) and isinstance(wanted, dict):
        if node is not None and node.map_type == "atomic":
            return live if live == wanted else wanted
        out: Object | None = None
        for key, value in wanted.items():
            if key in live:
                below = _merge(live[key], value, node.child(key) if node is not None else None)
                if below is live[key]:
                    continue
            else:
                below = value
            out = dict(live) if out is None else out
            out[key] = below
        return live if out is None else out
    if isinstance(live, list) and isinstance(wanted, list):
        return _merge_list(live, wanted, node)
    return live if live == wanted and isinstance(live, bool) == isinstance(wanted, bool) else wanted


def _is_atomic(value: Any, node: SchemaNode) -> bool:
    return fieldset.list_keys(node) is None if isinstance(value, list) else node.map_type == "atomic"


def _merge_list(live: list[Any], wanted: list[Any], node: SchemaNode | None) -> list[Any]:
    keys = fieldset.list_keys(node)
    if keys is None:
        return live if live == wanted else wanted
    after = fieldset.elements(wanted, node, keys)
    if after is None:
        raise bad_request(
            "failed to create typed patch object: the items of a list "
            + (
                f"keyed by {', '.join(keys)} must have these keys and differ in them"
                if keys
                else "set must differ"
            )
        )
    before = fieldset.elements(live, node, keys)
    if before is None:
        return wanted
    items = node.items if node is not None else None
    merged = {element: _merge(before.get(element, item), item, items) for element, item in after.items()}
    # The applied order holds; an item of others stays behind the one that it stood behind.
    out: list[Any] = []
    applied = list(merged.values())
    places = {element: place for place, element in enumerate(merged)}
    taken = 0
    for element, item in before.items():
        place = places.get(element)
        if place is None:
            out.append(item)
        elif place >= taken:
            out += applied[taken : place + 1]
            taken = place + 1
    out += applied[taken:]
    same = len(out) == len(live) and all(a is b for a, b in zip(out, live, strict=True))
    return live if same else out


def _prune(value: Any, owned: FieldSet, kept: FieldSet, node: SchemaNode | None) -> Any:
    """Return `value` without the fields of `owned` that nobody keeps.

    An item of a keyed list goes whole when nobody keeps the item itself; a struct goes whole, with the defaults
    in it, when nobody keeps anything in it.
    """
    if isinstance(value, dict):
        out: Object | None = None
        for element, below in owned.items():
            name = element[2:]
            if element == SELF or name not in value:
                continue
            keeping = kept.get(element)
            if keeping is not None:
                left = _prune(value[name], below, keeping, node.child(name) if node is not None else None)
                if left is value[name]:
                    continue
            out = dict(value) if out is None else out
            if keeping is None:
                del out[name]
            else:
                out[name] = left
        return value if out is None else out
    keys = fieldset.list_keys(node)
    if not isinstance(value, list) or keys is None or not owned:
        return value
    items = fieldset.elements(value, node, keys)
    if items is None:
        return value
    left_items: list[Any] = []
    for element, item in items.items():
        mine, keeping = owned.get(element), kept.get(element)
        if mine is None:
            left_items.append(item)
        elif keeping is None or (_has_self(mine) and not _has_self(keeping)):
            continue
        else:
            left_items.append(_prune(item, mine, keeping, node.items if node is not None else None))
    same = len(left_items) == len(value) and all(a is b for a, b in zip(left_items, value, strict=True))
    return value if same else left_items


def _has_self(fields: FieldSet) -> bool:
    return not fields or SELF in fields


# ------------------------------------------------------------------------------------------------- conflicts


def _refuse_conflicts(
    live: Object, schema: SchemaNode, manager: str, others: list[Object], taken: list[FieldSet]
) -> None:
    """Raise 409 for the fields in `taken`, each from the entry beside it in `others`.

    kubectl may take over what its own client-side apply wrote, as long as nobody changed it since: upstream's way
    of letting users move to server-side apply without `--force-conflicts`.
    """
    if manager == _KUBECTL:
        allowed = lastapplied.unchanged_fields(live, schema)
        taken = [fieldset.subtract(fields, allowed) for fields in taken]
    conflicts = sorted(
        (_described(entry), path)
        for entry, fields in zip(others, taken, strict=True)
        for path in fieldset.paths(fields)
    )
    if not conflicts:
        return
    causes = [Cause("FieldManagerConflict", f"conflict with {who}", path) for who, path in conflicts]
    if len(conflicts) == 1:
        message = f"Apply failed with 1 conflict: conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        by_manager: dict[str, list[str]] = {}
        for who, path in conflicts:
            by_manager.setdefault(who, []).append(f"- {path}")
        parts = [f"conflicts with {who}:\n" + "\n".join(found) for who, found in by_manager.items()]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(parts)
    raise ApiError(409, "Conflict", message, causes=causes)


def _described(entry: Object) -> str:
    text = _encode(entry.get("manager", "")).decode()
    if entry.get("subresource"):
        text += f" with subresource {_encode(entry['subresource']).decode()}"
    return f"{text} using {entry.get('apiVersion', '')}" if entry.get("operation") == "Update" else text
