"""Another user of the machine gets nothing: no file, no socket, no process's memory, no answer from the API.

The other user is a bare uid, which only root can take on. Without root the tests of files are not run; with
CI=true that is a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import UNTIL_TOLD, pod

OTHER = 54321

INTRUDER = """
import json, os, socket, sys
def attempt(path):
    # The ways in: list, read, connect, follow.
    for way in (os.listdir, lambda p: open(p, "rb").read(1), os.readlink, connect):
        try:
            way(path)
            yield way.__name__
        except OSError:
            pass
def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(path)
paths = json.load(sys.stdin)
json.dump({p: ways for p in paths if (ways := list(attempt(p)))}, sys.stdout)
"""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="only root can act as another user"
)


def as_other(command: list[str], stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    assert os.geteuid() == 0, "only root can act as another user: run this in CI as root"
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
    )


def what_other_gets(paths: list[str]) -> dict[str, list[str]]:
    """Return path → ways in that worked, of all paths tried as the other user."""
    done = as_other(["/usr/bin/env", "python3", "-c", INTRUDER], json.dumps(paths))
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@needs_root
def test_another_user_reads_no_file_and_reaches_no_socket(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(pod("secretive", f"echo secret > /etc/mine; {UNTIL_TOLD}", shared_folder))
    cluster.until_phase("Running", "secretive")
    # Not by `rglob`, which fails where a directory of some other pod goes meanwhile.
    paths = [str(cluster.home)]
    for folder, folders, files in os.walk(cluster.home):
        paths += [os.path.join(folder, name) for name in (*folders, *files)]
    kinds = (
        "kubeconfig",
        "ca.key",
        "sa.key",
        "admin.token",
        "token",
        "shim.sock",
        "sandboxd.sock",
        "netd.sock",
        "0.log",
    )
    for kind in kinds:
        assert any(path.endswith(f"/{kind}") for path in paths), f"there is no {kind} to try"
    # The check itself must be able to fail.
    readable = shared_folder / "readable"
    readable.write_text("data")
    assert what_other_gets([*paths, str(readable)]) == {str(readable): ["<lambda>"]}


@needs_root
def test_another_user_looks_into_no_process(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(pod("secretive", UNTIL_TOLD, shared_folder))
    cluster.until_phase("Running", "secretive")
    pids = [pid for role in cluster.pids.values() for pid in role]
    assert len(pids) >= 5
    secrets = ("environ", "root", "cwd", "fd", "mem", "maps", "map_files")
    assert what_other_gets([f"/proc/{pid}/{what}" for pid in pids for what in secrets]) == {}
    token = (cluster.home / "pki" / "admin.token").read_text().strip()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            assert token not in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces/default/pods"),
        ("GET", "/api/v1/namespaces/default/pods?watch=true"),
        ("GET", "/apis/kubeflow.org/v1/pytorchjobs"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/namespaces/kubeflow/pods/POD/log"),
        ("POST", "/api/v1/namespaces/kubeflow/pods/POD/exec?command=id&stdout=true"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("DELETE", "/api/v1/namespaces/default"),
        ("PATCH", "/api/v1/namespaces/default"),
        ("GET", "/metrics"),
        ("GET", "/no/such/path"),
    ],
)
def test_the_api_without_credentials_gives_no_data(session_cluster: Cluster, method: str, path: str) -> None:
    if not session_cluster.is_up:
        session_cluster.up()
    (operator,) = until(lambda: session_cluster.get("pods", namespace="kubeflow"), "the operator's pod")
    path = path.replace("POD", operator["metadata"]["name"])
    for token, allowed in (("nobody", {401}), ("", {401, 403})):
        status, _, body = session_cluster.api(method, path, None if method == "GET" else {}, token=token)
        assert status in allowed, (status, body)
        answer = json.loads(body)
        assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Failure", status)
        assert answer["reason"] in ("Unauthorized", "Forbidden")
        assert "items" not in answer


def test_kubectl_without_credentials_is_refused(cluster: Cluster) -> None:
    bare = cluster.scratch / "bare"
    config = cluster.kubectl("config", "view", "--raw", "-o", "json").ok()
    document = json.loads(config)
    document["users"] = [{"name": user["name"], "user": {}} for user in document["users"]]
    bare.write_text(json.dumps(document))
    refused = cluster.kubectl("get", "pods", f"--kubeconfig={bare}", "--token=wrong")
    refused.failed("Unauthorized")
    cluster.kubectl("auth", "can-i", "get", "secrets").ok()


def descriptors(pid: int) -> Iterator[str]:
    """Yield what the process has open; it may end, or close files, meanwhile."""
    with suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                yield str(descriptor.readlink())


def test_every_port_of_the_host_is_on_loopback(cluster: Cluster) -> None:
    """The addresses of the cluster's network are no addresses of the host."""
    sockets = {target for role in cluster.pids.values() for pid in role for target in descriptors(pid)}
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            is_server = fields[3] == "0A" or "udp" in table
            if is_server and f"socket:[{fields[9]}]" in sockets:
                listening.append((table, fields[1]))
    loopback = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
    port = int(cluster.facts["server"].rpartition(":")[2])
    assert (("/proc/net/tcp", f"{loopback}:{port:04X}")) in listening
    assert [address for _, address in listening if not address.startswith(loopback)] == []


@needs_root
def test_a_state_directory_that_others_may_enter_is_refused(cluster: Cluster) -> None:
    other = Cluster(cluster.scratch / "open", cluster.scratch)
    other.home.mkdir()
    other.home.chmod(0o755)
    other.trainshed("up").failed("other users may enter", "chmod 700")
    other.home.chmod(0o700)
    os.chown(other.home, OTHER, OTHER)
    other.trainshed("up").failed(f"belongs to user {OTHER}")
    assert list(other.home.iterdir()) == []
