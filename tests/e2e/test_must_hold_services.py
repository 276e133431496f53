"""Services as charts count on them: from pods by address and name, from this machine, through what is killed.

Left out: which endpoints a port has (tests/unit/test_node_service_routes.py), forwarding itself
(tests/process/test_forwarding.py, tests/cluster/test_runtime_services.py).
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.pods import make_pod

Object = dict[str, Any]

SERVER = """
import http.server, os, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ.get("NAME", os.environ["HOSTNAME"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", 8000))), Answer).serve_forever()
"""

VISITOR = """
import json, os, socket, struct, sys, time, urllib.request
def get(host):
    try:
        return urllib.request.urlopen(f"http://{host}/", timeout=20).read().decode()
    except Exception as error:
        return repr(error)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def get_directly(host):
    try:
        return direct.open(f"http://{host}/", timeout=20).read().decode()
    except Exception as error:
        return repr(error)
def servers(name):
    question = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + bytes(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.sendto(struct.pack("!6H", 7, 256, 1, 0, 0, 0) + question + struct.pack("!2H", 33, 1), ("10.88.0.1", 53))
        answer = sock.recv(4096)
    assert struct.unpack_from("!6H", answer)[3] == 1, answer
    return struct.unpack_from("!3H", answer, 12 + len(question) + 4 + 12)[2]
namespace = os.environ["NAMESPACE"]
ip, seen = os.environ["WEB_SERVICE_HOST"], {}
end = time.monotonic() + 20  # what leads to endpoints that somebody wrote comes a moment after their slice
while "first" not in get_directly("manual") and time.monotonic() < end:
    time.sleep(0.1)
for host in ("web", f"web.{namespace}", f"web.{namespace}.svc.cluster.local", ip, f"{ip}:81", "alias", "manual"):
    seen[host.replace(ip, "IP")] = [get(host), get_directly(host)]
seen["empty"] = [get_directly("empty")]
seen["address"] = [socket.gethostbyname("web") == ip]
seen["reverse"] = [socket.gethostbyaddr(ip)[0]]
seen["pods"] = sorted(socket.gethostbyaddr(one)[0] for one in socket.gethostbyname_ex("peers")[2])
seen["SRV"] = [
    servers(f"_http._tcp.web.{namespace}.svc.cluster.local"),
    servers(f"_http._tcp.peers.{namespace}.svc.cluster.local"),
]
node = "second.nodes:" + os.environ["NODE_PORT"]
seen["node"] = [socket.gethostbyname("second.nodes"), get(node), get_directly(node)]
seen["doors"] = [get_directly(f"10.88.0.1:{port}") for port in os.environ["DOORS"].split()]
seen["hosts"] = [line.split() for line in open("/etc/hosts") if "aliased" in line]
print(json.dumps(seen))
"""


def service(name: str, **spec: Any) -> Object:
    whole = {
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        **spec,
    }
    spec = {field: value for field, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def fetch(port: int) -> str:
    """Return what this machine is told at a port of its own."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError) as error:
        return repr(error)


def visitor(cluster: Cluster, name: str, port: int, doors: Sequence[int], **spec: Any) -> Object:
    pod = make_pod(name, "", **spec)
    own = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    pod["spec"]["containers"][0] |= {
        "command": ["python3", "-c", VISITOR],
        "env": [
            {"name": "NAMESPACE", "valueFrom": own},
            {"name": "NODE_PORT", "value": str(port)},
            {"name": "DOORS", "value": " ".join(map(str, doors))},
        ],
    }
    return pod


def on_machine(port: int) -> Object:
    """Return a pod on the machine's network, which serves at a port of the machine."""
    pod = make_pod("on-machine", "", grace=1, hostNetwork=True, hostname="second", subdomain="nodes")
    pod["metadata"]["labels"] = {"app": "nodes"}
    pod["spec"]["containers"][0] |= {
        "command": ["python3", "-c", SERVER],
        "env": [{"name": "NAME", "value": "on the machine"}, {"name": "PORT", "value": str(port)}],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
    }
    return pod


def test_services_lead_to_pods_from_pods_and_from_this_machine(cluster: Cluster) -> None:
    balancer, host_port, of_machine = free_port(), free_port(), free_port()
    web = make_pod("web-0", "", grace=1, hostname="first", subdomain="peers")
    web["metadata"]["labels"] = {"app": "web"}
    web["spec"]["containers"][0] |= {
        "command": ["python3", "-c", SERVER],
        "ports": [{"name": "http", "containerPort": 8000, "hostPort": host_port}],
        "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
    }
    more = [
        {"name": "http", "port": 80, "targetPort": "http"},
        {"name": "more", "port": 81, "targetPort": 8000},
    ]
    cluster.apply(
        web,
        on_machine(of_machine),
        service("nodes", clusterIP="None", selector={"app": "nodes"}),
        service("web", ports=more, type="NodePort", sessionAffinity="ClientIP"),
        service("peers", clusterIP="None"),
        service("empty", selector={"app": "nobody"}),
        service(
            "lb",
            type="LoadBalancer",
            externalTrafficPolicy="Local",
            ports=[{"port": balancer, "targetPort": 8000}],
        ),
        service("manual", selector=None, ports=[{"port": 80}]),
        service(
            "alias",
            selector=None,
            ports=None,
            type="ExternalName",
            externalName=f"web.{cluster.namespace}.svc.cluster.local",
        ),
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web-0", "pod/on-machine", "--timeout=30s").ok()
    address = cluster.get("pods", "web-0")["status"]["podIP"]
    written = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "manual"},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 8000}]}],
    }
    cluster.apply(written)
    until(lambda: "8000" in cluster.kubectl("get", "endpointslices").ok().split("manual", 1)[-1], "a slice")
    aliases = [{"ip": "192.0.2.7", "hostnames": ["aliased", "other"]}]
    node_port = cluster.get("services", "web")["spec"]["ports"][0]["nodePort"]
    cluster.apply(visitor(cluster, "visitor", of_machine, (node_port, host_port), hostAliases=aliases))
    ended = ("Succeeded", "Failed")
    until(lambda: cluster.get("pods", "visitor")["status"]["phase"] in ended, "the visits end")

    seen = json.loads(cluster.logs("visitor")[-1])
    full = f"web.{cluster.namespace}.svc.cluster.local"
    by = ("web", f"web.{cluster.namespace}", full, "IP", "IP:81", "alias", "manual")
    assert {host: seen.pop(host) for host in by} == {host: ["first", "first"] for host in by}
    assert "refused" in seen.pop("empty")[0]
    assert seen == {
        "address": [True],
        "reverse": [full],
        "pods": [f"first.peers.{cluster.namespace}.svc.cluster.local"],
        "SRV": [80, 8000],
        "node": ["10.88.0.1", "on the machine", "on the machine"],
        "doors": ["first", "first"],
        "hosts": [["192.0.2.7", "aliased", "other"]],
    }

    doors = (node_port, balancer, host_port)
    assert [fetch(port) for port in doors] == ["first"] * 3
    until(lambda: cluster.get("services", "lb")["status"]["loadBalancer"], "the balancer's address")
    status = cluster.get("services", "lb")["status"]["loadBalancer"]
    assert status == {"ingress": [{"ip": "127.0.0.1", "ipMode": "Proxy"}]}
    health = cluster.get("services", "lb")["spec"]["healthCheckNodePort"]
    until(lambda: '"localEndpoints": 1' in fetch(health), "the balancer is told of the endpoint")
    cluster.kill_control_plane()
    assert [fetch(port) for port in doors] == ["first"] * 3, "netd and its process are others"
    cluster.up().ok()
    cluster.kubectl("delete", "service", "web", "lb").ok()
    cluster.kubectl("delete", "pod", "web-0", "--wait=false").ok()
    until(lambda: all("refused" in fetch(port) for port in (*doors, health)), "the ports are closed")


