"""One request to an API server, as both ends see it.

The client builds a `Request` and a transport carries it as it is. The server reads the same parts back: what is
asked for from method and path (`kube.wire.route`), how from the query (`kube.wire.options`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

import msgspec

JSON = "application/json"

Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Query parameters in order, as a client sends them; a name may come several times."""

Query: TypeAlias = Mapping[str, Sequence[str]]
"""Query parameters by name, as a server reads them; every name has at least one value."""


class Request(msgspec.Struct, frozen=True):
    """One request, whole. `path` is absolute and not escaped; a body without `content_type` is sent without.

    Attributes:
        headers: more of them, such as `Impersonate-User`.
    """

    method: str
    path: str
    query: Pairs = ()
    body: bytes | None = None
    content_type: str | None = None
    accept: str = JSON
    headers: Pairs = ()

    @property
    def query_string(self) -> str:
        """The query as it stands behind the `?`; empty without parameters."""
        return urlencode(self.query)


def parse_query(text: bytes) -> Query:
    """Return the parameters of a query string; `+` is a space and bare names have an empty value."""
    out: dict[str, list[str]] = {}
    for name, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        out.setdefault(name, []).append(value)
    return out
