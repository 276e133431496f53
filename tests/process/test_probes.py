"""The operator's probes over HTTP."""

from __future__ import annotations

import asyncio

from trainshed.operator import probes


async def test_probes_answer_http() -> None:
    server = await probes.serve(("127.0.0.1", 0), {"/healthz": lambda: probes.plain(200, "ok")})
    port = server.sockets[0].getsockname()[1]

    async def ask(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return answer

    async with server:
        found = await ask(b"GET /healthz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200 OK\r\n") and found.endswith(b"\r\n\r\nok")
        assert (await ask(b"GET /other HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await ask(b"POST /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await ask(b"HEAD /healthz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert await ask(b"x" * 20_000 + b"\r\n\r\n") == b"", "too long: closed without an answer"
