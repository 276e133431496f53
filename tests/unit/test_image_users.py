"""Who a container of an image runs as, by the files of the image."""

from __future__ import annotations

import pytest

from trainshed.cluster.sandbox.linux.users import UnknownUser, resolve

PASSWD = (
    "# comment\nroot:x:0:0:root:/root:/bin/sh\n"
    "app:x:12:34::/home/app:/bin/sh\n56:x:57:58::/odd:\nbad:x:y:z::/:\nshort:x\n"
)
GROUP = "root:x:0:\ndisk:x:6:app,other\nwheel:x:10:other,app\nbad:x:?:app\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0, [], "/root")),
        ("root", (0, 0, [], "/root")),
        ("app", (12, 34, [6, 10], "/home/app")),
        ("12", (12, 34, [6, 10], "/home/app")),
        ("app:disk", (12, 6, [], "/home/app")),
        ("app:77", (12, 77, [], "/home/app")),
        ("900", (900, 0, [], "/")),
        ("900:900", (900, 900, [], "/")),
        ("56", (57, 58, [], "/odd")),
    ],
)
def test_users(text: str, expected: tuple[int, int, list[int], str]) -> None:
    user = resolve(text, PASSWD, GROUP)
    assert (user.uid, user.gid, user.groups, user.home) == expected


@pytest.mark.parametrize("text", ["nobody", "app:none", "-1", "99999999999", "bad", "short"])
def test_users_that_are_not_there(text: str) -> None:
    with pytest.raises(UnknownUser, match="no matching entries"):
        resolve(text, PASSWD, GROUP)


def test_an_image_without_those_files() -> None:
    user = resolve("5:6", "", "")
    assert (user.uid, user.gid, user.groups, user.home) == (5, 6, [], "/")
