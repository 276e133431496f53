"""Protobuf bodies, assembled by hand: presence rules, special types, and bytes that are no message at all.

`tests/e2e/test_protobuf_kubectl.py` compares whole bodies of real clients.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire import protobuf


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes, content_type: str = "") -> bytes:
    unknown = (
        field(1, field(1, api_version) + field(2, kind))
        + field(2, raw)
        + field(3, "")
        + field(4, content_type)
    )
    return protobuf.MAGIC + unknown


def decode(api_version: str, kind: str, raw: bytes) -> dict[str, Any]:
    out = protobuf.decode(body(api_version, kind, raw))
    assert (out.pop("apiVersion"), out.pop("kind")) == (api_version, kind)
    return out


def test_scalars_at_zero_are_absent_but_pointers_are_kept() -> None:
    """Deployment.spec: 1=replicas (pointer), 5=minReadySeconds (plain), 7=paused (plain)."""
    spec = field(1, 0) + field(5, 0) + field(7, 0)
    assert decode("apps/v1", "Deployment", field(2, spec)) == {"spec": {"replicas": 0}}
    spec = field(1, 3) + field(5, 4) + field(7, 1)
    expected = {"replicas": 3, "minReadySeconds": 4, "paused": True}
    assert decode("apps/v1", "Deployment", field(2, spec)) == {"spec": expected}


def test_empty_messages_are_absent_but_pointers_are_kept() -> None:
    """Volume inlines its source; emptyDir is a pointer. The zero creationTimestamp is an empty message."""
    volume = field(1, "scratch") + field(2, field(2, b""))
    pod = field(1, field(1, "p") + field(8, b"")) + field(2, field(1, volume)) + field(3, b"")
    expected = {"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}
    assert decode("v1", "Pod", pod) == expected


def test_priority_class_keeps_its_zero() -> None:
    assert decode("scheduling.k8s.io/v1", "PriorityClass", field(2, 0))["value"] == 0
    assert decode("scheduling.k8s.io/v1", "PriorityClass", b"")["value"] == 0
    assert decode("scheduling.k8s.io/v1", "PriorityClass", field(2, -5))["value"] == -5


def test_maps_bytes_and_quantities() -> None:
    entry = field(1, "k") + field(2, b"\x00\xff")
    assert decode("v1", "Secret", field(2, entry) + field(2, field(1, "e"))) == {
        "data": {"k": "AP8=", "e": ""}
    }
    hard = field(1, "cpu") + field(2, field(1, "500m"))
    assert decode("v1", "ResourceQuota", field(2, field(1, hard))) == {"spec": {"hard": {"cpu": "500m"}}}


def test_int_or_string() -> None:
    """PodDisruptionBudget.spec: 1=minAvailable, 3=maxUnavailable."""
    spec = field(1, field(1, 1) + field(3, "50%")) + field(3, field(1, 0) + field(2, 0))
    found = decode("policy/v1", "PodDisruptionBudget", field(2, spec))
    assert found == {"spec": {"minAvailable": "50%", "maxUnavailable": 0}}


def test_times() -> None:
    """Event: 6=firstTimestamp, seconds; 10=eventTime, microseconds."""
    raw = field(6, field(1, 1_700_000_000)) + field(10, field(1, 1_700_000_000) + field(2, 120_456_000))
    found = decode("v1", "Event", raw)
    assert found == {"firstTimestamp": "2023-11-14T22:13:20Z", "eventTime": "2023-11-14T22:13:20.120456Z"}


def test_json_inside_the_envelope() -> None:
    inner = b'{"apiVersion":"example.com/v1","kind":"Widget"}'
    assert protobuf.decode(body("example.com/v1", "Widget", inner, "application/json"))["kind"] == "Widget"


def test_fields_of_the_future_are_skipped() -> None:
    raw = (
        field(1, field(1, "p"))
        + field(4000, "new")
        + varint(4001 << 3 | 1)
        + bytes(8)
        + varint(4002 << 3 | 5)
        + bytes(4)
    )
    assert decode("v1", "Pod", raw) == {"metadata": {"name": "p"}}


def test_options_travel_under_any_group() -> None:
    assert decode("apps/v1", "DeleteOptions", field(4, "Foreground")) == {"propagationPolicy": "Foreground"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 400),
        (b"{}", 400),
        (protobuf.MAGIC + b"\x0a\xff", 400),
        (body("v1", "Pod", b"\x0b"), 400),
        (body("v1", "Pod", field(1, field(1, b"\xff\xfe"))), 400),
        (body("v1", "Pod", field(1, 7)), 400),
        (body("example.com/v1", "Widget", b""), 415),
    ],
)
def test_what_is_refused(data: bytes, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        protobuf.decode(data)
    assert raised.value.code == code


@given(st.binary(max_size=200), st.sampled_from([("v1", "Pod"), ("batch/v1", "Job"), ("v1", "Event")]))
def test_arbitrary_bytes_decode_or_are_a_bad_request(raw: bytes, kind: tuple[str, str]) -> None:
    try:
        protobuf.decode(body(*kind, raw))
    except ApiError as error:
        assert error.code == 400
