"""Which kubectls every command is tested with."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import versions_of_every_command

FOUND = {"1.33": "/bin/kubectl.1.33", "1.9": "/bin/kubectl.1.9", "1.30": "/bin/kubectl.1.30"}


@pytest.mark.parametrize(
    ("named", "versions"),
    [
        ([], ["1.9", "1.30", "1.33"]),
        (["/bin/kubectl.1.33", "/bin/kubectl.1.9"], ["1.9", "1.33"]),
        (["/bin/kubectl.1.30"], ["1.30"]),
    ],
)
def test_those_that_are_named_or_all(named: list[str], versions: list[str]) -> None:
    assert versions_of_every_command(FOUND, named) == versions
