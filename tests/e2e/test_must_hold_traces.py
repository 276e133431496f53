"""What pods leave on the host: nothing outside their volumes, and nothing at all once they are deleted.

Matrix: {while it runs, after its deletion} × {files, state directory, mounts, processes}.
Left out: what a volume promises to keep (tests/cluster/test_node_sandboxes.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import pod
from tests.processes import processes_with

# Changes by itself: the database, logs, and the node's bookkeeping of addresses.
VOLATILE = ("store.db", "log/", "run/dns.json")


def tree(home: Path) -> set[str]:
    """Return every path below the state directory that only pods could change."""
    found = set()
    # Unlike rglob, a walk takes it that directories disappear under it.
    for folder, folders, files in os.walk(home):
        found |= {os.path.relpath(os.path.join(folder, name), home) for name in (*folders, *files)}
    return {path for path in found if not path.startswith(VOLATILE)}


def until_no_more_than(before: set[str], home: Path) -> None:
    """Wait until nothing is there that was not there before."""
    left: set[str] = set()

    def nothing() -> bool:
        left.clear()
        left.update(tree(home) - before)
        return not left

    try:
        until(nothing, "the state directory holds no more than before the pods")
    except AssertionError as error:
        raise AssertionError(f"{error}: {sorted(left)[:20]}") from None


def mounts() -> set[str]:
    """Return the mount points of this mount namespace."""
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


@pytest.fixture
def tmp_in_home() -> Iterator[Path]:
    """A directory where pods see the host's files; they have a /tmp of their own."""
    folder = Path(tempfile.mkdtemp(prefix=".trainshed-test-", dir=Path.home()))
    yield folder
    shutil.rmtree(folder)


def test_a_pod_may_write_anywhere_and_the_host_sees_none_of_it(
    cluster: Cluster, shared_folder: Path, tmp_in_home: Path
) -> None:
    mark = f"mark-{os.urandom(4).hex()}"
    own = tmp_in_home / "own"
    own.write_text("the user's")
    places = [
        "/",
        "/workspace/code",
        "/tmp",
        "/var/tmp",
        "/etc",
        "/opt",
        "/usr/local/lib",
        "/home",
        "/var/lib",
        "/run",
    ]
    writes = "\n".join(f"mkdir -p {place} && echo secret > {place.rstrip('/')}/{mark}" for place in places)
    script = f"""
set -e
{writes}
cat {" ".join(f"{place.rstrip('/')}/{mark}" for place in places)} | grep -c secret
echo 10.1.2.3 {mark} >> /etc/hosts
grep -q user {own}; echo secret > {own}; rm {own}
echo data > /out/{mark}
until [ -e /out/finish ]; do sleep 0.05; done
"""
    cluster.apply(pod("writer", script, shared_folder))
    until((shared_folder / mark).exists, "the pod has written everywhere")

    def on_host() -> list[str]:
        return [place for place in places if (Path(place) / mark).exists()]

    assert cluster.logs("writer") == [str(len(places))]
    assert on_host() == [] and not Path("/workspace").exists()
    assert mark not in Path("/etc/hosts").read_text()
    assert own.read_text() == "the user's", "what a pod changes and removes stays as it is on the host"
    cluster.kubectl("delete", "pod", "writer").ok()
    assert on_host() == [] and not Path("/workspace").exists()
    assert (shared_folder / mark).read_text() == "data\n", "what lies on a volume stays"


def test_a_second_pod_does_not_see_what_the_first_wrote(cluster: Cluster) -> None:
    cluster.apply(pod("first", "echo secret > /etc/of-the-first; mkdir /workspace"))
    cluster.until_phase("Succeeded", "first")
    cluster.apply(pod("second", "ls -d /etc/of-the-first /workspace; true"))
    cluster.until_phase("Succeeded", "second")
    shown = "\n".join(cluster.logs("second"))
    assert shown.count("No such file") == 2, shown


def test_a_deleted_pod_leaves_nothing_behind(cluster: Cluster) -> None:
    """Neither a pod that ended nor one that runs, was restarted, and has an emptyDir."""
    mark = f"mark-{os.urandom(4).hex()}"
    cluster.until_alone()
    state, mounted = tree(cluster.home), mounts()
    ended = pod("ended", f": {mark}; mkdir /workspace; echo x > /workspace/x")
    script = f": {mark}\nif [ -e /scratch/again ]; then sleep 600; fi; touch /scratch/again; exit 1"
    running = pod("running", script, restart="Always")
    running["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    running["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    cluster.apply(ended, running)
    cluster.until_phase("Succeeded", "ended")

    def restarted() -> bool:
        statuses = cluster.pods()["running"]["status"].get("containerStatuses") or [{}]
        return statuses[0].get("restartCount") == 1 and "running" in statuses[0]["state"]

    until(restarted, "pod running runs after one restart")
    assert processes_with(mark)

    cluster.kubectl("delete", "pod", "ended", "running").ok()
    until(lambda: not processes_with(mark), "the pods' processes are gone")
    until_no_more_than(state, cluster.home)
    assert mounts() == mounted
    assert cluster.kubectl("get", "pods", "-o", "name").ok() == ""


def test_a_deleted_namespace_leaves_nothing_behind(cluster: Cluster) -> None:
    mark = f"mark-{os.urandom(4).hex()}"
    cluster.until_alone()
    state = tree(cluster.home)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "scratch"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    user = pod("user", f": {mark}\necho x > /scratch/x; sleep 600")
    user["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    user["spec"]["volumes"] = [{"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}]
    cluster.apply(claim, user)
    cluster.until_phase("Running", "user")
    assert tree(cluster.home) > state
    cluster.kubectl("delete", "namespace", cluster.namespace, "--timeout=30s").ok()
    assert not processes_with(mark)
    until_no_more_than(state, cluster.home)
