"""Jobs do not meet: each pod has its own address and ports, each job its own names.

Left out: reachability between all pairs of pods and DNS itself (tests/cluster/test_runtime.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, as_list, until
from tests.e2e.jobs import job, pod_spec

PORT = 23456

MASTER = """
import os, pathlib, socket, time
server = socket.create_server(("0.0.0.0", int(os.environ["MASTER_PORT"])))
met = {socket.gethostname()}
while len(met) < int(os.environ["WORLD_SIZE"]):
    peer, _ = server.accept()
    name = peer.makefile().readline().strip()
    met.add(name)
    peer.sendall((os.environ["JOB"] + "\\n").encode())
    peer.close()
pathlib.Path("/out/met-" + os.environ["JOB"]).write_text(" ".join(sorted(met)))
while not pathlib.Path("/out/finish").exists():
    time.sleep(0.05)
"""

WORKER = """
import os, pathlib, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
while True:
    try:
        peer = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
peer.sendall((socket.gethostname() + "\\n").encode())
print("the master is of", peer.makefile().readline().strip(), "at", *address)
while not pathlib.Path("/out/finish").exists():
    time.sleep(0.05)
"""


def meeting_job(name: str, out: Path) -> dict[str, Any]:
    def replica(script: str, replicas: int) -> dict[str, Any]:
        variables = [{"name": "JOB", "value": name}]
        spec = pod_spec("", out, env=variables) | {"restartPolicy": "Never"}
        spec["containers"][0]["command"] = ["python3", "-c", script]
        return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": spec}}

    return job(name, replica(MASTER, 1), replica(WORKER, 2))


def test_two_jobs_on_one_port_at_the_same_time(cluster: Cluster, shared_folder: Path) -> None:
    names = ("first", "second")
    cluster.apply(*(meeting_job(name, shared_folder) for name in names))
    met = {name: shared_folder / f"met-{name}" for name in names}
    until(lambda: all(file.exists() for file in met.values()), "both masters met their workers")

    # Both still run: the ports were open at the same time.
    for name in names:
        pods = cluster.pods(name)
        assert {p["status"]["phase"] for p in pods.values()} == {"Running"}
        assert set(met[name].read_text().split()) == set(pods)
        for worker in (f"{name}-worker-0", f"{name}-worker-1"):
            assert cluster.logs(worker) == [f"the master is of {name} at {name}-master-0 {PORT}"]
    (shared_folder / "finish").touch()
    for name in names:
        cluster.until_condition(name, "Succeeded")


def test_a_job_of_the_same_name_in_another_namespace_is_another_job(
    cluster: Cluster, shared_folder: Path
) -> None:
    other = f"{cluster.namespace}-b"
    cluster.kubectl("create", "namespace", other).ok()
    here, there = shared_folder / "here", shared_folder / "there"
    for folder, namespace in ((here, cluster.namespace), (there, other)):
        folder.mkdir(mode=0o777)
        manifest = meeting_job("same", folder)
        manifest["metadata"]["namespace"] = namespace
        manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=as_list(manifest)).ok()
    for folder in (here, there):
        until((folder / "met-same").exists, f"the master met its worker in {folder.name}")
        assert (folder / "met-same").read_text() == "same-master-0 same-worker-0"
        (folder / "finish").touch()
    for namespace in (cluster.namespace, other):
        wait = ("wait", "--for=condition=Succeeded", "pytorchjob/same", "--timeout=30s", "-n", namespace)
        cluster.kubectl(*wait).ok()
    cluster.kubectl("delete", "namespace", other, "--wait=false").ok()
