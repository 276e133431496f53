"""Tokens of OpenID Connect providers, whose keys are fetched over TLS."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cluster.api_world import ADMIN_TOKEN, World, open_world
from tests.fakes.https import Https, serve_https
from tests.fakes.oidc import Provider
from tests.process.raw_server import listening
from trainshed.cluster.apiserver.oidc import configuration as oidc
from trainshed.cluster.apiserver.oidc import providers
from trainshed.cluster.pki import ensure_pki
from trainshed.kube.meta.objects import Object

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[tuple[Provider, Https]]:
    made = Provider()
    async with serve_https(tmp_path, made.handle, ["localhost"]) as at:
        made.url = f"https://127.0.0.1:{at.port}"
        yield made, at


def configuration(provider: Provider, at: Https, **fields: Any) -> Object:
    entry = {
        "issuer": {"url": provider.url, "audiences": ["cluster"], "certificateAuthority": at.ca},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "oidc:"},
            "groups": {"claim": "teams", "prefix": "team-"},
        },
        **fields,
    }
    return {"apiVersion": oidc.API_VERSIONS[0], "kind": oidc.KIND, "jwt": [entry]}


class Client:
    """Asks who a token is."""

    def __init__(self, world: World, session: aiohttp.ClientSession, seconds: list[float]) -> None:
        self.world, self.seconds = world, seconds
        self._session = session

    async def whoami(self, token: str) -> Object | int:
        """Return the user, or the code of the refusal."""
        headers = {"authorization": f"Bearer {token}"}
        async with self._session.post(REVIEW, json={}, headers=headers) as answer:
            if answer.status != 201:
                return answer.status
            return dict((await answer.json())["status"]["userInfo"])


@pytest.fixture
async def client(tmp_path: Path, provider: tuple[Provider, Https]) -> AsyncIterator[Client]:
    import ssl

    pki = ensure_pki(tmp_path / "pki")
    seconds = [0.0]
    async with open_world(tmp_path) as world:
        world.api.core.authenticator.providers = providers.Providers(
            oidc.read(configuration(*provider)), lambda: seconds[0]
        )
        trust = ssl.create_default_context(cafile=pki.ca_certificate)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with (
            listening(world.api, pki) as port,
            aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session,
        ):
            yield Client(world, session, seconds)


async def test_a_token_shows_user_and_groups(client: Client, provider: tuple[Provider, Https]) -> None:
    issuer, now = provider[0], time.time()
    user = await client.whoami(issuer.token(now, jti="7"))
    assert isinstance(user, dict)
    assert (user["username"], user["groups"]) == ("oidc:anna", ["team-devs", "system:authenticated"])
    assert user["extra"] == {"authentication.kubernetes.io/credential-id": ["JTI=7"]}
    one = await client.whoami(issuer.token(now, teams="ops", aud=["other", "cluster"]))
    assert isinstance(one, dict) and one["groups"][0] == "team-ops"
    none = await client.whoami(issuer.token(now, teams=None))
    assert isinstance(none, dict) and none["groups"] == ["system:authenticated"]
    assert issuer.asked == 1  # the keys are kept
    admin = await client.whoami(ADMIN_TOKEN)
    assert isinstance(admin, dict) and admin["username"] == "trainshed-admin"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "never"},
        {"nbf": 10**12},
        {"aud": "other"},
        {"aud": None},
        {"aud": [7]},
        {"sub": None},
        {"sub": ""},
        {"sub": ["anna"]},
        {"teams": [7]},
        {"teams": {"a": "b"}},
        {"iss": "https://elsewhere.example.com"},
    ],
)
async def test_one_that_does_not_count_is_401(
    client: Client, provider: tuple[Provider, Https], claims: Object
) -> None:
    assert await client.whoami(provider[0].token(time.time(), **claims)) == 401


async def test_keys_change(client: Client, provider: tuple[Provider, Https]) -> None:
    issuer, now = provider[0], time.time()
    old = issuer.token(now)
    assert isinstance(await client.whoami(old), dict)
    issuer.add_key("two")
    new = issuer.token(now)
    assert await client.whoami(new) == 401  # asked a moment ago
    client.seconds[0] += providers.ASK_AGAIN_SECONDS
    assert isinstance(await client.whoami(new), dict)
    assert isinstance(await client.whoami(old), dict)
    del issuer.keys["one"]
    issuer.add_key("three")
    client.seconds[0] += providers.ASK_AGAIN_SECONDS
    assert isinstance(await client.whoami(issuer.token(now)), dict)
    assert await client.whoami(old) == 401


async def test_an_issuer_that_cannot_be_asked_lets_nobody_in(
    client: Client, provider: tuple[Provider, Https]
) -> None:
    issuer, at = provider
    body = configuration(issuer, at)
    del body["jwt"][0]["issuer"]["certificateAuthority"]  # the machine does not trust it
    client.world.api.core.authenticator.providers = providers.Providers(oidc.read(body), lambda: 0.0)
    assert await client.whoami(issuer.token(time.time())) == 401
    assert isinstance(await client.whoami(ADMIN_TOKEN), dict)


async def test_required_claims_and_unverified_addresses(
    client: Client, provider: tuple[Provider, Https]
) -> None:
    issuer, at = provider
    body = configuration(
        issuer,
        at,
        claimMappings={"username": {"claim": "email", "prefix": ""}},
        claimValidationRules=[{"claim": "hd", "requiredValue": "example.com"}],
    )
    client.world.api.core.authenticator.providers = providers.Providers(oidc.read(body), lambda: 0.0)
    now = time.time()
    good = {"email": "a@example.com", "hd": "example.com"}
    user = await client.whoami(issuer.token(now, **good))
    assert isinstance(user, dict) and user["username"] == "a@example.com"
    assert await client.whoami(issuer.token(now, **{**good, "hd": "other"})) == 401
    assert await client.whoami(issuer.token(now, email="a@example.com")) == 401
    assert await client.whoami(issuer.token(now, **good, email_verified=False)) == 401


def served(client: Client, body: Object) -> None:
    """Have the server take tokens as a configuration says."""
    found = providers.Providers(oidc.read(body), lambda: 0.0)
    client.world.api.core.authenticator.providers = found


async def test_claims_become_users_by_expressions(client: Client, provider: tuple[Provider, Https]) -> None:
    issuer, at = provider
    mappings = {
        "username": {"expression": "'ex:' + claims.email.split('@')[0]"},
        "groups": {"expression": "claims.roles.filter(r, r.startsWith('k8s-')).map(r, r.substring(4))"},
        "uid": {"claim": "oid"},
        "extra": [
            {"key": "example.com/tenant", "valueExpression": "claims.tenant"},
            {"key": "example.com/none", "valueExpression": "claims.?nothing.orValue('')"},
        ],
    }
    rules = [{"expression": "claims.email_verified == true", "message": "not verified"}]
    about = [{"expression": "!user.groups.exists(g, g == 'banned')", "message": "banned"}]
    served(
        client,
        configuration(
            issuer, at, claimMappings=mappings, claimValidationRules=rules, userValidationRules=about
        ),
    )
    claims = {
        "email": "a@b.c",
        "email_verified": True,
        "oid": "7",
        "tenant": ["x", "y"],
        "roles": ["k8s-dev", "q"],
    }
    user = await client.whoami(issuer.token(time.time(), **claims))
    assert user == {
        "username": "ex:a",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"example.com/tenant": ["x", "y"]},
    }
    for change in (
        {"email_verified": False},
        {"roles": ["k8s-banned"]},
        {"roles": None},
        {"oid": None},
        {"tenant": 1},
    ):
        assert await client.whoami(issuer.token(time.time(), **{**claims, **change})) == 401


async def test_each_issuer_has_its_own_rules(
    client: Client, provider: tuple[Provider, Https], tmp_path: Path
) -> None:
    issuer, at = provider
    other = Provider()
    async with serve_https(tmp_path, other.handle, ["localhost"]) as there:
        other.url = f"https://127.0.0.1:{there.port}"
        body = configuration(issuer, at)
        body["jwt"] += configuration(
            other, there, claimMappings={"username": {"claim": "sub", "prefix": "b:"}}
        )["jwt"]
        served(client, body)
        one, two = (
            await client.whoami(issuer.token(time.time())),
            await client.whoami(other.token(time.time())),
        )
        assert isinstance(one, dict) and isinstance(two, dict)
        assert (one["username"], two["username"]) == ("oidc:anna", "b:anna")
        issuer.keys, other.keys = other.keys, issuer.keys
        assert await client.whoami(issuer.token(time.time())) == 401


async def test_the_log_says_why(
    client: Client, provider: tuple[Provider, Https], caplog: pytest.LogCaptureFixture
) -> None:
    issuer, _ = provider
    for claims, why in (
        ({"exp": 1}, "Signature has expired"),
        ({"aud": "other"}, "Audience doesn't match"),
        ({"sub": None}, "parse username claims sub: claim not present"),
    ):
        caplog.clear()
        assert await client.whoami(issuer.token(time.time(), **claims)) == 401
        assert f"Unable to authenticate the request: invalid bearer token, oidc: {why}" in caplog.text
    caplog.clear()
    token = issuer.token(time.time())
    assert await client.whoami(f"{token[:-8]}AAAAAAAA") == 401
    assert "failed to verify signature" in caplog.text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"issuer": {"url": "http://a", "audiences": ["x"]}}, "issuer.url: URL scheme must be https"),
        ({"issuer": {"url": "https://a", "audiences": []}}, "at least one issuer.audiences is required"),
        (
            {"issuer": {"url": "https://a", "audiences": ["x", "y"]}},
            "must be MatchAny for multiple audiences",
        ),
        ({"claimMappings": {"username": {"claim": "sub"}}}, "prefix is required when claim is set"),
        ({"claimMappings": {"username": {}}}, "claimMappings.username: Required value: claim or expression"),
        (
            {"claimMappings": {"username": {"claim": "a", "expression": "b"}}},
            "claim and expression can't both be set",
        ),
        (
            {"claimMappings": {"username": {"expression": "claims.email"}}},
            "claims.email_verified must be used",
        ),
        (
            {"claimValidationRules": [{"expression": "1 +"}]},
            "compilation failed: ERROR: <input>:1:4: Syntax error",
        ),
        ({"userValidationRules": [{"expression": "user.nope"}]}, "undefined field 'nope'"),
        ({"anonymous": {"enabled": True}}, "unknown field `anonymous`"),
    ],
)
def test_a_configuration_is_checked(change: Object, why: str) -> None:
    provider = Provider()
    provider.url = "https://a"
    with pytest.raises(ValueError) as refused:
        oidc.read(configuration(provider, Https(1, "PEM"), **change))
    assert why in str(refused.value)
