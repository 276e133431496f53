"""Watch frames survive any chunking of the stream."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import expired
from trainshed.kube.wire import watchframe
from trainshed.kube.wire.watchframe import FrameSplitter, WatchEvent


def test_frame_wraps_encoded_bytes() -> None:
    assert watchframe.frame("ADDED", b'{"a":1}') == b'{"type":"ADDED","object":{"a":1}}\n'
    assert watchframe.encode("DELETED", {"a": 1}) == b'{"type":"DELETED","object":{"a":1}}\n'


def test_bookmark_holds_only_the_resource_version() -> None:
    assert watchframe.bookmark_of("v1", "Pod", "7", initial_events_end=True) == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}},
    }
    assert "annotations" not in watchframe.bookmark_of("v1", "Pod", "7")["metadata"]


def test_error_is_a_status() -> None:
    event = watchframe.decode(watchframe.error(expired("too old resource version: 1 (323)")))
    assert (event.type, event.object["code"], event.object["reason"]) == ("ERROR", 410, "Expired")


def test_refuses_a_line_that_is_no_event() -> None:
    with pytest.raises(ValueError, match="no event"):
        watchframe.decode(b'{"type": 3}')


@given(
    st.lists(st.dictionaries(st.text(), st.text(), max_size=3), max_size=5),
    st.lists(st.integers(1, 100), min_size=1, max_size=10),
)
def test_splitter_is_independent_of_chunks(objects: list[dict[str, str]], sizes: list[int]) -> None:
    stream = b"".join(watchframe.encode("MODIFIED", obj) for obj in objects)
    splitter, events = FrameSplitter(), []
    for size in itertools.cycle(sizes):
        events += splitter.feed(stream[:size])
        stream = stream[size:]
        if not stream:
            break
    assert events == [WatchEvent("MODIFIED", obj) for obj in objects]
