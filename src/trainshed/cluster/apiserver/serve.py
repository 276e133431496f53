"""The API server on the network: HTTPS over sockets that somebody else opened."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from uvicorn.config import Config
from uvicorn.server import Server

from trainshed.cluster.apiserver.streams.protocol import server_options
from trainshed.cluster.pki import Pki

CONNECTIONS = 2048
KEEP_ALIVE_SECONDS = 120
HANDSHAKE_SECONDS = 10.0
GRACEFUL_SECONDS = 2


class _Server(Server):
    """A uvicorn server whose signals and process belong to the control plane."""

    def __init__(
        self,
        config: Config,
        started: Callable[[], None] | None,
        ending: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._on_started = started
        self._on_ending = ending

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, loop = self.config, asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state={}
            )

        # As uvicorn does, but it leaves asyncio's minute for the handshake, in which nothing bounds a connection.
        self.servers = [
            await loop.create_server(
                connection,
                sock=listener,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
            for listener in sockets or ()
        ]
        self.started = True
        if self._on_started is not None:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Watches end only when told to: otherwise each stop would take the whole grace period.
        if self._on_ending is not None:
            self._on_ending()
        await super().shutdown(sockets)


async def serve(
    app: Any,
    sockets: Sequence[socket.socket],
    pki: Pki,
    stopping: asyncio.Event,
    *,
    started: Callable[[], None] | None = None,
    ending: Callable[[], None] | None = None,
) -> None:
    """Serve `app` over TLS on `sockets` until `stopping` is set or the task is cancelled.

    The sockets are bound already and are closed at the end. In-cluster listeners live in another network
    namespace, so their sockets have to be made there and handed over.

    Args:
        started: called once connections are accepted.
        ending: called when no more are; it should end requests that would go on for ever.
    """
    for listener in sockets:
        # Inherited by accepted connections. asyncio sets it only on sockets that were made with an explicit
        # protocol number; without it each answer waits 40 ms for the client's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = Config(
        app,
        loop="none",
        lifespan="off",
        log_config=None,
        # At INFO it writes down each WebSocket with its query: the commands of exec, secrets and all. At WARNING, a
        # line for each request that is not HTTP: anybody could fill the disk.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        ssl_certfile=pki.server_certificate,
        ssl_keyfile=pki.server_key,
        # Who has a certificate of the cluster's authority may show it; nobody has to.
        ssl_ca_certs=pki.ca_certificate,
        ssl_cert_reqs=ssl.CERT_OPTIONAL,
        **server_options(),
    )
    server = _Server(config, started, ending)
    serving = asyncio.create_task(server.serve(sockets=list(sockets)))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        server.should_exit = True
        await serving
