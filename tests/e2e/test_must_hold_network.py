"""Jobs do not meet: each pod has its own address and ports, each job its own names. Ordinary clients meet by them.

Left out: reachability between all pairs of pods and DNS itself (tests/cluster/test_runtime_network.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, as_list, until
from tests.e2e.jobs import job, pod, pod_spec, replica

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
        cluster.until_phase("Running", *pods)  # names are in the DNS before the status says so
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


SERVER = """
import http.server, os, sys, threading
from concurrent import futures
import grpc

def greet(request, context):
    return request + b" from " + sys.argv[1].encode()

methods = {"Greet": grpc.unary_unary_rpc_method_handler(greet)}
greeter = grpc.server(futures.ThreadPoolExecutor(1))
greeter.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Greeter", methods)])
greeter.add_insecure_port("0.0.0.0:9000")
greeter.start()
os.chdir("/tmp")
open("index.html", "w").write(sys.argv[1])
http.server.ThreadingHTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""

VISITOR = """
import asyncio, json, os, subprocess, sys, urllib.request
import grpc, kr8s, kubernetes_asyncio, requests
from kubeflow.training import TrainingClient
from kubernetes import client, config

def by_urllib(host):
    return urllib.request.urlopen(f"http://{host}:8000/", timeout=20).read().decode().strip()

def by_curl(host):
    command = ["curl", "-sS", "--max-time", "20", f"http://{host}:8000/"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

def by_requests(host):
    return requests.get(f"http://{host}:8000/", timeout=20).text.strip()

def by_grpc(host):
    with grpc.insecure_channel(f"{host}:9000") as channel:
        return channel.unary_unary("/Greeter/Greet")(b"hello", timeout=20).decode()

def of_kubernetes():
    config.load_incluster_config()
    return [pod.metadata.name for pod in client.CoreV1Api().list_namespaced_pod(namespace).items]

def of_kr8s():
    return [pod.name for pod in kr8s.get("pods", namespace=namespace)]

def of_kubernetes_asyncio():
    async def listed():
        kubernetes_asyncio.config.load_incluster_config()
        async with kubernetes_asyncio.client.ApiClient() as api:
            found = await kubernetes_asyncio.client.CoreV1Api(api).list_namespaced_pod(namespace)
            return [pod.metadata.name for pod in found.items]
    return asyncio.run(listed())

def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return repr(error)

namespace = os.environ["NAMESPACE"]
seen = {}
for host in sys.argv[1:]:
    for visit in (by_urllib, by_curl, by_requests, by_grpc):
        seen[f"{visit.__name__} {host}"] = outcome(visit, host)
pods = {listing.__name__: outcome(listing) for listing in (of_kubernetes, of_kr8s, of_kubernetes_asyncio)}
seen["pods"] = {name: sorted(found) for name, found in pods.items()}
seen["jobs"] = [job.metadata.name for job in TrainingClient().list_jobs(namespace=namespace)]
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
for api in ("kubernetes.default", "kubernetes.default.svc", os.environ["KUBERNETES_SERVICE_HOST"]):
    answer = requests.get(
        f"https://{api}/version",
        headers={"Authorization": "Bearer " + open(account + "token").read()},
        verify=account + "ca.crt",
        timeout=20,
    )
    seen[api] = answer.status_code
print(json.dumps(seen))
"""


def test_clients_in_a_pod_reach_services_pods_and_the_api_with_the_variables_that_every_pod_gets(
    cluster: Cluster, shared_folder: Path
) -> None:
    here, there = cluster.namespace, f"{cluster.namespace}-b"
    cluster.kubectl("create", "namespace", there).ok()
    for namespace in (here, there):
        probe = {"httpGet": {"port": 8000}, "periodSeconds": 1}
        server = pod("web", "", readinessProbe=probe)
        server["spec"]["containers"][0]["command"] = ["python3", "-c", SERVER, namespace]
        server["metadata"]["labels"] = {"app": "web"}
        ports = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 9000}]
        service = {"selector": {"app": "web"}, "ports": ports}
        web = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service}
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=as_list(server, web)).ok()
    for namespace in (here, there):
        wait = ("wait", "--for=condition=Ready", "pod/web", "--timeout=30s", "-n", namespace)
        cluster.kubectl(*wait).ok()
    cluster.kubectl("create", "role", "look", "--verb=list", "--resource=pods,pytorchjobs.kubeflow.org").ok()
    binding = ("create", "rolebinding", "look", "--role=look", f"--serviceaccount={here}:default")
    cluster.kubectl(*binding).ok()

    address = cluster.pods()["web"]["status"]["podIP"]
    served = {
        "web": here,
        f"web.{here}": here,
        f"web.{there}": there,
        f"web.{there}.svc": there,
        f"web.{there}.svc.cluster.local": there,
        address: here,
    }
    visitor = pod("visitor", "")
    visitor["spec"]["containers"][0]["command"] = ["python3", "-c", VISITOR, *served]
    own = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    visitor["spec"]["containers"][0]["env"] = [{"name": "NAMESPACE", "valueFrom": own}]
    cluster.apply(job("brief", replica("exit 0")))  # Without a runPolicy, which the SDK's models insist on.
    cluster.until_condition("brief", "Succeeded")
    cluster.apply(visitor)
    until(
        lambda: cluster.pods()["visitor"]["status"]["phase"] in ("Succeeded", "Failed"), "the visits end", 60
    )

    seen = json.loads(cluster.logs("visitor")[-1])
    listings = ("of_kubernetes", "of_kr8s", "of_kubernetes_asyncio")
    assert seen.pop("pods") == {listing: ["brief-master-0", "visitor", "web"] for listing in listings}
    assert seen.pop("jobs") == ["brief"]
    for api in ("kubernetes.default", "kubernetes.default.svc", "10.96.0.1"):
        assert seen.pop(api) == 200
    ways = {"by_urllib": "", "by_curl": "", "by_requests": "", "by_grpc": "hello from "}
    assert seen == {
        f"{way} {host}": f"{said}{page}" for host, page in served.items() for way, said in ways.items()
    }
    cluster.kubectl("delete", "namespace", there, "--wait=false").ok()
