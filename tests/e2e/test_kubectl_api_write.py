"""Writing with every kubectl: create, apply, server-side apply, patch, edit, replace, scale, delete.

Rows 045-078, 103-123 of the conformance list, as far as no node is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Api, Kubectl, eventually

pytestmark = pytest.mark.timeout(180)


def config_map(name: str = "cm1", **data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def deployment(image: str = "nginx:1", replicas: int = 2) -> str:
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "dep"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "dep"}},
                "template": {
                    "metadata": {"labels": {"app": "dep"}},
                    "spec": {"containers": [{"name": "c", "image": image}, {"name": "d", "image": "side"}]},
                },
            },
        }
    )


def test_create_typed(kubectl: Kubectl) -> None:
    """kubectl 1.32 and later send these as protobuf."""
    create = [
        ("configmap", "cm", "--from-literal=a=1"),
        ("secret", "generic", "s", "--from-literal=a=1"),
        ("sa", "robot"),
        ("deployment", "d", "--image=i", "--replicas=2", "--port=80"),
        ("job", "j", "--image=i", "--", "true"),
        ("cronjob", "cj", "--image=i", "--schedule=*/5 * * * *"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "rb", "--role=r", "--user=u"),
        ("quota", "q", "--hard=pods=10,cpu=1500m"),
        ("pdb", "p", "--selector=a=b", "--min-available=1"),
        ("ingress", "in", "--rule=a.b/c=svc:80"),
        ("service", "clusterip", "svc", "--tcp=80:8080"),
        ("service", "nodeport", "np", "--tcp=80"),
        ("service", "externalname", "en", "--external-name=x.y"),
    ]
    for arguments in create:
        assert "created" in kubectl("create", *arguments).ok(), arguments
    assert "created" in kubectl("create", "job", "from", "--from=cronjob/cj").ok()
    assert kubectl.get("secret", "s")["data"] == {"a": "MQ=="}
    dep = kubectl.get("deploy", "d")
    assert dep["spec"]["replicas"] == 2
    assert dep["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    service = kubectl.get("service", "svc")["spec"]
    assert service["clusterIP"].startswith("10.96.")
    assert service["clusterIPs"] == [service["clusterIP"]]
    assert service["ports"][0]["targetPort"] == 8080
    assert 30000 <= kubectl.get("service", "np")["spec"]["ports"][0]["nodePort"] < 32768
    assert kubectl.get("quota", "q")["spec"]["hard"] == {"pods": "10", "cpu": "1500m"}
    job = kubectl.get("job", "j")
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert kubectl.get("job", "from")["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


def test_names_that_the_server_makes(kubectl: Kubectl) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    made = kubectl("create", "-f", "-", "-o", "name", stdin=json.dumps(manifest)).ok().strip()
    assert len(made) == len("configmap/gen-") + 5
    del manifest["metadata"]["generateName"]  # type: ignore[attr-defined]
    assert kubectl("create", "-f", "-", stdin=json.dumps(manifest)).rc == 1


def test_client_side_apply(kubectl: Kubectl) -> None:
    assert "configmap/cm1 created" in kubectl("apply", "-f", "-", stdin=config_map(a="1", b="2")).ok()
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=config_map(a="1", b="2")).ok()
    assert "configured" in kubectl("apply", "-f", "-", stdin=config_map(a="9")).ok()
    held = kubectl.get("cm", "cm1")
    assert held["data"] == {"a": "9"}
    dry = kubectl("apply", "-f", "-", "--dry-run=server", stdin=config_map(a="5")).ok()
    assert "(server dry run)" in dry
    assert "(dry run)" in kubectl("apply", "-f", "-", "--dry-run=client", stdin=config_map(a="5")).ok()
    assert kubectl.get("cm", "cm1")["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]

    kubectl("apply", "-f", "-", stdin=deployment()).ok()
    kubectl("apply", "-f", "-", stdin=deployment("nginx:2")).ok()
    containers = kubectl.get("deploy", "dep")["spec"]["template"]["spec"]["containers"]
    assert [c["image"] for c in containers] == ["nginx:2", "side"]


def test_field_validation(kubectl: Kubectl) -> None:
    bad = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bad"},
        "spec": {"foo": 1, "containers": [{"name": "c", "image": "i"}]},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(bad)).failed(
        'strict decoding error: unknown field "spec.foo"'
    )
    warned = kubectl("apply", "--validate=warn", "-f", "-", stdin=json.dumps(bad))
    assert 'Warning: unknown field "spec.foo"' in warned.err
    assert "created" in warned.ok()
    bad["metadata"] = {"name": "bad2"}
    silent = kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(bad))
    assert "created" in silent.ok()
    assert "Warning" not in silent.err


def test_server_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=config_map(a="1", b="2")).ok()
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=config_map(a="1", b="2"))
    assert "serverside-applied" in applied.ok()
    conflict = kubectl("apply", "--server-side", "--field-manager=x", "-f", "-", stdin=config_map(a="9"))
    conflict.failed("Apply failed with 1 conflict", ".data.a")
    forced = ("apply", "--server-side", "--field-manager=x", "--force-conflicts", "-f", "-")
    kubectl(*forced, stdin=config_map(a="9", c="3")).ok()
    held = json.loads(kubectl("get", "cm", "cm1", "-o", "json", "--show-managed-fields").ok())
    owners = {e["manager"]: e["fieldsV1"] for e in held["metadata"]["managedFields"]}
    assert "f:a" in owners["x"]["f:data"]
    kubectl(*forced, stdin=config_map(a="9")).ok()
    assert kubectl.get("cm", "cm1")["data"] == {"a": "9", "b": "2"}


def test_kustomize_and_lists(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "cm.yaml").write_text(config_map(a="1"))
    (tmp_path / "dep.yaml").write_text(deployment())
    (tmp_path / "kustomization.yaml").write_text("namePrefix: kz-\nresources: [cm.yaml, dep.yaml]\n")
    out = kubectl("apply", "-k", str(tmp_path)).ok()
    assert "kz-cm1 created" in out
    assert "kz-dep created" in out
    assert "serverside-applied" in kubectl("apply", "--server-side", "-k", str(tmp_path)).ok()
    items = [json.loads(config_map("one")), json.loads(config_map("two"))]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert kubectl("apply", "-f", "-", stdin=listed).ok().count("created") == 2


def test_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=config_map(a="1")).ok()
    assert kubectl("diff", "-f", "-", stdin=config_map(a="1")).rc == 0
    changed = kubectl("diff", "-f", "-", stdin=config_map(a="2"))
    assert changed.rc == 1
    assert '+  a: "2"' in changed.out
    side = kubectl("diff", "--server-side", "--force-conflicts", "-f", "-", stdin=config_map(a="2"))
    assert side.rc == 1, side
    assert kubectl.get("cm", "cm1")["data"] == {"a": "1"}


def test_replace(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map(a="1")).ok()
    old = kubectl.get("cm", "cm1")
    assert "replaced" in kubectl("replace", "-f", "-", stdin=config_map(b="2")).ok()
    kubectl("replace", "-f", "-", stdin=json.dumps(old)).failed("Conflict", "the object has been modified")
    kubectl("replace", "--force", "-f", "-", stdin=config_map(c="3")).ok()
    assert kubectl.get("cm", "cm1")["metadata"]["uid"] != old["metadata"]["uid"]


def test_patches(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map(a="1")).ok()

    def patch(kind: str, body: Any) -> Any:
        return kubectl("patch", "cm", "cm1", f"--type={kind}", "-p", json.dumps(body))

    patch("strategic", {"data": {"z": "1"}}).ok()
    assert kubectl.get("cm", "cm1")["data"] == {"a": "1", "z": "1"}
    patch("merge", {"data": {"z": None}}).ok()
    assert kubectl.get("cm", "cm1")["data"] == {"a": "1"}
    patch("json", [{"op": "add", "path": "/data/q", "value": "1"}]).ok()
    assert kubectl.get("cm", "cm1")["data"] == {"a": "1", "q": "1"}
    failed = patch("json", [{"op": "test", "path": "/data/q", "value": "2"}])
    failed.failed("the server rejected our request due to an error in our request")


def test_edit_label_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map(a="before")).ok()
    edited = kubectl("edit", "cm", "cm1", environment={"KUBE_EDITOR": "sed -i s/before/after/"})
    assert "edited" in edited.ok()
    assert kubectl.get("cm", "cm1")["data"] == {"a": "after"}
    cancelled = kubectl("edit", "cm", "cm1", environment={"KUBE_EDITOR": "true"})
    assert "Edit cancelled" in cancelled.out + cancelled.err
    assert "labeled" in kubectl("label", "cm", "cm1", "x=y").ok()
    assert "labeled" in kubectl("label", "cm", "cm1", "x=z", "--overwrite").ok()
    assert "unlabeled" in kubectl("label", "cm", "cm1", "x-").ok()
    assert "annotate" in kubectl("annotate", "cm", "cm1", "x=y").ok()
    assert kubectl("label", "cm", "cm1", "x=not valid").rc == 1


def test_scale_rollout_and_set(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment()).ok()
    assert "scaled" in kubectl("scale", "deploy", "dep", "--replicas=3").ok()
    patch = ("patch", "deploy", "dep", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":4}}')
    kubectl(*patch).ok()
    dep = kubectl.get("deploy", "dep")
    assert dep["spec"]["replicas"] == 4
    kubectl("rollout", "restart", "deploy/dep").ok()
    kubectl("set", "image", "deploy/dep", "c=nginx:3").ok()
    kubectl("set", "env", "deploy/dep", "A=b").ok()
    kubectl("set", "resources", "deploy/dep", "-c=c", "--limits=cpu=200m").ok()
    after = kubectl.get("deploy", "dep")
    containers = after["spec"]["template"]["spec"]["containers"]
    assert containers[0]["image"] == "nginx:3"
    assert containers[0]["resources"]["limits"] == {"cpu": "200m"}
    assert after["metadata"]["generation"] == dep["metadata"]["generation"] + 4
    assert "service/dep exposed" in kubectl("expose", "deploy", "dep", "--port=80").ok()
    assert "autoscaled" in kubectl("autoscale", "deploy", "dep", "--max=3", "--cpu-percent=70").ok()
    assert kubectl.get("hpa", "dep")["spec"]["maxReplicas"] == 3
    old = kubectl.get("horizontalpodautoscalers.v1.autoscaling", "dep")
    assert old["spec"]["targetCPUUtilizationPercentage"] == 70


def test_run_and_delete(kubectl: Kubectl) -> None:
    assert "pod/r created" in kubectl("run", "r", "--image=i", "--restart=Never", "--", "true").ok()
    pod = kubectl.get("pod", "r")
    assert pod["spec"]["serviceAccountName"] == "default"
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert mounts[0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert pod["status"]["qosClass"] == "BestEffort"
    assert "deleted" in kubectl("delete", "pod", "r").ok()
    kubectl("delete", "pod", "r").failed('pods "r" not found')
    kubectl("delete", "pod", "r", "--ignore-not-found").ok()


def test_delete_many(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl("create", "-f", "-", stdin=config_map(name)).ok()
    kubectl("label", "cm", "a", "b", "x=y").ok()
    assert kubectl("delete", "cm", "-l", "x=y").ok().count("deleted") == 2
    kubectl("delete", "cm", "--all").ok()


def test_pods_get_their_grace(kubectl: Kubectl, api: Api) -> None:
    kubectl("run", "g", "--image=i").ok()
    binding = {"metadata": {"name": "g"}, "target": {"kind": "Node", "name": "n1"}}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/g"
    api.json("POST", f"{path}/binding", binding)
    status, _, body = api("POST", f"{path}/binding", binding)
    assert (status, "already assigned" in json.loads(body)["message"]) == (409, True)
    kubectl("delete", "pod", "g", "--wait=false").ok()
    pod = kubectl.get("pod", "g")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "Terminating" in kubectl("get", "pods").ok()
    kubectl("delete", "pod", "g", "--force", "--grace-period=0").ok()
    kubectl("get", "pod", "g").failed("NotFound")


def test_finalizers_hold_an_object(kubectl: Kubectl) -> None:
    manifest = json.loads(config_map())
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl("create", "-f", "-", stdin=json.dumps(manifest)).ok()
    kubectl("delete", "cm", "cm1", "--wait=false").ok()
    assert kubectl.get("cm", "cm1")["metadata"]["deletionTimestamp"]
    kubectl("patch", "cm", "cm1", "--type=merge", "-p", '{"metadata":{"finalizers":null}}').ok()
    kubectl("get", "cm", "cm1").failed("NotFound")


def test_cascades(kubectl: Kubectl) -> None:
    def replica_sets() -> list[Any]:
        items: list[Any] = kubectl.get("rs")["items"]
        return items

    for cascade in ("background", "foreground"):
        kubectl("apply", "-f", "-", stdin=deployment()).ok()
        eventually(lambda: bool(replica_sets()), "the deployment made a ReplicaSet")
        kubectl("delete", "deploy", "dep", f"--cascade={cascade}").ok()
        eventually(lambda: not replica_sets(), "the ReplicaSet is collected")
    kubectl("apply", "-f", "-", stdin=deployment()).ok()
    eventually(lambda: bool(replica_sets()), "the deployment made a ReplicaSet")
    kubectl("delete", "deploy", "dep", "--cascade=orphan").ok()
    (orphan,) = replica_sets()
    assert not orphan["metadata"].get("ownerReferences")


def test_namespaces(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-x"
    kubectl("create", "ns", name).ok()
    kubectl("create", "cm", "cm", "-n", name, namespace=False).ok()
    kubectl("delete", "ns", name).ok()
    kubectl("get", "ns", name).failed("NotFound")
    kubectl("create", "cm", "cm", "-n", name, namespace=False).failed(f'namespaces "{name}" not found')
    kubectl("delete", "ns", "default").failed("forbidden")


def test_a_terminating_namespace_takes_nothing(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-y"
    kubectl("create", "ns", name).ok()
    held = json.loads(config_map())
    held["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl("create", "-n", name, "-f", "-", stdin=json.dumps(held), namespace=False).ok()
    kubectl("delete", "ns", name, "--wait=false").ok()
    refused = kubectl("create", "cm", "more", "-n", name, namespace=False)
    refused.failed("forbidden", "being terminated")
    release = ("patch", "cm", "cm1", "-n", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl(*release, namespace=False).ok()
    eventually(lambda: kubectl("get", "ns", name).rc == 1, "the namespace is gone")


def test_evictions_respect_budgets(kubectl: Kubectl, api: Api) -> None:
    kubectl("run", "p", "--image=i", "--labels=a=b").ok()
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/p"
    merge = "application/merge-patch+json"
    api.json("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, content_type=merge)
    kubectl("create", "pdb", "b", "--selector=a=b", "--min-available=1").ok()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    status, headers, body = api("POST", f"{path}/eviction", eviction)
    assert (status, json.loads(body)["reason"]) == (429, "TooManyRequests")
    assert "retry-after" in headers, "no controller has counted the budget yet"
    kubectl("delete", "pdb", "b").ok()
    assert api("POST", f"{path}/eviction", eviction)[0] == 201
