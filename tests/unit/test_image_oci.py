"""Manifests, indexes and configurations: what is read, what is refused, what is chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import (
    Descriptor,
    ImageConfig,
    InvalidImage,
    Manifest,
    Platform,
    RootFs,
    RunConfig,
)

DIGEST = "sha256:" + "a" * 64
CONFIG = {"mediaType": oci.OCI_CONFIG, "digest": DIGEST, "size": 2}
LAYER = {"mediaType": f"{oci.OCI_LAYER}+gzip", "digest": DIGEST, "size": 3}


def manifest(**fields: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "config": CONFIG, "layers": [LAYER], **fields}).encode()


def test_a_manifest_is_read_and_written() -> None:
    decoded = oci.manifest_of(manifest())
    assert decoded.layers[0].size == 3
    written = json.loads(decoded.encoded())
    assert written["schemaVersion"] == 2 and written["mediaType"] == oci.OCI_MANIFEST
    assert oci.manifest_of(decoded.encoded()) == decoded


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"layers": [{**LAYER, "digest": "sha256:../../../etc/passwd"}]}, "no sha256 digest"),
        ({"layers": [{**LAYER, "digest": "md5:" + "a" * 32}]}, "no sha256 digest"),
        ({"layers": [{**LAYER, "size": -1}]}, "size of -1"),
        ({"layers": [{**LAYER, "mediaType": "text/html"}]}, "text/html are not known"),
        ({"layers": "none"}, "malformed"),
        (
            {"config": {**CONFIG, "mediaType": "application/vnd.cncf.helm.config.v1+json"}},
            "not an image that can be run",
        ),
        ({"annotations": {"a": "x" * (5 << 20)}}, "larger than 4 MiB"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidImage, match=said):
        oci.manifest_of(manifest(**fields))


def test_text_that_is_no_json() -> None:
    for data in (b"", b"<html>", b"[" * 100_000, b"\xff\xfe", b"null"):
        with pytest.raises(InvalidImage):
            oci.manifest_of(data)


def test_a_configuration_keeps_what_containers_need() -> None:
    config = ImageConfig(
        architecture="amd64",
        os="linux",
        config=RunConfig(
            user="app", env=("A=1",), entrypoint=("x",), working_dir="/w", exposed_ports={"80/tcp": {}}
        ),
        rootfs=RootFs((DIGEST,)),
    )
    written = json.loads(config.encoded())
    assert written["config"] == {
        "User": "app", "Env": ["A=1"], "Entrypoint": ["x"], "WorkingDir": "/w", "ExposedPorts": {"80/tcp": {}},
    }  # fmt: skip
    assert written["rootfs"] == {"type": "layers", "diff_ids": [DIGEST]}
    assert oci.config_of(config.encoded()) == config
    # Docker writes null for what is not set.
    assert oci.config_of(b'{"config": {"Env": null, "Cmd": null, "Volumes": null}}').run.cmd is None
    with pytest.raises(InvalidImage, match="no sha256 digest"):
        oci.config_of(b'{"rootfs": {"type": "layers", "diff_ids": ["../x"]}}')


def one(architecture: str, variant: str = "", os: str = "linux") -> Descriptor:
    platform = Platform(architecture, os, variant) if architecture else None
    return Descriptor(oci.OCI_MANIFEST, f"{DIGEST}/{architecture}/{variant}", 1, platform=platform)


@pytest.mark.parametrize(
    ("had", "wanted", "chosen"),
    [
        ([one("amd64"), one("arm64", "v8")], "linux/arm64", "arm64/v8"),
        ([one("amd64"), one("arm64", "v8")], "linux/amd64", "amd64/"),
        ([one("arm", "v6"), one("arm", "v7")], "linux/arm/v7", "arm/v7"),
        ([one("arm64"), one("arm64", "v8")], "linux/arm64/v8", "arm64/v8"),
        ([one("arm64")], "linux/arm64/v8", "arm64/"),
        ([one("amd64", os="windows"), one("unknown", os="unknown")], "linux/amd64", None),
        ([one("")], "linux/amd64", "/"),
        ([one(""), one("")], "linux/amd64", None),
    ],
)
def test_the_platform_is_chosen(had: list[Descriptor], wanted: str, chosen: str | None) -> None:
    found = oci.choose(had, oci.parse_platform(wanted))
    assert (found and found.digest.removeprefix(f"{DIGEST}/")) == chosen


def test_what_a_document_is() -> None:
    assert oci.document_type(manifest()) == oci.OCI_MANIFEST
    assert oci.document_type(manifest(mediaType=oci.DOCKER_MANIFEST)) == oci.DOCKER_MANIFEST
    assert oci.document_type(b'{"manifests": []}') == oci.OCI_INDEX
    assert (
        Manifest(config=Descriptor(oci.OCI_CONFIG, DIGEST, 1), layers=())
        .encoded()
        .startswith(b'{"schemaVersion":2')
    )
    with pytest.raises(ValueError, match="expected os/architecture"):
        oci.parse_platform("amd64")
