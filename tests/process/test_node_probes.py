"""Probes against real sockets on loopback."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.node_builders import make_container
from trainshed.cluster.node.pod.handlers import Outcome, Target, act, port_number, run_hook
from trainshed.cluster.node.pod.observed import Health
from trainshed.cluster.node.pod.probes import Prober, initial_health
from trainshed.cluster.sandbox.api import StartError


class Connection:
    """A TCP connection as the runtime's `dial` gives it."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    async def read(self):
        return await self._reader.read(4096)

    async def write(self, data):
        self._writer.write(data)
        await self._writer.drain()

    async def close(self):
        self._writer.close()


class Dialler:
    """A runtime that can only connect to loopback, whatever it is asked for."""

    def __init__(self):
        self.asked = []

    async def dial(self, uid, port, address="127.0.0.1"):
        self.asked.append(address)
        return Connection(*await asyncio.open_connection("127.0.0.1", port))


def target(container=None):
    return Target(Dialler(), "u1", "10.88.0.7", container or make_container())


@pytest.fixture
async def server():
    """Return a function that serves an answer and returns its port."""
    servers, requests = [], []

    async def serve(answer: bytes, context=None):
        async def handle(reader, writer):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            writer.close()

        started = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
        servers.append(started)
        return started.sockets[0].getsockname()[1]

    serve.requests = requests
    yield serve
    for started in servers:
        started.close()
        await started.wait_closed()


@pytest.fixture
def tls(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "anyone")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    return context


@pytest.mark.parametrize(
    "status, ok", [(200, True), (204, True), (302, True), (399, True), (404, False), (500, False)]
)
async def test_http_status_codes(server, status, ok):
    port = await server(f"HTTP/1.1 {status} Text\r\nContent-Length: 0\r\n\r\n".encode())
    handler = {"httpGet": {"port": port, "path": "/healthz", "httpHeaders": [{"name": "x-a", "value": "1"}]}}
    outcome = await act(target(), handler, 5)
    assert outcome.ok is ok
    assert ok or outcome.message == f"HTTP probe failed with statuscode: {status}"
    assert server.requests[0].startswith(b"GET /healthz HTTP/1.1\r\n") and b"X-A: 1\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "host, dialled, header",
    [
        (None, "10.88.0.7", "10.88.0.7"),
        ("10.1.2.3", "10.1.2.3", "10.1.2.3"),
        ("localhost", None, "localhost"),
    ],
)
async def test_probes_dial_the_pods_address_unless_they_name_another(server, host, dialled, header):
    port = await server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    named = {"host": host} if host else {}
    whom = target()
    assert await act(whom, {"httpGet": {"port": port, **named}}, 5) == Outcome(True)
    assert await act(whom, {"tcpSocket": {"port": port, **named}}, 5) == Outcome(True)
    dialled = {dialled} if dialled else {"127.0.0.1", "::1"}
    assert set(whom.runtime.asked) <= dialled
    assert f"Host: {header}:{port}\r\n".encode() in server.requests[0]


async def test_https_without_verification(server, tls):
    port = await server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", tls)
    assert await act(target(), {"httpGet": {"port": port, "scheme": "HTTPS"}}, 5) == Outcome(True)


async def test_garbage_and_silence(server):
    port = await server(b"SSH-2.0-OpenSSH\r\n")
    outcome = await act(target(), {"httpGet": {"port": port}}, 5)
    url = f"http://10.88.0.7:{port}/"
    broken = 'net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0-OpenSSH"'
    assert outcome == Outcome(False, f'Get "{url}": {broken}')
    port = await server(b"")
    outcome = await act(target(), {"httpGet": {"port": port}}, 5)
    assert outcome == Outcome(False, f'Get "http://10.88.0.7:{port}/": EOF')


