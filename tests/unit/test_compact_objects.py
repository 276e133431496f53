"""A compact mapping is a dict of objects, whatever it has decoded."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainshed.client.compact import CompactObjects
from trainshed.client.informer import Index
from trainshed.kube.meta.objects import Object

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "get", "delete", "list"]), st.integers(0, 5), st.text(max_size=40))
)


@given(STEPS, st.integers(1, 200))
def test_it_is_a_dict_that_keeps_few_decoded(steps: list[tuple[str, int, str]], limit: int) -> None:
    model: dict[int, Any] = {}
    compact: CompactObjects[int] = CompactObjects(limit)
    for what, key, text in steps:
        if what == "set":
            model[key] = compact[key] = {"metadata": {"name": str(key)}, "text": text}
        elif what == "delete":
            assert compact.pop(key, None) == model.pop(key, None)
        elif what == "get":
            assert compact.get(key) == model.get(key)
        assert len(compact) == len(model) and list(compact) == list(model)
        if what == "list":
            assert list(compact.values()) == list(model.values())
    assert compact.decoded <= max(1, limit // 30)


def test_what_is_gone_leaves_nothing() -> None:
    compact: CompactObjects[int] = CompactObjects(1000)
    for number in range(100):
        compact[number] = {"number": number}
    for number in range(100):
        del compact[number]
    assert compact.decoded == 0 and not compact._encoded and compact._bytes == 0


def test_an_index_shows_the_objects_as_they_are_now() -> None:
    objects: CompactObjects[tuple[str, str]] = CompactObjects(1)
    index = Index(lambda obj: [obj["colour"]], objects)
    old: Object | None = None
    for key, colour in ((("ns", "a"), "red"), (("ns", "b"), "red"), (("ns", "a"), "blue")):
        old, new = objects.get(key), {"name": key[1], "colour": colour}
        objects[key] = new
        index.replace(key, old, new)
    assert index.get("red") == [{"name": "b", "colour": "red"}] and index.count("red") == 1
    assert index.get("blue") == [{"name": "a", "colour": "blue"}]
    assert index.get("green") == [] and index.count("green") == 0
