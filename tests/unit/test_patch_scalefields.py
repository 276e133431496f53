from __future__ import annotations

from typing import Any

from trainshed.kube.patch.scalefields import seen_by_scale, written_by_scale

PATH = ("spec", "replicas")


def entry(manager: str, fields: Any, operation: str = "Update", **other: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsV1": fields,
        **other,
    }


REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
BOTH: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:selector": {}}}


def test_a_scale_shows_who_owns_the_replicas() -> None:
    seen = seen_by_scale([entry("a", BOTH), entry("b", {"f:spec": {"f:selector": {}}})], PATH)
    assert seen == [entry("a", REPLICAS, apiVersion="autoscaling/v1")]


def test_the_last_to_scale_owns_the_replicas() -> None:
    """As upstream, without a time; who applied them and still agrees keeps the entry as it is."""
    before = [entry("applier", BOTH, "Apply"), entry("maker", BOTH)]
    scaled = entry("scaler", REPLICAS, apiVersion="autoscaling/v1", subresource="scale")
    of_scale = [*seen_by_scale(before[:1], PATH), scaled]
    applier, timeless, maker = written_by_scale(before, of_scale, PATH, "apps/v1")
    assert applier == before[0]
    assert maker == {**before[1], "fieldsV1": {"f:spec": {"f:selector": {}}}}
    assert "time" not in timeless
    assert (timeless["manager"], timeless["apiVersion"], timeless["fieldsV1"]) == (
        "scaler",
        "apps/v1",
        REPLICAS,
    )


def test_an_entry_of_nothing_else_is_gone() -> None:
    assert written_by_scale([entry("a", REPLICAS)], [], PATH, "apps/v1") == []


def test_replicas_may_be_anywhere() -> None:
    deep = {"f:spec": {"f:pool": {"f:size": {}}}}
    of_scale = [entry("a", REPLICAS, "Apply", apiVersion="autoscaling/v1")]
    (found,) = written_by_scale([], of_scale, ("spec", "pool", "size"), "g/v1")
    assert found["fieldsV1"] == deep
