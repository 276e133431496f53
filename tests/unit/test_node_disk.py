"""What pods take of the disk: limits, messages, who goes first, and what a tree takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.diskwatch import Room
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.diskuse import (
    Use,
    first_to_go,
    is_bounded,
    low_on,
    over_limit,
    places,
    use_of,
)

MIB = 1 << 20


def limited(name="main", limit=None, request=None):
    amounts = {
        key: {"ephemeral-storage": value}
        for key, value in (("limits", limit), ("requests", request))
        if value
    }
    return make_container(name, resources=amounts)


def with_volume(source, *containers):
    return make_pod(*containers, volumes=[{"name": "v", "emptyDir": source}])


@pytest.mark.parametrize(
    "pod, use, message",
    [
        (make_pod(limited()), Use({"main": 1 << 50}), None),
        (make_pod(limited(limit="1Mi")), Use({"main": MIB}), None),
        (
            make_pod(limited(limit="1Mi")),
            Use({"main": MIB + 1}),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
        (
            with_volume({}, limited(limit="1Mi")),
            Use({"main": MIB}, {"v": 1}),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
        (
            make_pod(limited("a", "1Mi"), limited("b")),
            Use({"a": MIB + 1}),
            'Container a exceeded its local ephemeral storage limit "1Mi". ',
        ),
        (
            make_pod(limited("a", "1Mi"), limited("b", "9Mi")),
            Use({"a": MIB + 1}),
            'Container a exceeded its local ephemeral storage limit "1Mi". ',
        ),
        (
            with_volume({"sizeLimit": "1Mi"}, limited()),
            Use({}, {"v": MIB + 1}),
            'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        ),
        (with_volume({"sizeLimit": "1Mi"}, limited()), Use({"main": 9 * MIB}, {"v": MIB}), None),
        (with_volume({"sizeLimit": "1Mi", "medium": "Memory"}, limited()), Use({}, {"v": 9 * MIB}), None),
    ],
)
def test_who_is_over_a_limit(pod, use, message):
    found = over_limit(pod, use)
    assert (found and found.message) == message
    if found is not None:
        assert (found.reason, found.grace, found.disruption) == ("Evicted", 1.0, "")
        assert is_bounded(pod)


def test_pods_without_limits_are_not_measured():
    assert not is_bounded(make_pod(limited(request="1Gi")))
    assert not is_bounded(with_volume({"sizeLimit": "1Mi", "medium": "Memory"}, limited()))
    assert is_bounded(with_volume({"sizeLimit": "1Mi"}, limited()))


def test_what_counts_for_whom():
    pod = make_pod(
        make_container("main"),
        initContainers=[make_container("first")],
        volumes=[
            {"name": "v", "emptyDir": {}},
            {"name": "m", "emptyDir": {"medium": "Memory"}},
            {"name": "h", "hostPath": {"path": "/"}},
        ],
    )
    found = places(NodePaths(Path("/s")), pod)
    uid = pod["metadata"]["uid"]
    assert found == {
        "c/first": [f"/s/pods/{uid}/containers/first", f"/s/pods/{uid}/logs/first"],
        "c/main": [f"/s/pods/{uid}/containers/main", f"/s/pods/{uid}/logs/main"],
        "v/v": [f"/s/pods/{uid}/volumes/v"],
    }
    sizes = {
        f"/s/pods/{uid}/containers/main": 3,
        f"/s/pods/{uid}/logs/main": 4,
        f"/s/pods/{uid}/volumes/v": 5,
    }
    assert use_of(found, sizes) == Use({"first": 0, "main": 7}, {"v": 5})
    assert use_of(found, sizes).total == 12


def test_who_goes_first_when_the_disk_is_full():
    within = (make_pod(limited(request="9Mi")), Use({"main": 8 * MIB}))
    over = (make_pod(limited(request="1Mi")), Use({"main": 2 * MIB}))
    more = (make_pod(limited(request="1Mi")), Use({"main": 3 * MIB}))
    important = (make_pod(limited(), priority=1000), Use({"main": 90 * MIB}))
    assert first_to_go([within, important, over, more]) is more
    assert first_to_go([within, important, over]) is over
    assert first_to_go([within, important]) is important
    assert first_to_go([within]) is within
    assert first_to_go([]) is None


def test_what_an_evicted_pod_says():
    verdict = low_on(make_pod(limited(request="1Mi")), Use({"main": 3 * MIB}), 1 << 30, 5 << 20)
    assert verdict.message == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 5120Ki. "
        "Container main was using 3072Ki, request is 1Mi, has larger consumption of ephemeral-storage. "
    )
    assert (verdict.reason, verdict.disruption) == ("Evicted", "TerminationByKubelet")


@pytest.mark.parametrize(
    "available, inodes, expected", [(10, 10, False), (9, 10, True), (10, 9, True), (10, 0, True)]
)
def test_when_a_disk_is_short(available, inodes, expected):
    assert Room(available, 10, inodes, 10).is_short is expected


def test_a_file_system_without_inodes_is_not_short_of_them():
    assert not Room(10, 10, 0, 0).is_short


def test_sizes_hard_links_and_loops(tmp_path):
    """In a process of its own, as the daemon does: it changes its directory."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a" / "file", tmp_path / "a" / "b" / "again")
    (tmp_path / "a" / "b" / "loop").symlink_to(tmp_path)
    assert 100_000 <= measured(tmp_path) < 150_000
    assert measured(tmp_path / "nowhere") == 0


def measured(path):
    """Return what `disk_bytes` says, and come back to this directory."""
    from trainshed.cluster.sandbox.measure import disk_bytes

    here = os.open(".", os.O_RDONLY)
    try:
        return disk_bytes(str(path))
    finally:
        os.fchdir(here)
        os.close(here)