async def test_tcp_by_name_and_refusal(server):
    port = await server(b"")
    named = make_container(ports=[{"name": "web", "containerPort": port}])
    assert await act(target(named), {"tcpSocket": {"port": "web"}}, 5) == Outcome(True)
    assert port_number(named, "web") == port
    refused = await act(target(), {"tcpSocket": {"port": 1}}, 5)
    assert refused == Outcome(False, "dial tcp 10.88.0.7:1: connect: connection refused")
    unknown = await act(target(), {"tcpSocket": {"port": "nope"}}, 5)
    assert unknown == Outcome(False, 'strconv.Atoi: parsing "nope": invalid syntax', errored=True)


class Health1(grpc.GenericRpcHandler):
    """grpc.health.v1.Health by hand: the status of a service by its name."""

    def __init__(self, known):
        self.known = known
        self.callers = []

    def service(self, details):
        if details.method != "/grpc.health.v1.Health/Check":
            return None
        self.callers.append(dict(details.invocation_metadata)["user-agent"])
        return grpc.unary_unary_rpc_method_handler(self.check)

    def check(self, request, context):
        status = self.known.get(request[2:].decode())
        if status is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service: é")
        return b"\x08" + bytes([status]) if status else b""


@pytest.fixture
def health_server():
    """Return a function that serves handlers with grpcio and returns the port."""
    servers = []

    def serve(*handlers):
        served = grpc.server(ThreadPoolExecutor(2), handlers)
        servers.append(served)
        port = served.add_insecure_port("127.0.0.1:0")
        served.start()
        return port

    yield serve
    for served in servers:
        served.stop(None).wait(5)


@pytest.mark.parametrize(
    "service, message",
    [
        (None, None),
        ("model", None),
        ("draining", 'service unhealthy (responded with "NOT_SERVING")'),
        ("starting", 'service unhealthy (responded with "UNKNOWN")'),
        (
            "other",
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service: é",
        ),
    ],
)
async def test_grpc_health_of_a_real_server(health_server, service, message):
    health = Health1({"": 1, "model": 1, "draining": 2, "starting": 0})
    handler = {"port": health_server(health), **({"service": service} if service else {})}
    outcome = await act(target(), {"grpc": handler}, 10)
    assert outcome == (Outcome(True) if message is None else Outcome(False, message))
    assert health.callers == ["kube-probe/1.33"]


async def test_grpc_server_without_the_health_service(health_server):
    outcome = await act(target(), {"grpc": {"port": health_server()}}, 10)
    words = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
    assert not outcome.ok and outcome.message.startswith(words)


async def test_grpc_where_nothing_or_something_else_listens(server):
    refused = await act(target(), {"grpc": {"port": 1}}, 0.3)
    words = 'timeout: failed to connect service "10.88.0.7:1" within 0.3s: context deadline exceeded'
    assert refused == Outcome(False, words)
    http = await act(target(), {"grpc": {"port": await server(b"HTTP/1.1 400 Bad Request\r\n\r\n")}}, 10)
    assert not http.ok and http.message.startswith("error: health rpc probe failed: rpc error: code = ")

    async def say_nothing(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        outcome = await act(target(), {"grpc": {"port": port}}, 0.3)
        assert outcome == Outcome(False, "timeout: health rpc did not complete within 0.3s")


async def test_a_tcp_hook_fails_as_with_a_kubelet_which_knows_none(server):
    port = await server(b"")
    assert await act(target(), {"tcpSocket": {"port": port}}, 5) == Outcome(True)
    outcome = await run_hook(target(), {"tcpSocket": {"port": port}}, 5)
    assert not outcome.ok and outcome.message.startswith("invalid handler")


class Hanging:
    """A runtime that never comes to an end."""

    async def dial(self, uid, port, address=""):
        await asyncio.Event().wait()

    async def exec(self, uid, spec):
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ({"sleep": {"seconds": 60}}, "timed out after 0.01s"),
        ({"exec": {"command": ["a", "b"]}}, 'command timed out: "a b" timed out after 0.01s'),
        ({"tcpSocket": {"port": 8}}, "dial tcp 10.88.0.7:8: i/o timeout"),
        (
            {"httpGet": {"port": 8, "path": "x"}},
            'Get "http://10.88.0.7:8/x": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        ),
    ],
)
async def test_an_action_that_hangs_times_out(handler, said):
    whom = Target(Hanging(), "u1", "10.88.0.7", make_container())
    assert await act(whom, handler, 0.01) == Outcome(False, said)


