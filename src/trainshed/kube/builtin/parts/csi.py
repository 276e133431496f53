"""What kinds of the Container Storage Interface share."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause

_NAME_MAX = 63


def driver_name_causes(name: str, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of a driver where an object names one."""
    if not name:
        yield causes.required(path)
    if len(name) > _NAME_MAX:
        yield causes.too_long(path, _NAME_MAX)
    for why in names.dns_subdomain(name.lower()):
        yield causes.invalid(path, name, why)
