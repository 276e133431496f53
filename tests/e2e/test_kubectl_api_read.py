"""Reading with every kubectl: version, discovery, get, list, watch, wait, explain, auth, errors.

Rows 001-044, 097-102, 124, 128-130 of the conformance list, as far as no node is needed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Api, Kubectl, eventually

pytestmark = pytest.mark.timeout(120)


def make_pod(name: str, labels: dict[str, str] | None = None, containers: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": f"c{i}", "image": "busybox"} for i in range(containers)]},
    }


def make_running(api: Api, namespace: str, name: str) -> None:
    """Write the status that a node would."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    pod = api.json("GET", path)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    statuses = [
        {
            "name": c["name"],
            "image": c["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        for c in pod["spec"]["containers"]
    ]
    status = {"phase": "Running", "conditions": [ready], "containerStatuses": statuses}
    api.json(
        "PATCH",
        f"{path}/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )


def test_version_and_health(kubectl: Kubectl) -> None:
    assert "v1.33." in kubectl("version").ok()
    version = json.loads(kubectl("version", "-o", "json").ok())["serverVersion"]
    assert len(version) >= 9
    assert all(isinstance(value, str) for value in version.values())
    assert kubectl("get", "--raw", "/healthz").ok() == "ok"
    assert kubectl("get", "--raw", "/readyz").ok() == "ok"
    assert "ping ok" in kubectl("get", "--raw", "/livez?verbose").ok()
    assert "control plane" in kubectl("cluster-info").ok()


def test_discovery(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources").ok()
    for name in ("pods", "jobs", "deployments", "customresourcedefinitions", "leases"):
        assert name in resources
    batch = kubectl("api-resources", "--api-group=batch", "-o", "name").ok().split()
    assert sorted(batch) == ["cronjobs.batch", "jobs.batch"]
    versions = kubectl("api-versions").ok().split()
    assert {"v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1"} <= set(versions)
    kubectl("get", "nope").failed('the server doesn\'t have a resource type "nope"')


def test_get_in_every_shape(kubectl: Kubectl, api: Api) -> None:
    kubectl.apply(make_pod("web", {"app": "web"}, containers=2))
    kubectl.apply(make_pod("other", {"app": "x"}))
    kubectl.apply(make_pod("plain"))
    make_running(api, kubectl.namespace, "web")
    again = kubectl("create", "-f", "-", stdin=json.dumps(make_pod("web")))
    again.failed("AlreadyExists", 'pods "web" already exists')

    lines = kubectl("get", "pods").ok().splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert next(line for line in lines if line.startswith("web")).split()[1:4] == ["2/2", "Running", "0"]
    assert "NOMINATED NODE" in kubectl("get", "pods", "-o", "wide").ok()
    assert "NAMESPACE" in kubectl("get", "pods", "-A").ok().splitlines()[0]
    names = kubectl("get", "pods", "-o", "name").ok().split()
    assert names == ["pod/other", "pod/plain", "pod/web"]
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}").ok() == "other plain web"
    assert kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name").ok().split()[0] == "N"
    assert kubectl("get", "pods", "--sort-by=.metadata.name", "--no-headers").ok().count("\n") == 3
    assert "APP" in kubectl("get", "pods", "--show-labels", "-L", "app").ok()
    paged = kubectl("get", "pods", "--chunk-size=1", "-o", "name").ok().split()
    assert paged == names

    def selected(*arguments: str) -> list[str]:
        return kubectl("get", "pods", "-o", "name", *arguments).ok().split()

    assert selected("-l", "app=web") == ["pod/web"]
    assert selected("-l", "app in (web,x)") == ["pod/other", "pod/web"]
    assert selected("-l", "!app") == ["pod/plain"]
    assert selected("--field-selector", "status.phase=Running") == ["pod/web"]
    kubectl("get", "pods", "--field-selector", "spec.foo=x").failed("field label not supported: spec.foo")
    assert kubectl("get", "pods", "-l", "x in (a").rc == 1
    missing = kubectl("get", "pod", "nope")
    missing.failed('Error from server (NotFound): pods "nope" not found')


def test_get_one_object(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(make_pod("web"))).ok()
    metadata = kubectl.get("pod", "web")["metadata"]
    assert {"uid", "resourceVersion", "creationTimestamp"} <= metadata.keys()
    assert "managedFields" not in metadata
    shown = json.loads(kubectl("get", "pod", "web", "-o", "json", "--show-managed-fields").ok())
    assert shown["metadata"]["managedFields"][0]["manager"] == "kubectl-create"
    assert "kind: Pod" in kubectl("get", "pod", "web", "-o", "yaml").ok()


def test_get_all_and_cluster_scope(kubectl: Kubectl) -> None:
    kubectl.apply(make_pod("web"))
    assert "pod/web" in kubectl("get", "all").ok()
    kubectl("get", "ns,nodes,sc,pv,crd").ok()
    assert "(default)" in kubectl("get", "sc").ok()
    assert "10.96.0.1" in kubectl("get", "svc", "kubernetes", "-n", "default", namespace=False).ok()


def test_describe(kubectl: Kubectl) -> None:
    kubectl.apply(make_pod("web"))
    kubectl("create", "deployment", "dep", "--image=busybox").ok()
    kubectl("create", "job", "job1", "--image=busybox").ok()
    kubectl("create", "service", "clusterip", "svc", "--tcp=80").ok()
    kubectl("create", "configmap", "cm", "--from-literal=a=1").ok()
    described = kubectl("describe", "pod", "web").ok()
    for section in ("Containers:", "Volumes:", "Events:"):
        assert section in described
    for what in ("deploy/dep", "job/job1", "svc/svc", "cm/cm"):
        kubectl("describe", what).ok()
    kubectl("describe", "ns", kubectl.namespace).ok()
    kubectl("describe", "crd").ok()


def test_watch_prints_one_header_and_live_rows(kubectl: Kubectl) -> None:
    kubectl.apply(make_pod("first"))
    process = kubectl.start("get", "pods", "-w", "--output-watch-events")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:2] == ["EVENT", "NAME"]
        assert process.stdout.readline().split()[:2] == ["ADDED", "first"]
        kubectl.apply(make_pod("second"))
        assert process.stdout.readline().split()[:2] == ["ADDED", "second"]
        kubectl("label", "pod", "second", "x=y").ok()
        assert process.stdout.readline().split()[:2] == ["MODIFIED", "second"]
        kubectl("delete", "pod", "second", "--wait=false").ok()
        assert process.stdout.readline().split()[:2] == ["DELETED", "second"]
        assert process.poll() is None, "the watch stays open"
    finally:
        process.kill()
        process.communicate()


def test_watch_of_one_object_as_json(kubectl: Kubectl) -> None:
    kubectl.apply(make_pod("web"))
    process = kubectl.start("get", "pod", "web", "-w", "-o", "jsonpath={.metadata.labels.step}{'\\n'}")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        kubectl("label", "pod", "web", "step=one").ok()
        assert process.stdout.readline() == "one\n"
    finally:
        process.kill()
        process.communicate()


def test_wait(kubectl: Kubectl, api: Api) -> None:
    kubectl.apply(make_pod("web"))
    waiting = kubectl.start("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    make_running(api, kubectl.namespace, "web")
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert "condition met" in out
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=5s").ok()
    kubectl("wait", "--for=condition=Foo", "pod/web", "--timeout=1s").failed("timed out")
    gone = kubectl.start("wait", "--for=delete", "pod/web", "--timeout=20s")
    kubectl("delete", "pod", "web", "--force", "--grace-period=0").ok()
    assert gone.wait(30) == 0
    gone.communicate()
    kubectl("wait", "--for=delete", "pod/web", "--timeout=5s").ok()


def test_explain(kubectl: Kubectl) -> None:
    assert "image" in kubectl("explain", "pod.spec.containers").ok()
    assert "containers" in kubectl("explain", "deployment.spec.template", "--recursive").ok()


def test_auth(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").ok() == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list").ok()
    if kubectl.minor >= 28:  # 1.27 has it as an alpha command with APIs of its own
        assert "trainshed-admin" in kubectl("auth", "whoami").ok()


def test_a_limited_user(kubectl: Kubectl, api: Api) -> None:
    namespace = kubectl.namespace
    kubectl("create", "sa", "robot").ok()
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods").ok()
    kubectl("create", "rolebinding", "robot", "--role=reader", f"--serviceaccount={namespace}:robot").ok()
    token = kubectl("create", "token", "robot").ok().strip()
    status, _, body = api("GET", f"/api/v1/namespaces/{namespace}/pods", token=token)
    assert status == 200, body
    status, _, body = api("GET", f"/api/v1/namespaces/{namespace}/secrets", token=token)
    assert status == 403
    user = f"system:serviceaccount:{namespace}:robot"
    assert json.loads(body)["message"] == (
        f'secrets is forbidden: User "{user}" cannot list resource "secrets" in API group ""'
        f' in the namespace "{namespace}"'
    )
    review = api.json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=token)
    assert review["status"]["userInfo"]["username"] == user
    assert kubectl("auth", "can-i", "delete", "pods", "--as", user).rc == 1
    kubectl("get", "secrets", "--as", user).failed("Forbidden", user)
    kubectl("delete", "sa", "robot").ok()
    assert api("GET", "/version", token=token)[0] == 401, "a token dies with its account"


def test_no_and_unknown_credentials(kubectl: Kubectl, api: Api, api_home: Any) -> None:
    assert api("GET", "/api/v1/pods", token="")[0] == 403
    assert api("GET", "/api", token="")[0] == 403
    assert api("GET", "/version", token="")[0] == 200
    assert api("GET", "/healthz", token="")[0] == 200
    status, _, body = api("GET", "/api/v1/pods", token="nonsense")
    assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")
    config = (api_home / "kubeconfig").read_text().replace(api.token, "nonsense")
    other = api_home / f"bad-{kubectl.namespace}"
    other.write_text(config)
    refused = kubectl("get", "pods", "--kubeconfig", str(other))
    assert refused.rc == 1
    assert "logged in" in refused.err or "Unauthorized" in refused.err


def test_events(kubectl: Kubectl, api: Api) -> None:
    kubectl.apply(make_pod("web"))
    pod = kubectl.get("pod", "web")
    event = {
        "metadata": {"name": "web.1", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": kubectl.namespace,
            "uid": pod["metadata"]["uid"],
        },
        "reason": "Scheduled",
        "message": "on a node",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": pod["metadata"]["creationTimestamp"],
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
        "source": {"component": "scheduler"},
    }
    api.json("POST", f"/api/v1/namespaces/{kubectl.namespace}/events", event)
    assert "Scheduled" in kubectl("get", "events").ok()
    assert "Scheduled" in kubectl("events", "--for", "pod/web").ok()
    assert "Scheduled" in kubectl("describe", "pod", "web").ok()
    assert "Scheduled" in kubectl("get", "events.events.k8s.io").ok()
    view = kubectl.get("events.events.k8s.io", "web.1")
    assert (view["regarding"]["name"], view["note"]) == ("web", "on a node")
    eventually(lambda: "Scheduled" in kubectl("get", "ev").ok(), "the event is listed")
