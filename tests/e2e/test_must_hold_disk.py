"""A disk that is full, read-only or was damaged: a clear message, and a store that keeps what it acknowledged.

The full disk is a small tmpfs in a mount namespace of its own, which takes root. Without root these tests are not
run; with CI=true that is a failure. Left out: power loss in the middle of a write
(tests/process/test_store_durability.py).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, Result, until
from tests.e2e.jobs import job, replica

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="only root can mount a small disk"
)


def assert_clear(refused: Result, *texts: str) -> None:
    """The message is one line, and perhaps a hint; the exit code says that it failed."""
    assert refused.rc in (1, 3), refused
    assert "Traceback" not in refused.err and "error: " in refused.err, refused
    assert len(refused.err.strip().splitlines()) <= 2, refused
    for text in texts:
        assert text in refused.err, refused


class SmallDisk:
    """A tmpfs at `place`, seen only by what is run with `enter`."""

    def __init__(self, place: Path, size: str) -> None:
        self.place = place
        mount = f"mount -t tmpfs -o size={size},mode=0700 small {place} && echo mounted && exec sleep 600"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "mounted\n"
        self.enter = ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt")
        # The same files, seen from outside.
        self.seen = Path(f"/proc/{self._holder.pid}/root") / place.relative_to("/")

    def run(self, script: str) -> str:
        done = subprocess.run([*self.enter, "sh", "-c", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def fill(self) -> None:
        """Leave no block free."""
        self.run(f"cat /dev/zero > {self.place}/filler 2>/dev/null; df {self.place} | grep -q 100%")

    def free(self) -> None:
        self.run(f"rm {self.place}/filler")

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    assert os.geteuid() == 0, "only root can mount a small disk: run this in CI as root"
    place = Path(f"/tmp/ts-disk-{os.urandom(3).hex()}")
    place.mkdir()
    small = SmallDisk(place, "24m")
    yield small
    small.close()
    place.rmdir()


class OnDisk(Cluster):
    """A cluster whose commands run where the small disk is seen."""

    disk: SmallDisk

    @property
    def kubeconfig(self) -> Path:
        return self.disk.seen / "home" / "kubeconfig"


@pytest.fixture
def small_cluster(disk: SmallDisk, tmp_path: Path) -> Iterator[OnDisk]:
    cluster = OnDisk(disk.place / "home", tmp_path, enter=disk.enter)
    cluster.disk = disk
    yield cluster
    cluster.trainshed("down", "--purge", "--yes").ok()


def config_maps(cluster: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.get("configmaps")} - {"kube-root-ca.crt"}


def add(cluster: Cluster, name: str, size: int = 200_000) -> Result:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "x" * size}}
    return cluster.kubectl("create", "-f", "-", stdin=json.dumps(obj))


@needs_root
def test_a_full_disk_refuses_writes_and_loses_nothing(small_cluster: OnDisk) -> None:
    cluster, disk = small_cluster, small_cluster.disk
    cluster.up()
    cluster.until_operator()
    add(cluster, "before").ok()

    disk.fill()
    kept = {"before"}
    for number in range(40):
        name = f"full-{number}"
        result = add(cluster, name)
        if result.rc != 0:
            break
        kept.add(name)  # acknowledged: there was room in a page
    assert result.rc == 1, "the disk never got full"
    assert "no space left" in result.err.lower() or "full" in result.err.lower(), result
    # Reading goes on, and shows exactly what was acknowledged.
    assert config_maps(cluster) == kept
    assert cluster.trainshed("status").rc == 0

    disk.free()
    until(
        lambda: add(cluster, f"after-{os.urandom(3).hex()}").rc == 0,
        "writing works again once there is space",
    )
    cluster.apply(job("train", replica("exit 0")))
    cluster.until_condition("train", "Succeeded")
    cluster.kill_control_plane()
    cluster.up()
    assert kept < config_maps(cluster)


@needs_root
def test_up_on_a_full_disk(small_cluster: OnDisk) -> None:
    cluster, disk = small_cluster, small_cluster.disk
    cluster.up()
    add(cluster, "before").ok()
    cluster.trainshed("down").ok()
    disk.fill()
    assert_clear(
        cluster.trainshed("up"), f"cannot write the store {cluster.home}/store.db: ", "hint: free some space"
    )
    disk.free()
    cluster.up()
    assert config_maps(cluster) == {"before"}


@needs_root
def test_down_needs_no_room_and_no_control_plane(small_cluster: OnDisk) -> None:
    cluster, disk = small_cluster, small_cluster.disk
    cluster.up()
    cluster.kubectl("run", "p", "--image=x", "--restart=Always", "--command", "--", "sleep", "1000").ok()
    until(lambda: cluster.get("pods", "p")["status"]["phase"] == "Running", "a pod runs")
    cluster.kill_control_plane()
    disk.fill()
    cluster.trainshed("down").ok()
    left = subprocess.run(["pgrep", "-f", str(cluster.home)], capture_output=True, text=True)
    assert not left.stdout, "every process has ended"
    disk.free()
    cluster.up()
    until(
        lambda: (status := cluster.get("pods", "p")["status"])["phase"] == "Running"
        and status["containerStatuses"][0]["restartCount"] == 1,
        "the pod runs again",
    )


@needs_root
def test_first_up_on_a_full_disk(small_cluster: OnDisk) -> None:
    small_cluster.disk.fill()
    assert_clear(small_cluster.trainshed("up"), str(small_cluster.home), "No space left", "hint: make room")
    small_cluster.disk.free()
    small_cluster.up()


@needs_root
def test_up_on_a_read_only_disk(small_cluster: OnDisk) -> None:
    cluster, disk = small_cluster, small_cluster.disk
    cluster.up()
    add(cluster, "before").ok()
    cluster.trainshed("down").ok()
    disk.run(f"mount -o remount,ro {disk.place}")
    assert_clear(cluster.trainshed("up"), "ead-only", str(cluster.home))
    disk.run(f"mount -o remount,rw {disk.place}")
    cluster.up()
    assert config_maps(cluster) == {"before"}


def test_a_state_directory_that_cannot_be_made(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for home in (Path("/proc/trainshed"), file / "home", file):
        nowhere = Cluster(home, tmp_path)
        for command in (["up"], ["run", "x.yaml"]):
            (tmp_path / "x.yaml").write_text(json.dumps(job("train", replica("exit 0"))))
            arguments = [str(tmp_path / a) if a.endswith("yaml") else a for a in command]
            assert_clear(nowhere.trainshed(*arguments), str(home), "TRAINSHED_HOME")


@pytest.mark.parametrize("damage", ["garbage", "cut", "empty folder"])
def test_a_damaged_store(make_cluster: Callable[..., Cluster], damage: str) -> None:
    """It is named, with what to do, and left for whoever can mend it."""
    cluster = make_cluster()
    cluster.up()
    for number in range(3):
        add(cluster, f"kept-{number}").ok()
    cluster.trainshed("down").ok()
    store = cluster.home / "store.db"
    whole = store.read_bytes()
    others = {p: p.read_bytes() for p in cluster.home.glob("store.db-*")}
    if damage == "garbage":
        store.write_bytes(b"this is no database" + whole[19:])
    elif damage == "cut":
        store.write_bytes(whole[: len(whole) // 2])
    else:
        store.unlink()
        store.mkdir()
    damaged = store.read_bytes() if store.is_file() else b""
    assert_clear(cluster.trainshed("up"), "store.db", "hint:")
    assert (store.read_bytes() if store.is_file() else b"") == damaged
    assert cluster.trainshed("status").rc == 1

    if store.is_dir():
        store.rmdir()
    store.write_bytes(whole)
    for path, data in others.items():
        path.write_bytes(data)
    cluster.up()
    assert config_maps(cluster) == {"kept-0", "kept-1", "kept-2"}
