"""The plain-HTTP endpoints: metrics and health probes. GET and HEAD of fixed paths, nothing else.

Forty lines on a stream instead of a web framework: these answer a kubelet and a scraper, and the operator's
memory is the smaller for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

Answer: TypeAlias = tuple[int, str, str]
"""Status, content type, text."""
Routes: TypeAlias = Mapping[str, Callable[[], Answer]]

REQUEST_SECONDS = 5.0
MAX_REQUEST_BYTES = 16_384
_PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


def plain(status: int, text: str) -> Answer:
    """Return a text/plain answer."""
    return status, "text/plain; charset=utf-8", text


def parse_address(text: str) -> tuple[str | None, int] | None:
    """Return (host or None for all, port) of `[host]:port`; None for `0`, which turns the endpoint off.

    ValueError for anything else.
    """
    if text in ("0", ""):
        return None
    host, separator, port = text.rpartition(":")
    if not (separator and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{text!r} is not [host]:port")
    return host.strip("[]") or None, int(port)


async def serve(address: tuple[str | None, int], routes: Routes) -> asyncio.Server:
    """Return a running server; OSError when the port is taken."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, routes))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a scraper that went away
        finally:
            writer.close()

    host, port = address
    return await asyncio.start_server(connected, host, port, limit=MAX_REQUEST_BYTES)


def _answer(head: bytes, routes: Routes) -> bytes:
    method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in ("GET", "HEAD"):
        status, content_type, text = plain(405, "method not allowed")
    elif path in routes:
        status, content_type, text = routes[path]()
    else:
        status, content_type, text = plain(404, "404 page not found")
    body = text.encode()
    headers = (
        f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return headers.encode() + (b"" if method == "HEAD" else body)