async def test_a_probe_that_cannot_be_made_does_not_count():
    """A command that does not exist, a daemon that is being started again: a kubelet throws the result away."""

    class Lost(Dialler):
        async def exec(self, uid, spec):
            tried.append(spec.argv)
            if len(tried) == 5:
                enough.set()
            raise StartError(127, 'exec: "nope": executable file not found in $PATH')

    tried: list[tuple[str, ...]] = []
    enough = asyncio.Event()
    seen: list[Health] = []
    told: list[tuple[str, str]] = []
    probe = {"exec": {"command": ["nope"]}, "periodSeconds": 0.01, "failureThreshold": 1}
    container = make_container(livenessProbe=probe)
    prober = Prober(
        Target(Lost(), "u1", "10.88.0.7", container),
        health=initial_health(container),
        on_health=seen.append,
        on_failure=lambda kind, message: told.append((kind, message)),
    )
    prober.start()
    try:
        async with asyncio.timeout(5):
            await enough.wait()
    finally:
        prober.stop()
    assert not seen
    words = 'errored and resulted in unknown state: exec: "nope": executable file not found in $PATH'
    assert set(told) == {("Liveness", words)}


async def test_startup_then_readiness_then_liveness(server):
    """The startup probe holds the others; a port that closes makes the container unready, then unhealthy."""
    port = await server(b"")
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 0.01, "failureThreshold": 2}
    container = make_container(
        startupProbe=probe, readinessProbe=probe, livenessProbe={**probe, "failureThreshold": 4}
    )
    seen: list[Health] = []
    failures: list[str] = []
    changed = asyncio.Event()

    def on_health(health):
        seen.append(health)
        changed.set()

    prober = Prober(
        Target(Dialler(), "u1", "10.88.0.7", container),
        health=initial_health(container),
        on_health=on_health,
        on_failure=lambda kind, message: failures.append(kind),
    )
    prober.start()

    async def until(true, what):
        async with asyncio.timeout(5):
            while not true():
                changed.clear()
                await changed.wait()

    try:
        await until(lambda: seen and seen[-1].ready, "ready")
        assert [(h.started, h.ready) for h in seen] == [(True, False), (True, True)]
        probe["tcpSocket"]["port"] = 1
        await until(lambda: seen[-1].failure, "unhealthy")
        assert Health(started=True, ready=False) in seen
        assert seen[-1].failure == "Container main failed liveness probe, will be restarted"
        assert {"Readiness", "Liveness"} <= set(failures)
    finally:
        prober.stop()


async def test_a_server_that_takes_a_moment_is_ready_before_the_next_period():
    """It is looked at between the tries that count; looks that fail are no failures of the container."""
    looks: list[int] = []
    ready = asyncio.Event()
    failures: list[str] = []

    class Slow(Dialler):
        async def dial(self, uid, port, address="127.0.0.1"):
            looks.append(port)
            if len(looks) < 3:
                raise ConnectionRefusedError(111, "refused")
            return await super().dial(uid, port, address)

    async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        container = make_container(readinessProbe={"tcpSocket": {"port": port}, "periodSeconds": 3600})
        prober = Prober(
            Target(Slow(), "u1", "10.88.0.7", container),
            health=initial_health(container),
            on_health=lambda health: ready.set() if health.ready else None,
            on_failure=lambda kind, message: failures.append(message),
        )
        prober.start()
        try:
            await asyncio.wait_for(ready.wait(), 5)
        finally:
            prober.stop()
    assert len(looks) == 4 and not failures
