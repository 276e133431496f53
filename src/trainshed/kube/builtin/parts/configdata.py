"""Rules of the data of ConfigMaps and Secrets.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section

CONFIG_MAX = 1048576
"""Bytes of all values of a ConfigMap or Secret."""


def key_causes(data: Object, path: str) -> Iterator[Cause]:
    """Yield the keys that cannot be file names."""
    for key in data:
        for why in names.config_key(key):
            yield causes.invalid(f"{path}[{key}]", key, why)


def total_causes(data: dict[str, str]) -> Iterator[Cause]:
    """Yield that the values are too large together."""
    if sum(len(value) for value in data.values()) > CONFIG_MAX:
        yield causes.too_long("", CONFIG_MAX)


def frozen_causes(obj: Object, old: Object, fields: tuple[str, ...]) -> Iterator[Cause]:
    """Yield the fields of an immutable object that changed."""
    text = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield causes.forbidden("immutable", text)
    for field in fields:
        if section(obj, field) != section(old, field):
            yield causes.forbidden(field, text)
