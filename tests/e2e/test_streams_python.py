"""The Python client against the stream endpoints: exec with exit codes, and its own form of port-forward.

The client runs in a process of its own: it leaves sockets open, which would fail whatever test runs when the
collector finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
from typing import Any

import pytest

from tests.fakes.local_node import LocalNode
from tests.fakes.stream_api import serving

DEADLINE = 30.0
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("kubernetes") is None, reason="the Python client is not installed"
)

PREAMBLE = """
import json, sys, time
from kubernetes import client
from kubernetes.stream import portforward, stream
configuration = client.Configuration()
configuration.host = sys.argv[1]
api = client.CoreV1Api(client.ApiClient(configuration))
"""

EXEC = """
connection = stream(
    api.connect_get_namespaced_pod_exec, "web", "default",
    command=["sh", "-c", "read line; echo got $line; echo oops >&2; exit 4"],
    stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
)
connection.write_stdin("hello\\n")
connection.run_forever(timeout=20)
print(json.dumps([connection.read_stdout(), connection.read_stderr(), connection.returncode]))
"""

PORT_FORWARD = """
forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports="80,81")
connection = forward.socket(80)
connection.setblocking(True)
connection.sendall(b"hello\\n")
answer = connection.recv(100).decode()
while forward.connected and not forward.error(81):
    time.sleep(0.01)
print(json.dumps([answer, forward.error(81)]))
"""


async def run_client(url: str, script: str) -> Any:
    """Return the JSON that a script of the Python client prints."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PREAMBLE + script, url, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(DEADLINE):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        pytest.fail(f"the client did not end within {DEADLINE} s: {out!r} {err!r}")
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_exec() -> None:
    async with serving(LocalNode(), deadline=DEADLINE) as url:
        assert await run_client(url, EXEC) == ["got hello\n", "oops\n", 4]


async def test_port_forward() -> None:
    """Two ports over one WebSocket; nothing listens behind the second."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write((await reader.readline()).upper())
            await writer.drain()
        writer.close()

    target = await asyncio.start_server(shout, "127.0.0.1", 0)
    closed = await asyncio.start_server(shout, "127.0.0.1", 0)
    node = LocalNode()
    node.ports = {80: target.sockets[0].getsockname()[1], 81: closed.sockets[0].getsockname()[1]}
    closed.close()
    await closed.wait_closed()
    async with serving(node, deadline=DEADLINE) as url:
        answer, error = await run_client(url, PORT_FORWARD)
    assert answer == "HELLO\n"
    assert "error forwarding port 81" in error
    target.close()
    await target.wait_closed()
