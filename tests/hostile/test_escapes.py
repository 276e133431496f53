"""The escape suite in its short form: no attempt gets hold of anything, as root and as an ordinary user."""

from __future__ import annotations

import os

import pytest

from tests.hostile.attempts import ATTEMPTS
from tests.hostile.suites import escapes

BESIDES = (
    "interpreter of a script",
    "keys of other pods",
    "sub-path that is exchanged",
    "tracing what joins",
    "files on the machine",
    "settings of the machine",
)
SECONDS = 1.0


@pytest.fixture(scope="module")
def as_root(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the attempts printed in a cluster of whoever runs the tests."""
    home = tmp_path_factory.mktemp("escapes") / "state"
    return escapes(home, SECONDS)


@pytest.fixture(scope="module")
def as_user() -> dict[str, str]:
    """What they printed in a cluster of an ordinary user's."""
    return escapes(None, SECONDS)


NAMES = (*(attempt.name for attempt in ATTEMPTS), *BESIDES)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_got_hold_of(as_root: dict[str, str], name: str) -> None:
    assert as_root[name] == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_got_hold_of_in_a_users_cluster(as_user: dict[str, str], name: str) -> None:
    assert as_user[name] == ""


def test_every_attempt_is_made(as_root: dict[str, str]) -> None:
    assert set(as_root) == set(NAMES)
