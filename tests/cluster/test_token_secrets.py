"""Secrets of type `kubernetes.io/service-account-token`."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.control_world import CA, World, cluster
from trainshed.cluster.apiserver.tokens import InvalidToken
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import SECRETS, SERVICEACCOUNTS

TYPE = "kubernetes.io/service-account-token"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


async def make(world: World, name: str, account: str) -> None:
    annotations = {"kubernetes.io/service-account.name": account}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    await world.client.create(SECRETS, {"metadata": metadata, "type": TYPE})


async def filled(world: World, name: str) -> Object:
    def held() -> Object:
        found = world.stored(SECRETS, name)
        return found if found is not None and "token" in (found.get("data") or {}) else {}

    return await world.until("the secret holds a token", held)


def identify(world: World, token: str) -> str:
    return world.api.core.authenticator.identify(token, 4e9).username  # in a hundred years, too


async def test_a_secret_gets_a_token_that_lasts_as_long_as_it_does(world: World) -> None:
    account = await world.client.create(
        SERVICEACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}}
    )
    await make(world, "key", "robot")
    secret = await filled(world, "key")
    data = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    assert (data["ca.crt"], data["namespace"]) == (CA, "default")
    annotations = secret["metadata"]["annotations"]
    assert annotations["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
    assert identify(world, data["token"]) == "system:serviceaccount:default:robot"
    with pytest.raises(InvalidToken, match="audiences"):
        world.api.core.authenticator.identify(data["token"], 0.0, ["vault"])
    await world.client.delete(SECRETS, "key", "default")
    with pytest.raises(InvalidToken, match="the secret does not hold"):
        identify(world, data["token"])


async def test_a_secret_goes_with_its_account(world: World) -> None:
    await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
    await make(world, "key", "robot")
    token = base64.b64decode((await filled(world, "key"))["data"]["token"]).decode()
    await world.client.delete(SERVICEACCOUNTS, "robot", "default")
    with pytest.raises(InvalidToken):
        identify(world, token)
    await world.until("the secret is gone", lambda: world.stored(SECRETS, "key") is None)


async def test_a_secret_of_no_account_is_deleted(world: World) -> None:
    await make(world, "key", "nobody")
    await world.until("the secret is gone", lambda: world.stored(SECRETS, "key") is None)
