"""The annotation of kubectl's client-side apply, where server-side apply has to mind it.

Users move from one to the other without `--force-conflicts`, and back: what kubectl's client-side apply wrote may
be taken over by kubectl's server-side apply, and the annotation follows.
"""

from __future__ import annotations

import msgspec

from trainshed.kube.meta.objects import Object, metadata_of, section
from trainshed.kube.patch import fieldset
from trainshed.kube.patch.fieldset import FieldSet
from trainshed.kube.schema.nodes import SchemaNode

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Written and read by kubectl's client-side apply; the server only refreshes it after kubectl's server-side apply."""

MAX_ANNOTATIONS_BYTES = 262144
"""Largest sum of keys and values of all annotations of an object."""

_encode = msgspec.json.Encoder(order="sorted").encode


def unchanged_fields(live: Object, schema: SchemaNode) -> FieldSet:
    """Return the fields of the last client-side apply that still have the applied value; none without one."""
    text = section(live, "metadata", "annotations").get(LAST_APPLIED)
    if not isinstance(text, str):
        return {}
    try:
        last = msgspec.json.decode(text, type=dict)
    except msgspec.MsgspecError:
        return {}
    changed, removed = fieldset.compare(last, live, schema)
    return fieldset.subtract(fieldset.subtract(fieldset.owned_by(last, schema), changed), removed)


def refreshed(obj: Object, applied: Object) -> Object:
    """Return `obj` with its annotation, if it has one, telling the configuration that was just applied.

    An annotation that would make the annotations too large is dropped, as upstream does.
    """
    metadata = metadata_of(obj)
    annotations = section(metadata, "annotations")
    if LAST_APPLIED not in annotations:
        return obj
    sent = metadata_of(applied)
    told = {key: value for key, value in section(sent, "annotations").items() if key != LAST_APPLIED}
    kept = {key: value for key, value in sent.items() if key != "annotations"}
    if told:
        kept["annotations"] = told
    text = _encode({**applied, "metadata": kept}).decode() + "\n"
    updated = {**annotations, LAST_APPLIED: text}
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in updated.items())
        > MAX_ANNOTATIONS_BYTES
    ):
        del updated[LAST_APPLIED]
    return {**obj, "metadata": {**metadata, "annotations": updated}}
