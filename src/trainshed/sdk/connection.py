"""Which cluster a command talks to: the local one, or any that a kubeconfig names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.cluster.paths import StatePaths
from trainshed.sdk.errors import UserError


class Target(msgspec.Struct, frozen=True):
    """Where to connect; with neither `kubeconfig` nor `context`, the local cluster."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether this is the cluster that `trainshed up` starts."""
        return self.kubeconfig is None and self.context is None


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Client]:
    """Yield a client of the target, closed at the end.

    Raises:
        TransportError: nothing answers there.
        UserError: there is no local cluster, or the kubeconfig is missing or malformed.
    """
    from trainshed.client.config import ConfigError, connect, load_kubeconfig

    path = str(StatePaths.default().kubeconfig) if target.is_local else target.kubeconfig
    if target.is_local and not Path(str(path)).exists():
        raise UserError("there is no local cluster", "trainshed up starts one; --context names another")
    try:
        client = connect(load_kubeconfig(path, target.context))
    except ConfigError as error:
        raise UserError(str(error)) from error
    if target.namespace:
        client.namespace = target.namespace
    try:
        yield client
    finally:
        await client.close()
