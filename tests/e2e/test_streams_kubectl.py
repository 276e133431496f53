"""Real kubectl executables against the stream endpoints: every transport that a supported kubectl speaks.

Matrix: kubectl versions × {exit code, stdin to its end, a terminal that is resized, cp,
attach, port-forward in parallel, refusals}. Left out: finding pods and authorisation (the API server's).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.conftest import KUBECTLS
from tests.fakes.local_node import LocalNode, Terminal
from tests.fakes.stream_api import serving

DEADLINE = 30.0


MINORS = ("1.27", "1.29", "1.31", "1.33")
"""Those that must be there, beside newer ones that are: 1.27 and 1.29 speak SPDY, later ones WebSockets."""


def _minor(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


NEWER = sorted((version for version in KUBECTLS if _minor(version) > _minor(MINORS[-1])), key=_minor)


@pytest.fixture(params=[*MINORS, *NEWER])
def kubectl_path(request: pytest.FixtureRequest) -> str:
    if request.param not in KUBECTLS:
        pytest.skip(f"no executable kubectl.{request.param} in PATH, beside kubectl or in KUBECTLS")
    return KUBECTLS[request.param]


class Server:
    def __init__(self, backend: LocalNode, url: str, kubectl: str, home: Path) -> None:
        self.backend, self.url, self.kubectl, self.home = backend, url, kubectl, home

    async def start(self, *arguments: str, **options: object) -> asyncio.subprocess.Process:
        """Start kubectl with pipes unless told otherwise."""
        pipe = asyncio.subprocess.PIPE
        streams_of: dict[str, object] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        command = [self.kubectl, "--server", self.url, *arguments]
        return await asyncio.create_subprocess_exec(*command, env=environment, **streams_of)  # type: ignore[arg-type]

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Return (exit code, stdout, stderr) of a finished kubectl."""
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(DEADLINE):
                out, err = await process.communicate(stdin)
        except TimeoutError:
            process.kill()
            out, err = await process.communicate()
            pytest.fail(f"kubectl {arguments} did not end within {DEADLINE} s: {out!r} {err!r}")
        assert process.returncode is not None
        return process.returncode, out, err.decode()


@pytest.fixture
async def server(kubectl_path: str, tmp_path: Path) -> AsyncIterator[Server]:
    backend = LocalNode()
    async with serving(backend, deadline=DEADLINE) as url:
        yield Server(backend, url, kubectl_path, tmp_path)


async def test_exec_passes_output_and_exit_code(server: Server) -> None:
    code, out, err = await server.run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (code, out) == (3, b"out\n")
    assert "err\n" in err and "command terminated with exit code 3" in err
    assert await server.run("exec", "web", "--", "true") == (0, b"", "")


async def test_exec_streams_stdin_to_its_end(server: Server) -> None:
    """3 MB in and out: more than any buffer on the way; `cat` ends because stdin does."""
    payload = os.urandom(3_000_000)
    code, out, err = await server.run("exec", "-i", "web", "--", "cat", stdin=payload)
    assert (code, err) == (0, "")
    assert out == payload


async def test_exec_ends_while_stdin_is_open_and_unread(server: Server) -> None:
    """Output before an exit arrives even though input is still in flight."""
    process = await server.start("exec", "-i", "web", "--", "sh", "-c", "echo done; exit 5")
    assert process.stdin and process.stdout
    async with asyncio.timeout(DEADLINE):
        assert await process.stdout.read() == b"done\n"
        assert await process.wait() == 5
        process.stdin.close()
        await process.communicate()


async def test_terminal_is_resized(server: Server) -> None:
    """The size at the start, and a later one, reach the process; Ctrl-D ends it."""
    master, slave = pty.openpty()
    _resize(master, 50, 133)
    script = "while read x; do stty size; done; exit 7"
    process = await server.start("exec", "-it", "web", "--", "sh", "-c", script, stdin=slave, stdout=slave)
    os.close(slave)
    with Terminal(master) as terminal:
        await _type_until(terminal, b"50 133")
        _resize(master, 20, 61)
        process.send_signal(signal.SIGWINCH)
        await _type_until(terminal, b"20 61")
        os.write(master, b"\x04")
        async with asyncio.timeout(DEADLINE):
            await process.communicate()
    os.close(master)
    assert process.returncode == 7


