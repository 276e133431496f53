"""What a registry asks for with 401: the header `WWW-Authenticate` (RFC 9110, 11.6.1). Pure."""

from __future__ import annotations

import re

import msgspec

_PARAMETER = re.compile(r'([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Challenge(msgspec.Struct, frozen=True):
    """One way to authenticate: `scheme` in lower case, and its parameters."""

    scheme: str
    parameters: dict[str, str] = {}


def parse(header: str) -> Challenge | None:
    """Return the first challenge that can be met, Bearer or Basic; None when there is none."""
    for scheme in ("bearer", "basic"):
        found = re.search(rf"(?:^|,)\s*{scheme}(?=\s|$|,)", header, re.IGNORECASE)
        if found is None:
            continue
        rest = header[found.end() :]
        parameters = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain
            for name, quoted, plain in _PARAMETER.findall(rest)
        }
        if scheme == "basic" or parameters.get("realm"):
            return Challenge(scheme, parameters)
    return None
