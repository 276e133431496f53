"""What containers may use, as the kernel takes it: cores, weights, scores."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.pod.amounts import in_milli, oom_score, pids_limit
from trainshed.cluster.node.pod.cores import Cores
from trainshed.cluster.sandbox.daemon import keepers
from trainshed.cluster.sandbox.linux.cgroups import Hierarchy, cpu_max, cpu_weight, own_cgroup
from trainshed.cluster.sandbox.linux.limits import has_pids_per_namespace, nice_of

GIB = 1 << 30


@pytest.mark.parametrize("amount, expected", [(None, 0), ("1", 1000), ("250m", 250), (0.5, 500), ("1u", 1)])
def test_thousandths_of_a_core(amount, expected):
    assert in_milli(amount) == expected


@pytest.mark.parametrize(
    "requests, limits, expected",
    [
        ({}, {}, 1000),
        ({"memory": "1Gi"}, {}, 875),
        ({"memory": "8Gi"}, {}, 100),
        ({"cpu": "1"}, {}, 999),
        ({}, {"cpu": "1", "memory": "1Gi"}, 100),
    ],
    ids=["BestEffort", "an eighth", "all of it", "no memory", "Guaranteed"],
)
def test_who_is_ended_first_when_memory_runs_out(requests, limits, expected):
    container = make_container(resources={"requests": {**limits, **requests}, "limits": limits})
    assert oom_score(make_pod(container), container, 8 * GIB) == expected


@pytest.mark.parametrize("cores, most, expected", [(2, 4194304, 4096), (64, 4194304, 16384), (2, 4000, 2000)])
def test_processes_of_a_pod(cores, most, expected):
    assert pids_limit(cores, most) == expected


def test_limits_round_up_to_cores_and_take_the_least_busy():
    cores = Cores([0, 1, 2, 3])
    assert cores.take("a", "c", 500) == (0,)
    assert cores.take("b", "c", 1000) == (1,)
    assert cores.take("c", "c", 1500) == (2, 3)
    assert cores.take("d", "c", 1000) == (0,)
    assert cores.take("e", "c", 0) == cores.take("e", "c", 4000) == (), "all of them"
    cores.release("b")
    assert cores.take("f", "c", 1000) == (1,)
    assert cores.take("a", "c", 500) in {(2,), (3,), (0,)}, "a restart gives back what it had"


@pytest.mark.parametrize(
    "request_, expected", [(0, 5), (10, 5), (100, 4), (125, 3), (500, 1), (1000, 0), (9000, 0)]
)
def test_small_requests_are_nice(request_, expected):
    assert nice_of(request_) == expected


@pytest.mark.parametrize(
    "milli, quota, weight",
    [(0, "max 100000", 1), (1, "1000 100000", 1), (500, "50000 100000", 20), (1000, "100000 100000", 39)],
)
def test_cgroup_files(milli, quota, weight):
    """Weights as in the kubelet's conversion of shares (KEP-2254)."""
    assert (cpu_max(milli), cpu_weight(milli)) == (quota, weight)


@pytest.mark.parametrize(
    "cgroup, mounts, expected",
    [
        ("0::/a/b\n", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n", "/sys/fs/cgroup/a/b"),
        ("0::/\n", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n", "/sys/fs/cgroup"),
        ("0::/x/y\n", "1 1 0:1 /x /sys/fs/cgroup rw - cgroup2 c rw\n", "/sys/fs/cgroup/y"),
        ("4:memory:/a\n0::/b\n", "1 1 0:1 / /u rw shared:3 - cgroup2 c rw\n", "/u/b"),
        ("4:memory:/a\n", "1 1 0:1 / /sys/fs/cgroup/memory rw - cgroup c rw,memory\n", None),
    ],
    ids=["below", "root", "bind mount", "hybrid", "version 1"],
)
def test_where_this_process_is(tmp_path, cgroup, mounts, expected):
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "mountinfo").write_text(mounts)
    assert own_cgroup(str(tmp_path)) == expected


def test_what_is_said_of_limits():
    without = keepers.of(None)
    assert without["cpu"].startswith("affinity")
    assert without["memory"].startswith("watchdog")
    kept = keepers.of(Hierarchy("/x", ("memory", "pids")))
    assert kept["cpu"] == without["cpu"], "not every user is given every controller"
    assert (kept["memory"], kept["pids"]) == ("cgroup: memory.max", "cgroup: pids.max")
    assert kept["ephemeral-storage"] == without["ephemeral-storage"]


@pytest.mark.parametrize(
    "release, expected", [("6.14.0-1", True), ("6.13.9", False), ("7.0", True), ("5.15.0-x", False)]
)
def test_kernels_with_a_pid_max_per_namespace(release, expected):
    assert has_pids_per_namespace(release) is expected
