"""Accept and Content-Type headers as clients really send them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire import negotiate
from trainshed.kube.wire.negotiate import JSON, YAML, Representation

_TABLE = "application/json;as=Table;g=meta.k8s.io"
KUBECTL_TABLE = f"{_TABLE};v=v1,{_TABLE};v=v1beta1,application/json"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/json, */*", JSON),
        ("application/vnd.kubernetes.protobuf, */*", JSON),
        ("application/vnd.kubernetes.protobuf,application/json", JSON),
        ("application/yaml", YAML),
        ("application/json;q=0,application/yaml", YAML),
        (KUBECTL_TABLE, Representation("table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Representation("table", "v1beta1")),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Representation("partial", "v1")),
        ('application/json ; AS=Table; v = "v1" ;g=meta.k8s.io', Representation("table", "v1")),
        ("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json", JSON),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Representation("partial_list", "v1"),
        ),
    ],
)
def test_objects(accept: str | None, expected: Representation) -> None:
    assert negotiate.for_objects(accept) == expected


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_a_watch_that_begins_with_what_there_is_is_no_table() -> None:
    """As kube-apiserver 1.33 answers."""
    assert negotiate.for_initial_events(f"{TABLE},application/json") == JSON
    partial = TABLE.replace("Table", "PartialObjectMetadata")
    assert negotiate.for_initial_events(f"{TABLE},{partial}") == Representation("partial", "v1")
    with pytest.raises(ApiError) as raised:
        negotiate.for_initial_events(TABLE)
    assert raised.value.code == 406


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "application/cbor", "text/html"])
def test_formats_that_are_never_produced(accept: str) -> None:
    for choose in (negotiate.for_objects, negotiate.for_discovery):
        with pytest.raises(ApiError) as raised:
            choose(accept)
        assert raised.value.code == 406


@given(st.permutations(["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]))
def test_parameters_come_in_any_order(parameters: list[str]) -> None:
    found = negotiate.for_discovery(";".join(["application/json", *parameters]) + ",application/json")
    assert found == Representation("discovery", "v2")
    assert found.content_type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_discovery_falls_back_to_legacy() -> None:
    old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    assert negotiate.for_discovery(old).version == "v2beta1"
    assert (
        negotiate.for_discovery("application/json;as=APIGroupDiscoveryList;v=v9;g=x,application/json") == JSON
    )
    assert negotiate.for_discovery("application/json") == JSON


def test_openapi_v2_protobuf_in_both_spellings() -> None:
    for spelling in ("spec.v2@v1.0", "spec.v2.v1.0"):
        assert negotiate.wants_openapi_v2_protobuf(
            f"application/com.github.proto-openapi.{spelling}+protobuf"
        )
    assert not negotiate.wants_openapi_v2_protobuf("application/json")
    assert not negotiate.wants_openapi_v2_protobuf(None)


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (None, "json"),
        ("application/json", "json"),
        ("Application/JSON; charset=utf-8", "json"),
        ("application/yaml", "yaml"),
        ("application/vnd.kubernetes.protobuf", "protobuf"),
    ],
)
def test_bodies(content_type: str | None, expected: str) -> None:
    assert negotiate.body_format(content_type) == expected


def test_unknown_body_is_415() -> None:
    with pytest.raises(ApiError) as raised:
        negotiate.body_format("text/plain")
    assert raised.value.code == 415
    assert "application/vnd.kubernetes.protobuf" in raised.value.message
