"""Who owns which field: `metadata.managedFields` of writes that are no applies.

An entry is identified by manager, operation and subresource, and for updates also by API version. A write takes
the fields that it changed from every other entry; entries that own nothing vanish.

Source: KEP-555 and the API reference's "Field management" page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, metadata_of, section
from trainshed.kube.patch import fieldset
from trainshed.kube.patch.fieldset import FieldSet
from trainshed.kube.schema.nodes import SchemaNode

MAX_UPDATE_ENTRIES = 10
"""More update entries than this are folded, oldest first, into one of manager `ancient-changes` per API version."""

_ANCIENT = "ancient-changes"

_encode = msgspec.json.Encoder(order="sorted").encode


def track_update(
    old: Object | None,
    new: Object,
    schema: SchemaNode,
    *,
    manager: str,
    subresource: str,
    now: str,
    ignored: str = "",
) -> Object:
    """Return `new` with `metadata.managedFields` as they stand after this create (`old` None), update or patch.

    A writer may replace managedFields on the main resource, which is how kubectl turns client-side applied
    objects into server-side applied ones. An explicit `[]` or `[{}]` clears them; then nothing is tracked until
    the next apply. Leaving them out, or sending something unreadable, keeps the stored ones.

    Args:
        manager: who writes.
        subresource: empty, or e.g. `status`.
        now: RFC 3339 time of the write, seconds.
        ignored: a field of the object that this path does not write, whatever is sent, and so does not own.
    """
    entries = _entries_before(old, new, subresource)
    if entries is None or (old is not None and not entries):
        return with_entries(new, [])
    changed, removed = fieldset.compare(old if old is not None else {}, new, schema)
    if ignored:
        changed.pop("f:" + ignored, None)
    if not changed and not removed:
        return with_entries(new, entries)
    out: list[Object] = []
    for entry in entries:
        left = fieldset.subtract(fieldset.subtract(entry["fieldsV1"], changed), removed)
        if left is entry["fieldsV1"]:
            out.append(entry)
        elif left or _identity(entry) == (manager, "Update", new.get("apiVersion"), subresource):
            out.append({**entry, "fieldsV1": left})
    if changed:
        _claim(out, changed, manager, str(new.get("apiVersion", "")), subresource, now)
    return with_entries(new, _capped([entry for entry in out if entry["fieldsV1"]]))


def entries_of(obj: Object) -> list[Object]:
    """Return the readable entries of an object; malformed managedFields count as none."""
    return _readable(metadata_of(obj).get("managedFields")) or []


def with_entries(obj: Object, entries: list[Object]) -> Object:
    """Return `obj` with `entries` as its managedFields, or without the field when there are none."""
    metadata = metadata_of(obj)
    if entries:
        if metadata.get("managedFields") == entries:
            return obj
        return {**obj, "metadata": {**metadata, "managedFields": entries}}
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def in_order(entries: Sequence[Object]) -> list[Object]:
    """Return entries as the API shows them: applies first, then by time and manager."""
    return sorted(
        entries,
        key=lambda e: (
            e.get("operation", ""),
            e.get("time") or "",
            e.get("manager", ""),
            e.get("apiVersion", ""),
            e.get("subresource") or "",
        ),
    )


def make_entry(
    manager: str, operation: str, api_version: str, subresource: str, now: str, fields: FieldSet
) -> Object:
    """Return one entry in the wire form; without a time when `now` is empty."""
    entry: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if now:
        entry["time"] = now
    if subresource:
        entry["subresource"] = subresource
    return entry


def same_but_times(old: Object, new: Object) -> bool:
    """Return whether a write would change nothing but the times of managedFields entries: it is then not made.

    The comparison is of JSON, not of Python values: true is not 1.
    """
    before, after = _without_times(old), _without_times(new)
    return before == after and _encode(before) == _encode(after)


def _without_times(obj: Object) -> Object:
    metadata = metadata_of(obj)
    entries = metadata.get("managedFields")
    if not isinstance(entries, list):
        return obj
    kept = [{k: v for k, v in e.items() if k != "time"} if isinstance(e, dict) else e for e in entries]
    kept.sort(key=lambda e: str(_identity(e)) if isinstance(e, dict) else "")
    return {**obj, "metadata": {**metadata, "managedFields": kept}}


def _identity(entry: Object) -> tuple[Any, ...]:
    return (
        entry.get("manager", ""),
        entry.get("operation"),
        entry.get("apiVersion"),
        entry.get("subresource") or "",
    )


def _entries_before(old: Object | None, new: Object, subresource: str) -> list[Object] | None:
    """Return the entries that the write starts from; None when the writer clears them."""
    stored = metadata_of(old).get("managedFields") if old is not None else None
    metadata = metadata_of(new)
    if subresource or "managedFields" not in metadata:
        return _readable(stored) or []
    sent = metadata["managedFields"]
    if sent == [] or sent == [{}]:
        return None if old is not None else []
    if sent is stored or sent == stored:
        return _readable(stored) or []
    readable = _readable(sent)
    return readable if readable is not None else _readable(stored) or []


def _readable(entries: Any) -> list[Object] | None:
    """Return well-formed entries, those with the same identity joined; None when they are not well-formed."""
    if not isinstance(entries, list):
        return None
    seen: dict[tuple[Any, ...], Object] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
            return None
        if not isinstance(entry.get("manager", ""), str) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            return None
        if not isinstance(entry.get("fieldsV1") or {}, dict):
            return None
        fields = section(entry, "fieldsV1")
        identity = _identity(entry)
        if identity in seen:
            fields = fieldset.union(seen[identity]["fieldsV1"], fields)
            seen[identity] = {**seen[identity], "fieldsV1": fields}
        elif "fieldsV1" in entry:
            seen[identity] = entry
        else:
            seen[identity] = {**entry, "fieldsV1": {}}
    return list(seen.values())


def _claim(
    entries: list[Object], fields: FieldSet, manager: str, api_version: str, subresource: str, now: str
) -> None:
    """Add `fields` to the manager's update entry in `entries`, which is made if needed."""
    for i, entry in enumerate(entries):
        if _identity(entry) == (manager, "Update", api_version, subresource):
            entries[i] = {**entry, "time": now, "fieldsV1": fieldset.union(entry["fieldsV1"], fields)}
            return
    entries.append(make_entry(manager, "Update", api_version, subresource, now, fields))


def _capped(entries: list[Object]) -> list[Object]:
    updates = [entry for entry in entries if entry["operation"] == "Update"]
    surplus = len(updates) - MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return in_order(entries)
    updates.sort(key=lambda e: (e["manager"] != _ANCIENT, e.get("time") or ""))
    # One of the surplus becomes the folded entry itself.
    folded: dict[str, Object] = {}
    for entry in updates[: surplus + 1]:
        version = entry.get("apiVersion", "")
        before = folded.get(version, {}).get("fieldsV1", {})
        fields = fieldset.union(before, entry["fieldsV1"])
        folded[version] = make_entry(_ANCIENT, "Update", version, "", entry.get("time") or "", fields)
    applies = [entry for entry in entries if entry["operation"] == "Apply"]
    return in_order([*applies, *folded.values(), *updates[surplus + 1 :]])
