"""What a request is about, as authorization and audit see it."""

from __future__ import annotations

import msgspec


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `path` is set for requests that name no resource; `namespace` is empty for cluster scope."""

    user: str
    groups: tuple[str, ...] = ()
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
