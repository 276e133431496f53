"""The smallest API around streams: discovery and one pod, served by uvicorn on a free port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import uvicorn

from tests.fakes.local_node import LocalNode
from trainshed.cluster.apiserver.streams import pods
from trainshed.cluster.apiserver.streams.protocol import server_options
from trainshed.cluster.apiserver.streams.rejection import reject
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.errors import ApiError, not_found
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import discovery
from trainshed.kube.served.registry import Registry
from trainshed.kube.wire import negotiate
from trainshed.kube.wire.asgi import Handshake, Receive, Scope, Send
from trainshed.kube.wire.options import ExecOptions
from trainshed.kube.wire.request import parse_query

POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "uid": "0d7c", "resourceVersion": "1"},
    "spec": {"nodeName": "here", "containers": [{"name": "main", "image": "here", "stdin": True}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]},
}


def make_app(backend: LocalNode) -> Callable[..., object]:
    """Return the smallest API around the streams of one pod."""
    registry = Registry()

    async def stream(scope: Scope, receive: Receive, send: Send, name: str) -> None:
        wanted = ExecOptions.decode(parse_query(scope["query_string"]))
        request = ExecRequest("main", wanted.command, wanted.stdin, wanted.stdout, wanted.stderr, wanted.tty)
        if name == "exec":
            await pods.serve_exec(Handshake(scope, receive, send), backend, POD, request)
        elif name == "attach":
            await pods.serve_attach(Handshake(scope, receive, send), backend, POD, request)
        else:
            await pods.serve_port_forward(Handshake(scope, receive, send), backend, POD)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
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
            await reject(scope, send, error)
            return
        head = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": msgspec.json.encode(body)})

    return app


@contextlib.asynccontextmanager
async def running(app: Callable[..., object], *, deadline: float) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port of this machine; yields its URL."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_level="warning",
        **server_options(),
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(deadline):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        async with asyncio.timeout(deadline):
            await task


@contextlib.asynccontextmanager
async def serving(node: LocalNode, *, deadline: float) -> AsyncIterator[str]:
    """Serve the API; yields its URL. On the way out the server stops, and every process must end."""
    async with running(make_app(node), deadline=deadline) as url:
        yield url
    async with asyncio.timeout(deadline):
        for session in node.sessions:
            await session.closed.wait()
