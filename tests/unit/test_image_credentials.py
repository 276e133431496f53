"""What registries ask for and what the files of docker and Kubernetes have for them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.registry import challenge
from trainshed.cluster.images.registry.challenge import Challenge
from trainshed.cluster.images.registry.credentials import Credentials, from_document, from_documents


def auth(text: str) -> dict[str, Any]:
    return {"auth": base64.b64encode(text.encode()).decode()}


CONFIG = {
    "auths": {
        "https://index.docker.io/v1/": auth("hub:pw"),
        "reg.io": auth("whole:with:colons"),
        "reg.io/team": {"username": "team", "password": "pw"},
        "https://old.io/v2/": auth("old:pw"),
        "token.io": {"identitytoken": "t", **auth("x:y")},
        "broken.io": {"auth": "%%%"},
        "empty.io": {},
        "odd.io": ["no", "map"],
    }
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("busybox", Credentials("hub", "pw")),
        ("docker.io/me/app", Credentials("hub", "pw")),
        ("reg.io/a/b", Credentials("whole", "with:colons")),
        ("reg.io/team/b", Credentials("team", "pw")),
        ("reg.io/teamwork/b", Credentials("whole", "with:colons")),
        ("old.io/a", Credentials("old", "pw")),
        ("token.io/a", Credentials(identity_token="t")),
        ("broken.io/a", None),
        ("empty.io/a", None),
        ("odd.io/a", None),
        ("reg.io.evil.com/a", None),
    ],
)
def test_the_entry_of_a_registry(name: str, expected: Credentials | None) -> None:
    assert from_document(CONFIG, parse(name)) == expected


def test_an_old_file_and_what_is_none() -> None:
    assert from_document({"reg.io": auth("a:b")}, parse("reg.io/x")) == Credentials("a", "b")
    for document in (None, [], "x", {"auths": []}, {"auths": None}):
        assert from_document(document, parse("reg.io/x")) is None
    both = [CONFIG, {"auths": {"reg.io": auth("second:pw")}}, {}]
    assert [c.username for c in from_documents(both, parse("reg.io/x"))] == ["whole", "second"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Basic realm="x"', Challenge("basic", {"realm": "x"})),
        ("basic", Challenge("basic", {})),
        (
            'Bearer realm="https://auth.io/token",service="reg",scope="repository:a/b:pull,push"',
            Challenge(
                "bearer",
                {"realm": "https://auth.io/token", "service": "reg", "scope": "repository:a/b:pull,push"},
            ),
        ),
        (
            'Bearer service=reg, realm="https://a\\"b"',
            Challenge("bearer", {"service": "reg", "realm": 'https://a"b'}),
        ),
        ("Bearer", None),
        ('Negotiate, Basic realm="x"', Challenge("basic", {"realm": "x"})),
        ("Negotiate", None),
        ("", None),
    ],
)
def test_what_a_registry_asks_for(header: str, expected: Challenge | None) -> None:
    assert challenge.parse(header) == expected
