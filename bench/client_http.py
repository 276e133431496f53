"""Compare HTTP clients for the operator: requests per second and resident memory.

    python bench/client_http.py            # needs aiohttp, httpx, uvicorn, cryptography

One server process (uvicorn, TLS, HTTP/1.1, answers from memory) and one fresh process per client, one after
another. Each client verifies the server's certificate, keeps connections alive, and does the same work:

    get      2,000 GETs of one 4 KiB pod, one at a time
    get x8   4,000 GETs, eight at a time
    post x8  2,000 POSTs of a 4 KiB pod, eight at a time
    list     one list of 5,000 pods (20 MB), read whole
    watch    20,000 watch frames of 1 KiB, read as they come

Memory is the resident set after the import, and its peak after the small requests and after all of them.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import platform
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

POD = json.dumps({"metadata": {"name": "p"}, "spec": {"text": "x" * 4000}}).encode()
LIST_BYTES = len(POD) * 5000 + 4999
FRAMES = 20_000
FRAME = json.dumps({"type": "MODIFIED", "object": {"text": "x" * 960}}).encode() + b"\n"


def resident_kib(field: str = "VmRSS") -> int:
    """Return a field of /proc/self/status in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer from memory."""
    while (await receive()).get("more_body"):
        pass
    # Built here: in a module constant it would count in the memory of the clients.
    body = b",".join([POD] * 5000) if scope["path"] == "/list" else POD
    watching = scope["path"] == "/watch"
    headers = [(b"content-type", b"application/json")]
    if not watching:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if watching:
        for _ in range(FRAMES):
            await send({"type": "http.response.body", "body": FRAME, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


class Http(Protocol):
    """What each client under test has to do."""

    async def request(self, method: str, path: str, body: bytes | None = None) -> bytes: ...
    def stream(self, path: str) -> AsyncIterator[bytes]: ...
    async def close(self) -> None: ...


def with_aiohttp(base: str, context: ssl.SSLContext) -> Http:
    """Return a client on aiohttp."""
    import aiohttp

    class Client:
        def __init__(self) -> None:
            self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

        async def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
            async with self.session.request(method, base + path, data=body) as response:
                return await response.read()

        async def stream(self, path: str) -> AsyncIterator[bytes]:
            async with self.session.get(base + path) as response:
                async for chunk in response.content.iter_any():
                    yield chunk

        async def close(self) -> None:
            await self.session.close()

    return Client()


def with_httpx(base: str, context: ssl.SSLContext) -> Http:
    """Return a client on httpx."""
    import httpx

    class Client:
        def __init__(self) -> None:
            self.client = httpx.AsyncClient(base_url=base, verify=context, timeout=60)

        async def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
            return (await self.client.request(method, path, content=body)).content

        async def stream(self, path: str) -> AsyncIterator[bytes]:
            async with self.client.stream("GET", path) as response:
                async for chunk in response.aiter_raw():
                    yield chunk

        async def close(self) -> None:
            await self.client.aclose()

    return Client()


CLIENTS = {"aiohttp": with_aiohttp, "httpx": with_httpx}


async def rate(count: int, at_once: int, one: Callable[[], Awaitable[bytes]]) -> float:
    """Return calls per second of `count` calls with `at_once` in flight."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await one()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


async def measure(name: str, base: str, authority: str) -> dict[str, float]:
    """Return the results of one client; runs in its own process."""
    context = ssl.create_default_context(cafile=authority)
    client = CLIENTS[name](base, context)
    out: dict[str, float] = {"imported MiB": resident_kib() / 1024}
    await rate(50, 8, lambda: client.request("GET", "/pod"))
    out["get/s"] = await rate(2000, 1, lambda: client.request("GET", "/pod"))
    out["get x8/s"] = await rate(4000, 8, lambda: client.request("GET", "/pod"))
    out["post x8/s"] = await rate(2000, 8, lambda: client.request("POST", "/pods", POD))
    out["small peak MiB"] = resident_kib("VmHWM") / 1024
    started = time.perf_counter()
    assert len(await client.request("GET", "/list")) == LIST_BYTES
    out["list ms"] = (time.perf_counter() - started) * 1000
    started = time.perf_counter()
    read = 0
    async for chunk in client.stream("/watch"):
        read += len(chunk)
    assert read == FRAMES * len(FRAME)
    out["watch frames/s"] = FRAMES / (time.perf_counter() - started)
    out["peak MiB"] = resident_kib("VmHWM") / 1024
    await client.close()
    return out


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1; return (certificate, key)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = directory / "tls.crt", directory / "tls.key"
    paths[0].write_bytes(certificate.public_bytes(pem))
    paths[1].write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def serve(certificate: str, key: str) -> None:
    """Run the server; print its port once it listens."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            app, port=0, log_level="error", lifespan="off", ssl_certfile=certificate, ssl_keyfile=key
        )
    )

    async def main() -> None:
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await task

    asyncio.run(main())


def main() -> None:
    """Measure every client and print a table."""
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = make_certificate(Path(directory))
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", str(certificate), str(key)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            base = f"https://127.0.0.1:{server.stdout.readline().strip()}"
            results: dict[str, dict[str, float]] = {}
            for name in CLIENTS:
                command = [sys.executable, __file__, "measure", name, base, str(certificate)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
                results[name] = json.loads(done.stdout)
        finally:
            server.kill()
            server.wait()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in (*CLIENTS, "uvicorn"))
    print(f"Python {platform.python_version()}, {versions}, {platform.machine()}")
    print(f"{'':16}" + "".join(f"{name:>12}" for name in results))
    for row in next(iter(results.values())):
        print(f"{row:16}" + "".join(f"{found[row]:12.1f}" for found in results.values()))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", certificate_path, key_path]:
            serve(certificate_path, key_path)
        case ["measure", name, url, authority_path]:
            print(json.dumps(asyncio.run(measure(name, url, authority_path))))
        case _:
            main()
