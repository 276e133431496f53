"""ConfigMaps: data under keys that can be file names, at most 1 MiB, perhaps immutable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.configdata import frozen_causes, key_causes, total_causes
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import CONFIGMAPS


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ConfigMap."""
    data, binary = section(obj, "data"), section(obj, "binaryData")
    yield from key_causes(data, "data")
    yield from key_causes(binary, "binaryData")
    for key in data:
        if key in binary:
            text = f"duplicate of key present in binaryData: {key}"
            yield causes.invalid(f"data[{key}]", key, text)
    yield from total_causes({**data, **binary})
    if old is not None and old.get("immutable"):
        yield from frozen_causes(obj, old, ("data", "binaryData"))


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


KIND = Builtin(
    info=row(CONFIGMAPS, "cm"),
    does="env, envFrom and volumes of pods; changes reach mounted volumes",
    check=_check,
    columns=Columns(define("Name, Data, Age"), _row),
    viewed=("",),
    edited=("",),
)