def _resize(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _type_until(terminal: Terminal, expected: bytes) -> None:
    """Press Enter until the expected text is shown."""
    seen = b""
    try:
        async with asyncio.timeout(DEADLINE):
            while expected not in seen:
                os.write(terminal.fd, b"\n")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        seen += await terminal.read()
    except TimeoutError:
        pytest.fail(f"the terminal never showed {expected!r}, only {seen!r}")


async def test_killing_kubectl_hangs_up_the_process(server: Server) -> None:
    process = await server.start("exec", "web", "--", "sh", "-c", "echo up; exec sleep 600")
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        assert await process.stdout.readline() == b"up\n"
        process.kill()
        await process.communicate()
        await server.backend.sessions[0].closed.wait()
    assert server.backend.sessions[0].process.returncode == -signal.SIGHUP


async def test_stopping_the_server_hangs_up_the_process(kubectl_path: str, tmp_path: Path) -> None:
    """`serving` waits for every process to end when it stops the server."""
    backend = LocalNode()
    async with serving(backend, deadline=DEADLINE) as url:
        process = await Server(backend, url, kubectl_path, tmp_path).start(
            "exec", "web", "--", "sh", "-c", "echo up; exec sleep 600"
        )
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            assert await process.stdout.readline() == b"up\n"
    await process.communicate()
    assert backend.sessions[0].process.returncode == -signal.SIGHUP


async def test_attach_talks_to_the_main_process(server: Server) -> None:
    code, out, _ = await server.run("attach", "-i", "web", stdin=b"one\ntwo\n")
    assert (code, out) == (0, b"got one\ngot two\n")


async def test_cp_round_trip(server: Server, tmp_path: Path) -> None:
    source, inside, back = tmp_path / "source", tmp_path / "inside", tmp_path / "back"
    source.write_bytes(os.urandom(1_500_000))
    assert (await server.run("cp", str(source), f"web:{inside}"))[0] == 0
    assert (await server.run("cp", f"web:{inside}", str(back)))[0] == 0
    assert back.read_bytes() == source.read_bytes()


async def test_errors_before_the_stream_are_shown(server: Server) -> None:
    code, _, err = await server.run("exec", "web", "--", "no-such-program")
    assert code == 1
    assert "executable file not found" in err


async def test_port_forward_carries_connections_in_parallel(server: Server) -> None:
    """Two connections are open at once, megabytes each; one more after they closed."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data.upper())
                await writer.drain()
        writer.close()

    target = await asyncio.start_server(shout, "127.0.0.1", 0)
    server.backend.ports[80] = target.sockets[0].getsockname()[1]
    process = await server.start("port-forward", "pod/web", ":80")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE):
            line = (await process.stdout.readline()).decode()
            port = int(line.split("->")[0].rsplit(":", 1)[1])

            async def talk(letter: bytes) -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(letter * 500_000)
                answer = await reader.readexactly(500_000)
                writer.close()
                return answer

            assert await asyncio.gather(talk(b"a"), talk(b"b")) == [b"A" * 500_000, b"B" * 500_000]
            assert await talk(b"c") == b"C" * 500_000
    finally:
        process.kill()
        await process.communicate()
        target.close()
        await target.wait_closed()


async def test_port_forward_reports_a_port_where_nothing_listens(server: Server) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    server.backend.ports[81] = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    process = await server.start("port-forward", "pod/web", ":81")
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            line = (await process.stdout.readline()).decode()
            port = int(line.split("->")[0].rsplit(":", 1)[1])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
            message = (await process.stderr.readline()).decode()
        assert "error forwarding port 81 to pod 0d7c" in message
    finally:
        process.kill()
        await process.communicate()
