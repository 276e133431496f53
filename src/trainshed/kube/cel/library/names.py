"""Named formats. Source: the Kubernetes documentation, "CEL in Kubernetes"; `apiserver/pkg/cel/library/format.go`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import ClassVar

import msgspec

from trainshed.kube.cel.library import urls
from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.library.times import read_timestamp
from trainshed.kube.cel.values import NONE, Optional, present
from trainshed.kube.meta import names
from trainshed.kube.meta.times import parse_date

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class Format(msgspec.Struct, frozen=True):
    """A format that texts may have."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(names.as_prefix(text))


def _uri(text: str) -> list[str]:
    said = urls.fault(text)
    return [said] if said else []


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        parse_date(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        read_timestamp(text.upper())
    except ValueError:
        return ["invalid datetime"]
    return []


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(names.dns_1035_label),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"],
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


def _declare(name: str) -> None:
    found = Format(name)
    function(f"format.{name}")(lambda: found)


for _name in _FORMATS:
    _declare(_name)
function("format.named", str)(lambda name: present(Format(name)) if name in _FORMATS else NONE)


@member("validate", Format, str)
def _validate(held: Format, text: str) -> Optional:
    said = _FORMATS[held.name](text)
    return present(said) if said else NONE
