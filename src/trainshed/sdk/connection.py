"""Which cluster a command talks to: the local one, or any that a kubeconfig names."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.cluster.paths import StatePaths
from trainshed.sdk.errors import UserError


class Target(msgspec.Struct, frozen=True):
    """Where to connect; with neither `kubeconfig` nor `context`, the local cluster.

    `home` is the local cluster's state directory; None stands for `$TRAINSHED_HOME`, or the usual place.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    home: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether this is the cluster that `trainshed up` starts."""
        return self.kubeconfig is None and self.context is None

    @property
    def flags(self) -> str:
        """The options of a command that mean this target, with a blank before each."""
        return "".join(
            f" --{name} {shlex.quote(value)}"
            for name, value in (("kubeconfig", self.kubeconfig), ("context", self.context))
            if value is not None
        )

    @property
    def paths(self) -> StatePaths:
        """The local cluster's state directory."""
        if self.home is None:
            return StatePaths.default()
        return StatePaths(Path(self.home).expanduser().absolute())


def open_client(target: Target) -> Client:
    """Return a client of the target, to be closed. Nothing is sent yet.

    Raises:
        ConfigError: the kubeconfig is missing or malformed.
        UserError: there is no local cluster.
    """
    from trainshed.client.config import connect, load_kubeconfig

    path = target.kubeconfig
    if target.is_local:
        path = str(target.paths.kubeconfig)
        if not Path(path).exists():
            raise UserError("there is no local cluster", "trainshed up starts one; --context names another")
    client = connect(load_kubeconfig(path, target.context))
    if target.namespace:
        client.namespace = target.namespace
    return client


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Client]:
    """Yield a client of the target, closed at the end. Raises as `open_client`, and UserError when nobody answers."""
    client = open_client(target)
    try:
        yield client
    except TransportError as error:
        raise UserError(
            f"the API server does not answer: {error}",
            "trainshed up starts the local cluster"
            if target.is_local
            else "the cluster of that kubeconfig must be reachable from here",
        ) from error
    finally:
        await client.close()
