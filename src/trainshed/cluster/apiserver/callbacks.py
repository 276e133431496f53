"""Where the `clientConfig` of a webhook leads: a URL, or a port of a pod behind a Service."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import socket
from urllib.parse import urlsplit

from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.backend import ByteStream
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, objects, section, spec_of
from trainshed.kube.meta.pods import is_ready, port_named
from trainshed.kube.meta.resources import PODS, SERVICES
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.wire.clienterrors import client_error


class Socket:
    """A TCP connection as a byte stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(64 * 1024)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()


def address(config: Object) -> str:
    """Return the URL that a configuration means, for messages."""
    if config.get("url"):
        return str(config["url"])
    service = section(config, "service")
    path = str(service.get("path") or "/")
    host = f"{service.get('name')}.{service.get('namespace')}.svc"
    return f"https://{host}:{service.get('port', 443)}{path if path.startswith('/') else '/' + path}"


async def call(core: Core, config: Object, body: bytes, seconds: float) -> bytes:
    """POST JSON to where a `clientConfig` leads; return the body of the answer.

    Raises:
        ConnectionError: it cannot be reached, takes too long, or answers with an error or nothing at all. The text says
            why, in the words of upstream's client.
    """
    from trainshed.cluster.apiserver.outgoing import CallFailed, context, post

    # As upstream's client: it tells the webhook how long it has.
    asked = f"{address(config)}?timeout={seconds:g}s"
    url = urlsplit(asked)
    stream: ByteStream | None = None
    try:
        async with asyncio.timeout(seconds):
            trust = context(base64.b64decode(config.get("caBundle") or ""))
            stream = await connect(core, config)
            reply = await post(stream, trust, url.hostname or "", f"{url.path or '/'}?{url.query}", body)
    except TimeoutError as error:
        raise ConnectionError(f'Post "{asked}": context deadline exceeded') from error
    except (CallFailed, OSError, ApiError, binascii.Error) as error:
        why = error.message if isinstance(error, ApiError) else str(error)
        raise ConnectionError(f'Post "{asked}": {why or type(error).__name__}') from error
    finally:
        if stream is not None:
            await stream.close()
    why = client_error(reply.status, reply.content_type, reply.body)
    if why:
        raise ConnectionError(why)
    return reply.body


async def connect(core: Core, config: Object) -> ByteStream:
    """Return a connection to where a `clientConfig` leads. Raises OSError or `ApiError`; the text says why."""
    if config.get("url"):
        url = urlsplit(str(config["url"]))
        host, number = url.hostname or "", url.port or 443
        try:
            return Socket(*await asyncio.open_connection(host, number))
        except socket.gaierror as error:
            raise OSError(f"dial tcp: lookup {host}: no such host") from error
        except OSError as error:
            if error.errno is None:  # several addresses, and none of them answers
                raise
            raise OSError(f"dial tcp {host}:{number}: connect: {os.strerror(error.errno).lower()}") from error
    wanted = section(config, "service")
    name, namespace = str(wanted.get("name")), str(wanted.get("namespace"))
    stored = core.store.get(keys.of(SERVICES, namespace, name))
    if stored is None:
        raise OSError(f'service "{name}" not found')
    service = spec_of(stored.obj)
    number = int(wanted.get("port") or 443)
    port = next((p for p in objects(service, "ports") if p.get("port") == number), None)
    if port is None:
        raise OSError(f'no service port {number} found for service "{name}"')
    pod = pod_behind(core, namespace, service)
    if pod is None or core.nodes is None:
        raise OSError(f'no endpoints available for service "{name}"')
    target = target_port(pod, port)
    if target is None:
        raise OSError(f'no port "{port.get("targetPort")}" in the pods of service "{name}"')
    return await core.nodes.of(pod).port_forward(pod, target)


def target_port(pod: Object, port: Object) -> int | None:
    """Return where a pod serves a port of a Service; None where it has no port of the name that this gives."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    found = (port_named(container, str(target)) for container in objects(spec_of(pod), "containers"))
    return next((one for one in found if one is not None), None)


def pod_behind(core: Core, namespace: str, service: Object) -> Object | None:
    """Return a pod that serves what a Service with this `spec` is for, None where none is ready."""
    selector = section(service, "selector")
    if not selector:
        return None
    chosen = LabelSelector.from_labels(selector)
    for stored in core.store.list(keys.under(PODS, namespace))[0]:
        if chosen.matches(stored.labels) and is_ready(stored.obj) and not is_terminating(stored.obj):
            return stored.obj
    return None
