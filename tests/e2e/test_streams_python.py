"""The Python client against the stream endpoints: exec with exit codes, and its own form of port-forward."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.local_node import LocalNode
from tests.fakes.stream_api import serving

kubernetes = pytest.importorskip("kubernetes", reason="the Python client is not installed")

DEADLINE = 30.0


@pytest.fixture
async def server() -> AsyncIterator[SimpleNamespace]:
    from kubernetes import client

    node = LocalNode()
    async with serving(node, deadline=DEADLINE) as url:
        configuration = client.Configuration()
        configuration.host = url
        with client.ApiClient(configuration) as api_client:
            yield SimpleNamespace(node=node, api=client.CoreV1Api(api_client))


async def _in_thread(function: Any, *arguments: Any) -> Any:
    """Return the result of blocking code; the server runs in this loop meanwhile."""
    async with asyncio.timeout(DEADLINE):
        return await asyncio.to_thread(function, *arguments)


async def test_exec(server: SimpleNamespace) -> None:
    def run() -> tuple[str, str, int | None]:
        from kubernetes.stream import stream

        connection = stream(
            server.api.connect_get_namespaced_pod_exec,
            "web",
            "default",
            command=["sh", "-c", "read line; echo got $line; echo oops >&2; exit 4"],
            stdin=True,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
        )
        connection.write_stdin("hello\n")
        connection.run_forever(timeout=DEADLINE)
        return connection.read_stdout(), connection.read_stderr(), connection.returncode

    assert await _in_thread(run) == ("got hello\n", "oops\n", 4)


async def test_port_forward(server: SimpleNamespace) -> None:
    """Two ports over one WebSocket; nothing listens behind the second."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write((await reader.readline()).upper())
            await writer.drain()
        writer.close()

    target = await asyncio.start_server(shout, "127.0.0.1", 0)
    closed = await asyncio.start_server(shout, "127.0.0.1", 0)
    server.node.ports = {80: target.sockets[0].getsockname()[1], 81: closed.sockets[0].getsockname()[1]}
    closed.close()
    await closed.wait_closed()

    def run() -> tuple[bytes, str]:
        from kubernetes.stream import portforward

        forward = portforward(
            server.api.connect_get_namespaced_pod_portforward, "web", "default", ports="80,81"
        )
        connection = forward.socket(80)
        connection.setblocking(True)
        connection.sendall(b"hello\n")
        answer = connection.recv(100)
        while forward.connected and not forward.error(81):
            time.sleep(0.01)
        forward.close()
        while forward.connected:
            time.sleep(0.01)
        return answer, forward.error(81)

    answer, error = await _in_thread(run)
    assert answer == b"HELLO\n"
    assert "error forwarding port 81" in error
    target.close()
    await target.wait_closed()
