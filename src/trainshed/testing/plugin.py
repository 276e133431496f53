"""The pytest plugin: a cluster for the session, in a state directory of its own, purged at its end.

pytest loads this module in every project where trainshed is installed, so it imports nothing until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainshed.sdk.blocking import Cluster


@pytest.fixture(scope="session")
def trainshed_home() -> Iterator[Path]:
    """The state directory of the session's cluster; it is started by whoever needs it first."""
    from trainshed.testing.homes import temporary_home

    with temporary_home() as home:
        yield home


@pytest.fixture(scope="session")
def trainshed_cluster(trainshed_home: Path) -> Iterator[Cluster]:
    """The session's cluster, up."""
    from trainshed.sdk.blocking import Cluster

    with Cluster(home=str(trainshed_home)) as cluster:
        cluster.up()
        yield cluster


@pytest.fixture
def trainshed_namespace(
    trainshed_home: Path, trainshed_cluster: Cluster, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The name of a namespace for one test, made from the test's name; it is deleted afterwards."""
    from trainshed.sdk.portal import portal
    from trainshed.testing.homes import namespace_for

    name = namespace_for(request.node.name)
    trainshed_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    portal().call(_delete_namespace(trainshed_home, name))


async def _delete_namespace(home: Path, name: str) -> None:
    from trainshed.kube.meta.resources import NAMESPACES
    from trainshed.sdk.connection import Target, connected

    async with connected(Target(home=str(home))) as client:
        await client.delete(NAMESPACES, name)
