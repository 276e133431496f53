"""Real kubectl executables against the stream endpoints: every transport that a supported kubectl speaks.

The server is the smallest API that kubectl needs around a stream: discovery and one pod, whose "container"
is this machine. Matrix: kubectl versions × {exit code, stdin to its end, a terminal that is resized, cp,
attach, port-forward in parallel, refusals}. Left out: finding pods and authorisation (the API server's).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import pytest
import uvicorn

from trainshed.cluster.apiserver import streams
from trainshed.cluster.backend import LogOptions
from trainshed.kube import discovery, negotiate
from trainshed.kube.errors import ApiError, bad_request, not_found
from trainshed.kube.registry import Registry
from trainshed.kube.resources import Object

DEADLINE = 30.0
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "uid": "0d7c", "resourceVersion": "1"},
    "spec": {"nodeName": "here", "containers": [{"name": "main", "image": "here", "stdin": True}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]},
}


def _find_kubectls() -> dict[str, str]:
    """Return minor version -> executable, from PATH and from beside the kubectl found there."""
    found: dict[str, str] = {}
    plain = shutil.which("kubectl")
    folders = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    if plain:
        folders.append(Path(plain).resolve().parent)
    for folder in folders:
        for path in folder.glob("kubectl.1.*"):
            found.setdefault(path.name.removeprefix("kubectl."), str(path))
    return found


KUBECTLS = _find_kubectls()
MINORS = ("1.27", "1.29", "1.31", "1.33")


@pytest.fixture(params=MINORS)
def kubectl_path(request: pytest.FixtureRequest) -> str:
    if request.param not in KUBECTLS:
        pytest.skip(f"no executable kubectl.{request.param} in PATH or beside kubectl")
    return KUBECTLS[request.param]


class LocalProcess:
    """An `ExecSession` on this machine; with `tty` behind a pseudo-terminal."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process
        self.master: int | None = None
        self.closed = asyncio.Event()

    @classmethod
    async def start(cls, command: Sequence[str], *, stdin: bool, tty: bool) -> LocalProcess:
        self = cls()
        pipe = asyncio.subprocess.PIPE
        if tty:
            self.master, slave = pty.openpty()
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
            )
            os.close(slave)
        else:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe if stdin else asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        return self

    async def write_stdin(self, data: bytes) -> None:
        if self.master is not None:
            os.write(self.master, data)
        elif self.process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(data)
                await self.process.stdin.drain()

    async def close_stdin(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        if self.master is not None:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        if self.master is not None:
            terminal = Terminal(self.master)
            with terminal:
                while data := await terminal.read():
                    yield 1, data
            return

        async def pump(channel: int, reader: asyncio.StreamReader) -> None:
            while data := await reader.read(65536):
                await queue.put((channel, data))

        assert self.process.stdout and self.process.stderr
        pumps = asyncio.gather(pump(1, self.process.stdout), pump(2, self.process.stderr))
        pumps.add_done_callback(lambda _: queue.put_nowait((0, b"")))
        while (item := await queue.get())[0]:
            yield item

    async def wait(self) -> int:
        return await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGHUP)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self.process.wait()
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
        if self.master is not None:
            os.close(self.master)
            self.master = None
        self.closed.set()


class Terminal:
    """Reads the controlling side of a pseudo-terminal."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        os.set_blocking(fd, False)

    def __enter__(self) -> Terminal:
        asyncio.get_running_loop().add_reader(self.fd, self._ready)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self.fd)

    def _ready(self) -> None:
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # EIO: the other side is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.fd)
        self._queue.put_nowait(data)

    async def read(self) -> bytes:
        return await self._queue.get()


class Tcp:
    """A `ByteStream` to a local port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> bytes:
        return await self.reader.read(65536)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def write_eof(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Backend:
    """A `NodeBackend` on this machine; `ports` maps the pod's ports to local ones."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.sessions: list[LocalProcess] = []
        self.main = ["sh", "-c", "while read line; do echo got $line; done; exit 3"]

    def logs(self, pod: Object, options: LogOptions) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def exec(
        self, pod: Object, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> LocalProcess:
        try:
            session = await LocalProcess.start(command, stdin=stdin, tty=tty)
        except FileNotFoundError as error:
            raise bad_request(f'exec: "{command[0]}": executable file not found') from error
        self.sessions.append(session)
        return session

    async def attach(self, pod: Object, container: str, *, stdin: bool, tty: bool) -> LocalProcess:
        return await self.exec(pod, container, self.main, stdin=stdin, tty=tty)

    async def port_forward(self, pod: Object, port: int) -> Tcp:
        return Tcp(*await asyncio.open_connection("127.0.0.1", self.ports[port]))


def make_app(backend: Backend) -> Callable[..., object]:
    """Return the smallest API around the streams of one pod."""
    registry = Registry()

    async def stream(scope: streams.Scope, receive: streams.Receive, send: streams.Send, name: str) -> None:
        query = parse_qs(scope["query_string"].decode())

        def flag(key: str) -> bool:
            return query.get(key, [""])[0] in ("true", "1")

        flags = {key: flag(key) for key in ("stdin", "stdout", "stderr", "tty")}
        if name == "exec":
            command = query.get("command", [])
            await streams.serve_exec(scope, receive, send, backend, POD, "main", command, **flags)
        elif name == "attach":
            await streams.serve_attach(scope, receive, send, backend, POD, "main", **flags)
        else:
            await streams.serve_port_forward(scope, receive, send, backend, POD)

    async def app(scope: streams.Scope, receive: streams.Receive, send: streams.Send) -> None:
        path = scope["path"].rstrip("/")
        parts = path.strip("/").split("/")
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        try:
            if path.startswith("/api/v1/namespaces/default/pods/web/"):
                await stream(scope, receive, send, parts[-1])
                return
            if path in ("/api", "/apis"):
                form = negotiate.for_discovery(headers.get("accept"))
                body = discovery.aggregated(registry, core=path == "/api", version=form.version)
                content_type = form.content_type
            elif path == "/api/v1/namespaces/default/pods/web":
                body, content_type = POD, "application/json"
            else:
                raise not_found("pods", "", parts[-1])
        except ApiError as error:
            await streams.reject(scope, send, error)
            return
        head = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": msgspec.json.encode(body)})

    return app


class Server:
    def __init__(self, backend: Backend, url: str, kubectl: str, home: Path) -> None:
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
    backend = Backend()
    config = uvicorn.Config(
        make_app(backend),
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_level="warning",
        **streams.server_options(),
    )
    http = uvicorn.Server(config)
    task = asyncio.create_task(http.serve())
    async with asyncio.timeout(DEADLINE):
        while not http.started:
            await asyncio.sleep(0.01)
    port = http.servers[0].sockets[0].getsockname()[1]
    yield Server(backend, f"http://127.0.0.1:{port}", kubectl_path, tmp_path)
    http.should_exit = True
    async with asyncio.timeout(DEADLINE):
        await task
        for session in backend.sessions:
            await session.closed.wait()


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
