"""Who yields to whom where no cgroup keeps shares of CPU time."""

from __future__ import annotations

from trainshed.cluster.node.pod.sandboxspec import contended_cpu
from trainshed.cluster.node.pod.shares import Shares
from trainshed.cluster.sandbox.linux.limits import yields


def shares() -> tuple[Shares, list[int]]:
    found, changes = Shares(), []
    found.changed = lambda: changes.append(found.largest)
    return found, changes


def test_pods_without_requests_yield_to_nobody():
    found, changes = shares()
    assert found.take("a", "c", 0) == found.take("b", "c", 0) == 0
    assert (found.behind(), changes) == ([], [])


def test_the_others_are_behind_until_told_when_a_larger_request_comes():
    found, changes = shares()
    found.take("a", "c", 0)
    assert found.take("b", "c", 500) == 500
    assert (found.behind(), changes) == (["a"], [500])
    found.told("a", 500)
    assert found.behind() == []
    found.release("b", "c")
    assert (sorted(found.behind()), changes) == (["a", "b"], [500, 0])
    found.release("b")
    found.release("a")
    found.told("a", 0)
    assert found.behind() == [], "nobody is left to tell"


def test_what_a_pod_that_was_found_running_knows_is_asked_anew():
    found, _ = shares()
    found.note("a", "c", 0)
    assert found.behind() == ["a"]


def test_one_that_comes_before_all_others_is_none_to_yield_to():
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    assert contended_cpu({"spec": {}}, container) == 2000
    assert contended_cpu({"spec": {"priority": 2_000_001_000}}, container) == 0


def test_nice_values_count_from_the_largest_request():
    spec = {"cpu_request": 0, "cpu_limit": 0, "cpu_largest": 0}
    assert yields(spec) == 0
    assert yields({**spec, "cpu_largest": 1000}) == 5
    assert yields({**spec, "cpu_request": 500, "cpu_largest": 4000}) == 1
    assert yields({**spec, "cpu_limit": 1000, "cpu_largest": 500}) == 0
