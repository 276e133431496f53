"""Actions against a container that probes and lifecycle hooks share: exec, httpGet, tcpSocket, grpc, sleep."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from trainshed.cluster.backend import ByteStream
from trainshed.cluster.sandbox.api import ExecSpec, Runtime, RuntimeLost, SandboxNotFound, StartError
from trainshed.kube.meta.objects import Object

OUTPUT_LIMIT = 10 * 1024
"""Bytes of a probe's output that its event shows (pkg/probe)."""
_SHOWN = 100


class Outcome(msgspec.Struct, frozen=True):
    """Whether an action worked, and what it said if not. `errored`: it could not be tried, which tells nothing of the
    container (pkg/kubelet/prober, an error beside the result)."""

    ok: bool
    message: str = ""
    errored: bool = False


class UnknownPort(ValueError):
    """No port of the container has that name. In the words of a kubelet, which takes it for a number then."""


class Target(msgspec.Struct, frozen=True):
    """The container that actions are for. `ip` is the pod's; on the machine's network that is its loopback, for
    the node has no address there."""

    runtime: Runtime
    uid: str
    ip: str
    container: Object


async def run_hook(target: Target, hook: Mapping[str, Any], timeout: float) -> Outcome:
    """Carry out a lifecycle hook within `timeout` seconds. Never raises for a failure of the container's.

    The API takes `tcpSocket` there and no kubelet knows it: such a hook fails (pkg/kubelet/lifecycle, `Run`).
    """
    if hook.get("tcpSocket"):
        return Outcome(False, "invalid handler: tcpSocket is not supported as a lifecycle hook")
    return await act(target, hook, timeout)


async def act(target: Target, handler: Mapping[str, Any], timeout: float) -> Outcome:
    """Carry out one action within `timeout` seconds. Never raises for a failure of the container's."""
    if handler.get("grpc"):
        # HTTP/2 is memory that a node without such probes does without.
        from trainshed.cluster.node.pod.grpcprobe import ask

        return await ask(target, handler["grpc"], timeout)
    try:
        async with asyncio.timeout(timeout):
            if handler.get("exec"):
                return await _exec(target, handler["exec"].get("command") or [])
            if handler.get("httpGet"):
                return await _http(target, handler["httpGet"])
            if handler.get("tcpSocket"):
                return await _tcp(target, handler["tcpSocket"])
            if handler.get("sleep"):
                await asyncio.sleep(float(handler["sleep"].get("seconds", 0)))
            return Outcome(True)
    except TimeoutError:
        return Outcome(False, _timed_out(target, handler, timeout))
    except (SandboxNotFound, RuntimeLost, StartError, UnknownPort) as error:
        return Outcome(False, str(error), errored=True)


def _timed_out(target: Target, handler: Mapping[str, Any], timeout: float) -> str:
    """Return what a kubelet and Go's network say of an action that took too long."""
    if handler.get("exec"):
        command = json.dumps(" ".join(handler["exec"].get("command") or []), ensure_ascii=False)
        return f"command timed out: {command} timed out after {timeout:g}s"
    if handler.get("httpGet"):
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return f'Get "{_url(target, handler["httpGet"])}": {late}'
    if handler.get("tcpSocket"):
        return f"dial tcp {_authority(target, handler['tcpSocket'])}: i/o timeout"
    return f"timed out after {timeout:g}s"


def port_number(container: Object, port: int | str) -> int:
    """Return a port given by number or by the name of a containerPort. Raises UnknownPort."""
    if isinstance(port, str) and not port.isdigit():
        for declared in container.get("ports") or ():
            if declared.get("name") == port:
                return int(declared["containerPort"])
        raise UnknownPort(f'strconv.Atoi: parsing "{port}": invalid syntax')
    return int(port)


async def _exec(target: Target, command: list[str]) -> Outcome:
    spec = ExecSpec(container=target.container["name"], argv=tuple(command))
    session = await target.runtime.exec(target.uid, spec)
    collected = bytearray()
    try:
        async for _, data in session.output():
            collected += data[: max(0, OUTPUT_LIMIT - len(collected))]
        code = await session.wait()
    finally:
        await session.close()
    return Outcome(
        code == 0, collected.decode(errors="replace").strip() or f"command exited with code {code}"
    )