def test_what_a_pod_asks_for_names(cluster: Cluster) -> None:
    config = {
        "nameservers": ["192.0.2.53"],
        "searches": ["corp.example"],
        "options": [{"name": "ndots", "value": "2"}],
    }
    specs: dict[str, Object] = {
        "usual": {},
        "more": {"dnsConfig": config},
        "default": {"dnsPolicy": "Default"},
        "none": {"dnsPolicy": "None", "dnsConfig": config},
        "host": {"dnsPolicy": "ClusterFirstWithHostNet"},
        "on-host": {"dnsPolicy": "ClusterFirst", "hostNetwork": True},
    }
    cluster.apply(*(make_pod(name, "cat /etc/resolv.conf", **spec) for name, spec in specs.items()))
    cluster.until_phase("Succeeded", *specs)
    found: dict[str, dict[str, list[str]]] = {}
    for name in specs:
        lines = [line.split() for line in cluster.logs(name) if line.strip()]
        found[name] = {
            "nameserver": [words[1] for words in lines if words[0] == "nameserver"],
            "search": [word for words in lines if words[0] == "search" for word in words[1:]],
            "options": [word for words in lines if words[0] == "options" for word in words[1:]],
        }
    domains = [f"{cluster.namespace}.svc.cluster.local", "svc.cluster.local", "cluster.local"]
    usual = found["usual"]
    machines = usual["search"][len(domains) :]
    assert usual == {"nameserver": ["10.88.0.1"], "search": domains + machines, "options": ["ndots:5"]}
    assert found["host"] == usual
    assert found["more"] == {
        "nameserver": ["10.88.0.1", "192.0.2.53"],
        "search": [*domains, *machines, "corp.example"],
        "options": ["ndots:2"],
    }
    assert found["default"] == {"nameserver": ["10.88.0.1"], "search": machines, "options": []}
    assert found["none"] == {"nameserver": ["192.0.2.53"], "search": ["corp.example"], "options": ["ndots:2"]}
    assert "10.88.0.1" not in found["on-host"]["nameserver"]
