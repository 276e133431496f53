"""The system's certificate authorities, read when a connection needs them.

aiohttp makes the context that verifies public servers as it is imported, and all certificates of the system are read
for it: a tenth of what a command takes, for servers that few commands talk to.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Late(ssl.SSLContext):
    """A context that reads the system's authorities before its first connection."""

    wanted: ssl.Purpose | None

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        self._read()
        return super().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        self._read()
        return super().wrap_socket(*args, **kwargs)

    def _read(self) -> None:
        if self.wanted is not None:
            self.load_default_certs(self.wanted)
            self.wanted = None


@contextmanager
def read_later() -> Iterator[None]:
    """Let contexts that are made meanwhile read the system's authorities when they are first used."""
    now = ssl.SSLContext.load_default_certs

    def later(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        if type(context) is not ssl.SSLContext:
            return now(context, purpose)
        context.__class__ = _Late
        assert isinstance(context, _Late)
        context.wanted = purpose
        return None

    ssl.SSLContext.load_default_certs = later  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        ssl.SSLContext.load_default_certs = now  # type: ignore[method-assign]
