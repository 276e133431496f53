"""The API server on the network: HTTPS over sockets that somebody else opened."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

from trainshed.cluster.apiserver.streams import server_options

CONNECTIONS = 2048
GRACEFUL_SECONDS = 2


class _Server(uvicorn.Server):
    """A uvicorn server whose signals and process belong to the control plane."""

    def capture_signals(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


class HttpsServer:
    """Serves `app` on `sockets` until `close`.

    The sockets are bound and may be listening already; they are closed with the server. In-cluster listeners
    live in another network namespace, so their sockets have to be made there and handed over.
    """

    def __init__(
        self, app: Any, sockets: Sequence[socket.socket], *, certificate: Path | None, key: Path | None
    ) -> None:
        options = {**server_options()}
        config = uvicorn.Config(
            app,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=CONNECTIONS,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=GRACEFUL_SECONDS,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            **options,
        )
        self._server = _Server(config)
        self._sockets = list(sockets)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when connections are accepted. Raises what made the server end before that."""
        self._task = asyncio.create_task(self._server.serve(sockets=self._sockets))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the HTTPS server ended before it accepted connections")
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Stop accepting, end open requests, return when all is closed."""
        if self._task is None:
            return
        self._server.should_exit = True
        await self._task


def loopback_socket(port: int = 0) -> socket.socket:
    """Return a socket listening on 127.0.0.1; port 0 takes a free one. Raises OSError when it is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(CONNECTIONS)
    except OSError:
        listener.close()
        raise
    return listener
