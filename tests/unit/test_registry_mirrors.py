"""From where an image is fetched, by the settings that podman and docker have."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.registry.mirrors import endpoints, of_machine

SETTINGS = tomllib.loads("""
[[registry]]
prefix = "docker.io"
location = "registry-1.docker.io"
[[registry.mirror]]
location = "mirror.local:5000/hub"
insecure = true
[[registry.mirror]]
location = "tags.local"
pull-from-mirror = "tag-only"
[[registry]]
prefix = "docker.io/team"
location = "own.local/of-team"
[[registry]]
location = "plain.local"
insecure = true
[[registry]]
prefix = "*.wild.local"
[[registry.mirror]]
location = "cache.local"
[[registry]]
prefix = "never.local"
blocked = true
""")
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "busybox",
            ["!mirror.local:5000/hub/library/busybox:latest", "tags.local/library/busybox:latest",
             "registry-1.docker.io/library/busybox:latest"],
        ),
        (
            f"me/app@{DIGEST}",
            [f"!mirror.local:5000/hub/me/app@{DIGEST}", f"registry-1.docker.io/me/app@{DIGEST}"],
        ),
        ("team/app:1", ["own.local/of-team/app:1"]),
        (
            "teams/app:1",
            ["!mirror.local:5000/hub/teams/app:1", "tags.local/teams/app:1", "registry-1.docker.io/teams/app:1"],
        ),
        ("plain.local/a", ["!plain.local/a:latest"]),
        ("a.wild.local/x/y:2", ["cache.local/x/y:2", "a.wild.local/x/y:2"]),
        ("other.local/a", ["other.local/a:latest"]),
    ],
)  # fmt: skip
def test_mirrors_come_before_the_registry(name: str, expected: list[str]) -> None:
    found = endpoints(parse(name), SETTINGS)
    assert [f"{'!' if one.insecure else ''}{one.name}" for one in found] == expected


def test_mirrors_of_docker_hub() -> None:
    found = endpoints(parse("busybox"), {}, ["https://one.local/", "http://two.local:5000"])
    assert [(str(one.name), one.insecure) for one in found] == [
        ("one.local/library/busybox:latest", False),
        ("two.local:5000/library/busybox:latest", True),
        ("docker.io/library/busybox:latest", False),
    ]
    assert len(endpoints(parse("ghcr.io/a/b"), {}, ["https://one.local/"])) == 1


def test_what_is_blocked_or_malformed_is_said(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="blocked"):
        endpoints(parse("never.local/a"), SETTINGS)
    with pytest.raises(RegistryError, match="no place for it"):
        endpoints(parse("a.local/b"), {"registry": [{"prefix": "a.local", "location": "UPPER CASE"}]})
    file = tmp_path / "registries.conf"
    for text in ("registry = 1", "[[registry]]\nprefix = 'x.local'\nmirror = [1]"):
        file.write_text(text)
        with pytest.raises(RegistryError, match="malformed"):
            of_machine(parse("x.local/a"), {"CONTAINERS_REGISTRIES_CONF": str(file)})
    assert [str(one.name) for one in of_machine(parse("x.local/a"), {"HOME": str(tmp_path)})] == [
        "x.local/a:latest"
    ]
