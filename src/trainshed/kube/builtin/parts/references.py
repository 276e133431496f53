"""Rules of references from one object to another, by group, kind and name, and of names of controllers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object

_PATH_CHARACTERS = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH = re.compile(_PATH_CHARACTERS)


def typed_reference_causes(reference: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with `apiGroup`, `kind` and `name`."""
    if reference.get("apiGroup") is not None:
        for text in names.dns_subdomain(reference["apiGroup"]):
            yield causes.invalid(f"{path}.apiGroup", reference["apiGroup"], text)
    for field in ("kind", "name"):
        value = reference.get(field)
        if not value:
            yield causes.required(f"{path}.{field}", f"{field} is required")
            continue
        for text in names.path_segment(value):
            yield causes.invalid(f"{path}.{field}", value, text)


def prefixed_path_causes(text: str, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a name such as `example.com/controller`."""
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        yield causes.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for why in names.dns_subdomain(domain):
        yield causes.invalid(path, domain, why)
    if not _PATH.fullmatch(rest):
        yield causes.invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH_CHARACTERS}')")
