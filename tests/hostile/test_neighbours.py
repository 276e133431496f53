"""Pods in the way of others: too many processes, too much output, no end, no bottom. The cluster goes on, and all of it
is gone with the pod.

How much of the machine they take is bounded here by the programs themselves, which have no limits.
"""

from __future__ import annotations

import io
import re
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import pod
from tests.processes import processes_with

QUICK_SECONDS = 5.0
LOG_BYTES = 5 * (10 << 20) + (1 << 20)

CROWD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(300):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
print("up", flush=True)
time.sleep(1000)
"""
DEEP = """
import os
for top in ("/disk", "/memory", "/claim", "/opt"):
    os.chdir(top)
    for _ in range(2000):
        os.mkdir("d")
        os.chdir("d")
    os.chmod(".", 0)
"""


def python(name: str, program: str, mark: str = "", **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod(name, "")
    made["spec"]["containers"][0]["command"] = ["python3", "-c", program, mark]
    made["spec"].update(spec)
    return made


def quickly(cluster: Cluster) -> None:
    """The API answers while pods do their worst."""
    began = time.monotonic()
    status, _, _ = cluster.api("GET", "/version")
    assert status == 200
    assert time.monotonic() - began < QUICK_SECONDS


def test_a_crowd_that_ignores_signals_ends_with_its_pod(cluster: Cluster) -> None:
    mark = f"crowd-{cluster.namespace}"
    cluster.apply(python("crowd", CROWD, mark, terminationGracePeriodSeconds=1))
    until(
        lambda: cluster.pods().get("crowd", {}).get("status", {}).get("phase") == "Running",
        "the crowd Running",
    )
    until(lambda: len(processes_with(mark)) > 300, "three hundred processes")
    quickly(cluster)
    scores = {Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in processes_with(mark)}
    assert scores == {"1000"}, "the kernel ends pods before the cluster when memory runs out"
    own = {
        role: int(Path(f"/proc/{found[0]}/oom_score_adj").read_text())
        for role, found in cluster.pids.items()
        if found
    }
    capabilities = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert capabilities is not None
    may_go_last = int(capabilities[1], 16) >> 24 & 1  # CAP_SYS_RESOURCE
    assert own["control plane"] == (-999 if may_go_last else 0)
    assert own["sandbox daemon"] == 0, "which pods inherit, and may go back to"
    cluster.kubectl("delete", "pod", "crowd").ok()
    assert processes_with(mark) == []


def test_output_without_end_is_kept_in_bounds(cluster: Cluster) -> None:
    cluster.apply(
        pod("loud", "yes 'a line of some length that says nothing at all' | head -c 100000000"),
        pod("long", "head -c 5000000 /dev/zero | tr '\\0' x"),
    )
    until(lambda: cluster.pods()["loud"]["status"].get("phase") is not None, "the loud pod is known")
    quickly(cluster)
    cluster.until_phase("Succeeded", "loud", "long")
    for name in ("loud", "long"):
        logs = cluster.home / "pods" / cluster.pods()[name]["metadata"]["uid"] / "logs"
        size = sum(path.stat().st_size for path in logs.rglob("*") if path.is_file())
        assert 0 < size <= LOG_BYTES
    assert cluster.kubectl("logs", "loud", "--tail=1").ok().startswith("a line of some length")


def test_trees_without_bottom_go_with_their_pod(cluster: Cluster) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "deep"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "deep"}},
    ]
    deep = python("deep", DEEP, volumes=volumes)
    deep["spec"]["containers"][0]["volumeMounts"] = [
        {"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes
    ]
    cluster.apply(claim, deep)
    cluster.until_phase("Succeeded", "deep")
    uid = cluster.pods()["deep"]["metadata"]["uid"]
    places = [cluster.home / "pods" / uid]
    places += [path for path in (cluster.home / "volumes").iterdir() if "-deep-" in path.name]
    assert len(places) == 2
    assert all(place.is_dir() for place in places)
    cluster.kubectl("delete", "pod/deep", "pvc/deep").ok()
    until(lambda: not any(place.exists() for place in places), "trees of two thousand levels are gone")


def test_paths_of_a_pods_archive_stay_where_the_user_wants_them(cluster: Cluster, tmp_path: Path) -> None:
    """`kubectl cp` runs the pod's own tar, which sends what it likes."""
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as made:
        for name in ("../escaped", "/tmp/escaped-of-tar", "data/../../escaped", "data/file"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            made.addfile(entry, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("data/link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        made.addfile(link)
        through = tarfile.TarInfo("data/link/escaped")
        through.size = 4
        made.addfile(through, io.BytesIO(b"evil"))
    script = "printf '#!/bin/sh\\ncat /out/evil.tar\\n' > /usr/local/bin/tar; chmod 755 /usr/local/bin/tar; sleep 1000"
    cluster.apply(pod("evil", script, tmp_path))
    cluster.until_phase("Running", "evil")
    tar = cluster.kubectl(
        "exec", "evil", "--", "sh", "-c", "until [ -x /usr/local/bin/tar ]; do sleep 0.05; done"
    )
    tar.ok()
    target = tmp_path / "target"
    target.mkdir()
    cluster.kubectl("cp", f"{cluster.namespace}/evil:data", str(target / "data"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.tar", "target"]
    assert not Path("/tmp/escaped-of-tar").exists()
    assert not list(tmp_path.glob("escaped*"))


def test_a_link_as_sub_path_leads_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    targets = {"root": "/", "up": "../../..", "process": "/proc/1/root", "loop": "loop"}
    for name, to in targets.items():
        (tmp_path / name).symlink_to(to)
        linked = pod(name, "ls /data")
        linked["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
        linked["spec"]["containers"][0]["volumeMounts"] = [
            {"name": "v", "mountPath": "/data", "subPath": name}
        ]
        cluster.apply(linked)
    for name in targets:
        told = lambda name=name: any(f'subPath "{name}"' in text for text in cluster.events("Failed", name))  # noqa: E731
        until(told, f"an event about the path of {name}")
        assert cluster.pods()[name]["status"]["phase"] == "Pending"


def test_a_pod_without_rights_gets_nothing_from_the_api(cluster: Cluster) -> None:
    program = """
import json, os, ssl, urllib.error, urllib.request
token = open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()
namespace = open("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read()
context = ssl.create_default_context(cafile="/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
here = f"/api/v1/namespaces/{namespace}"
def ask(method, path, body=None):
    data = json.dumps(body).encode() if body else None
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request("https://10.96.0.1" + path, data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        return opener.open(request, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
binding = {"metadata": {"name": "me"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
    "name": "cluster-admin"}, "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]}
for method, path, body in (
    ("GET", here + "/secrets", None), ("GET", "/api/v1/secrets", None), ("GET", here + "/pods", None),
    ("GET", "/api/v1/nodes", None), ("POST", here + "/pods", {"metadata": {"name": "x"}}),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding),
    ("POST", here + "/serviceaccounts/default/token", {"spec": {}}),
    ("POST", here + "/pods/x/exec?command=sh", None), ("GET", "/metrics", None),
):
    code = ask(method, path, body)
    if code != 403:
        print(method, path, code)
print("done")
"""
    cluster.apply(python("curious", program))
    cluster.until_phase("Succeeded", "curious")
    assert cluster.logs("curious") == ["done"]


BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        time.sleep(0.1)
"""
HOG = "held = []\nwhile True: held.append(bytearray(1 << 20))"
FILLER = "head -c 60000000 /dev/zero > /opt/filled; sleep 1000"
TICKS = "while :; do date +%s%N; sleep 0.05; done"


def test_who_takes_all_that_there_is_gets_what_it_may_and_others_go_on(cluster: Cluster) -> None:
    """Processes, memory and disk at once, beside a pod that does its work."""
    hog = python("hog", HOG)
    hog["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    filler = pod("filler", FILLER, resources={"limits": {"ephemeral-storage": "16Mi"}})
    mark = f"bomb-{cluster.namespace}"
    cluster.apply(
        pod("innocent", TICKS), hog, filler, python("bomb", BOMB, mark, terminationGracePeriodSeconds=1)
    )
    cluster.until_phase("Running", "innocent")
    cluster.until_phase("Failed", "hog")
    ended = cluster.pods()["hog"]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    cluster.until_phase("Failed", "filler")
    evicted = cluster.pods()["filler"]["status"]
    assert (evicted["reason"], evicted["message"]) == (
        "Evicted",
        "Pod ephemeral local storage usage exceeds the total limit of containers 16Mi. ",
    )
    until(lambda: len(processes_with(mark)) > 300, "many processes")
    quickly(cluster)
    before = len(cluster.kubectl("logs", "innocent").ok().splitlines())
    until(
        lambda: len(cluster.kubectl("logs", "innocent").ok().splitlines()) > before,
        "the innocent pod goes on",
    )
    statuses = cluster.pods()["innocent"]["status"]["containerStatuses"]
    assert [status["restartCount"] for status in statuses] == [0]
    cluster.kubectl("delete", "pod", "bomb", "innocent", "--grace-period=1").ok()
    assert processes_with(mark) == []