async def _dial(target: Target, host: str, port: int) -> ByteStream:
    """Connect to `host` from the pod's network. Names are the machine's, as they are the node's to a kubelet."""
    address = host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
    return await target.runtime.dial(target.uid, port, address)


def authority_of(host: str, port: object) -> str:
    """Return host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _tcp(target: Target, handler: Mapping[str, Any]) -> Outcome:
    host = handler.get("host") or target.ip
    try:
        stream = await _dial(target, host, port_number(target.container, handler["port"]))
    except OSError as error:
        return Outcome(False, f"dial tcp {_authority(target, handler)}: {reason_of(error)}")
    await stream.close()
    return Outcome(True)


def _authority(target: Target, handler: Mapping[str, Any]) -> str:
    port = port_number(target.container, handler["port"])
    return authority_of(handler.get("host") or target.ip, port)


def _url(target: Target, handler: Mapping[str, Any]) -> str:
    path = handler.get("path") or "/"
    path = path if path.startswith("/") else f"/{path}"
    scheme = str(handler.get("scheme") or "HTTP").lower()
    return f"{scheme}://{_authority(target, handler)}{path}"


async def _http(target: Target, handler: Mapping[str, Any]) -> Outcome:
    """GET and judge the status code: 200 to 399 is success, redirects are not followed."""
    url, authority = _url(target, handler), _authority(target, handler)
    scheme, _, path = url.partition(f"://{authority}")
    host = handler.get("host") or target.ip
    try:
        stream = await _dial(target, host, port_number(target.container, handler["port"]))
    except OSError as error:
        return Outcome(False, f'Get "{url}": dial tcp {authority}: {reason_of(error)}')
    headers = {"Host": authority, "User-Agent": "kube-probe/1.33", "Accept": "*/*"}
    for header in handler.get("httpHeaders") or ():
        headers[header["name"].title()] = header["value"]
    lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "Connection: close", "", ""]
    request = "\r\n".join(lines).encode()
    try:
        answer = await (_tls_exchange(stream, request) if scheme == "https" else _exchange(stream, request))
        status = _status_of(answer)
    except OSError as error:
        return Outcome(False, f'Get "{url}": {reason_of(error)}')
    finally:
        await stream.close()
    if status is None:
        line = json.dumps(answer[:_SHOWN].decode(errors="replace"), ensure_ascii=False)
        broken = f"net/http: HTTP/1.x transport connection broken: malformed HTTP response {line}"
        return Outcome(False, f'Get "{url}": {broken if answer else "EOF"}')
    if 200 <= status < 400:
        return Outcome(True)
    return Outcome(False, f"HTTP probe failed with statuscode: {status}")


def _status_of(line: bytes) -> int | None:
    """Return the status code of the first line of an answer, None where it is none of HTTP."""
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    return int(code) if version.startswith(b"HTTP/") and code.isdigit() else None


async def _exchange(stream: ByteStream, request: bytes) -> bytes:
    """Send the request; return the status line."""
    await stream.write(request)
    answer = b""
    while b"\r\n" not in answer and len(answer) < OUTPUT_LIMIT:
        data = await stream.read()
        if not data:
            break
        answer += data
    return answer.partition(b"\r\n")[0]


async def _tls_exchange(stream: ByteStream, request: bytes) -> bytes:
    """As `_exchange` inside TLS. Certificates are not verified, as by the kubelet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    answer, sent, handshaken = b"", False, False
    while b"\r\n" not in answer and len(answer) < OUTPUT_LIMIT:
        try:
            if not handshaken:
                tls.do_handshake()
                handshaken = True
            if not sent:
                tls.write(request)
                sent = True
            answer += tls.read(4096)
        except ssl.SSLWantReadError:
            if outgoing.pending:
                await stream.write(outgoing.read())
            data = await stream.read()
            if not data:
                break
            incoming.write(data)
        except ssl.SSLZeroReturnError:
            break
    return answer.partition(b"\r\n")[0]


def reason_of(error: Exception) -> str:
    """Return what went wrong on the way to a server, as Go's network errors put it."""
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    return str(error) or type(error).__name__
