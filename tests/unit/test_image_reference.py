"""Names of images, as clients of registries read them."""

from __future__ import annotations

import pytest

from trainshed.cluster.images.reference import InvalidReference, Reference, is_digest, parse

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "full", "familiar"),
    [
        ("busybox", "docker.io/library/busybox:latest", "busybox:latest"),
        ("docker.io/library/busybox:1.36", "docker.io/library/busybox:1.36", "busybox:1.36"),
        ("index.docker.io/me/app", "docker.io/me/app:latest", "me/app:latest"),
        ("me/app:1.0", "docker.io/me/app:1.0", "me/app:1.0"),
        ("localhost/a", "localhost/a:latest", "localhost/a:latest"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest", "localhost:5000/a/b:latest"),
        ("10.0.0.1:5000/x", "10.0.0.1:5000/x:latest", "10.0.0.1:5000/x:latest"),
        ("[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"),
        ("Upper/a", "Upper/a:latest", "Upper/a:latest"),
        ("reg:5000", "docker.io/library/reg:5000", "reg:5000"),
        (f"gcr.io/x/y@{DIGEST}", f"gcr.io/x/y@{DIGEST}", f"gcr.io/x/y@{DIGEST}"),
        (f"x:1@{DIGEST}", f"docker.io/library/x:1@{DIGEST}", f"x:1@{DIGEST}"),
    ],
)
def test_names_in_full_and_as_people_write_them(text: str, full: str, familiar: str) -> None:
    reference = parse(text)
    assert (str(reference), reference.familiar) == (full, familiar)
    assert parse(full) == parse(familiar) == reference


def test_the_parts() -> None:
    assert parse("localhost:5000/a/b:v1") == Reference("localhost:5000", "a/b", "v1")
    assert parse("localhost:5000/a/b:v1").repository == "localhost:5000/a/b"


@pytest.mark.parametrize(
    "text", ["", "UPPER", "a b", "a::b", "a/", "img:", "a\n", "a@sha256:12", "a" * 300, "-a", "a/../b"]
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse(text)


def test_digests_that_the_store_holds() -> None:
    assert is_digest(DIGEST)
    assert not any(
        map(
            is_digest, ("", "sha256:", DIGEST[:-1], DIGEST.upper(), f"{DIGEST}\n", f"sha256:../../{'a' * 58}")
        )
    )
