"""Clients in Python that people use, from outside the cluster: each in a process of its own, unmodified.

Those of the Kubernetes project and kubeflow-training are in test_sdk.py and test_streams_python.py, clients in pods in
test_must_hold_network.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Api

SECONDS = 90.0
MERGE = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

LIGHTKUBE = """
import json, sys
from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType
client = Client(namespace=sys.argv[1], field_manager="lightkube")
client.create(ConfigMap(metadata=ObjectMeta(name="a", labels={"x": "y"}), data={"k": "1"}))
client.apply(ConfigMap(metadata=ObjectMeta(name="b"), data={"k": "2"}))
client.patch(ConfigMap, "b", {"data": {"k": "3"}}, patch_type=PatchType.MERGE)
seen = {}
for event, found in client.watch(ConfigMap, server_timeout=60):
    seen[found.metadata.name] = found.data
    if {"a", "b"} <= set(seen):
        break
listed = [found.metadata.name for found in client.list(ConfigMap, labels={"x": "y"})]
Gadget = create_namespaced_resource("clients.test", "v1", "Gadget", "gadgets")
client.create(Gadget(metadata={"name": "g"}, spec={"size": 1}))
sizes = [found.spec["size"] for found in client.list(Gadget)]
client.delete(ConfigMap, "a")
try:
    client.get(ConfigMap, "a")
except ApiError as error:
    missing = error.status.reason
print(json.dumps([seen["a"], seen["b"], listed, sizes, missing]))
"""

KR8S = """
import json, sys
import kr8s
from kr8s.objects import ConfigMap, new_class
made = ConfigMap({"metadata": {"name": "a", "namespace": sys.argv[1], "labels": {"x": "y"}}, "data": {"k": "1"}})
made.create()
made.patch({"data": {"k": "2"}})
made.refresh()
listed = [found.name for found in kr8s.get("configmaps", namespace=sys.argv[1], label_selector="x=y")]
Gadget = new_class("Gadget", "clients.test/v1", namespaced=True)
gadget = Gadget({"metadata": {"name": "g", "namespace": sys.argv[1]}, "spec": {"size": 1}})
gadget.create()
gadget.label(colour="red")
made.delete()
made.wait("delete", timeout=60)
print(json.dumps([made.data.k, listed, gadget.labels.colour, made.exists(), kr8s.whoami()]))
"""

ASYNCIO = """
import asyncio, json, sys
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.rest import ApiException
async def main():
    await config.load_kube_config()
    async with client.ApiClient() as connection:
        core, namespace = client.CoreV1Api(connection), sys.argv[1]
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "1"}})
        async with watch.Watch() as stream:
            async for event in stream.stream(core.list_namespaced_config_map, namespace, timeout_seconds=60):
                if event["object"].metadata.name == "a":
                    break
        custom = client.CustomObjectsApi(connection)
        body = {"apiVersion": "clients.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
        made = await custom.create_namespaced_custom_object("clients.test", "v1", namespace, "gadgets", body)
        patched = await core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
        await core.delete_namespaced_config_map("a", namespace)
        try:
            await core.read_namespaced_config_map("a", namespace)
        except ApiException as error:
            print(json.dumps([event["type"], made["spec"]["size"], patched.data["k"], error.status]))
asyncio.run(main())
"""

OPERATOR = """
import kopf, os

@kopf.on.create("clients.test", "v1", "gadgets")
async def made(spec, patch, **_):
    patch.status["size"] = spec["size"]

@kopf.on.update("clients.test", "v1", "gadgets", field="spec.size")
async def changed(old, new, patch, **_):
    patch.status["size"], patch.status["was"] = new, old

@kopf.on.delete("clients.test", "v1", "gadgets")
async def ended(name, namespace, **_):
    open(os.environ["ENDED"], "a").write(f"{namespace}/{name}\\n")
"""


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, and gadgets."""
    name = f"clients-{request.node.name.replace('_', '-')[:40].rstrip('-')}"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "gadgets.clients.test"},
        "spec": {
            "group": "clients.test",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    assert api("POST", CRDS, definition)[0] in (201, 409)
    api.json("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "PYTHONPATH")}
    return {**kept, "HOME": str(home), "KUBECONFIG": str(home / "kubeconfig")}


def printed(script: str, home: Path, namespace: str) -> Any:
    """Return the JSON that a script prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, namespace],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_lightkube(api_home: Path, namespace: str) -> None:
    pytest.importorskip("lightkube", reason="lightkube is not installed; ./check installs it")
    found = printed(LIGHTKUBE, api_home, namespace)
    assert found == [{"k": "1"}, {"k": "3"}, ["a"], [1], "NotFound"]


def test_kr8s(api_home: Path, namespace: str) -> None:
    assert printed(KR8S, api_home, namespace) == ["2", ["a"], "red", False, "trainshed-admin"]


def test_kubernetes_asyncio(api_home: Path, namespace: str) -> None:
    assert printed(ASYNCIO, api_home, namespace) == ["ADDED", 1, "2", 404]


@contextmanager
def operator(home: Path, namespace: str, tmp_path: Path) -> Iterator[None]:
    """Run the operator until the block ends; print what it said when the block fails."""
    (tmp_path / "operator.py").write_text(OPERATOR)
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        "-n",
        namespace,
        str(tmp_path / "operator.py"),
    ]
    told = {**environment(home), "ENDED": str(tmp_path / "ended")}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=told) as process,
    ):
        try:
            yield
        except BaseException:
            print((tmp_path / "log").read_text()[-4000:])
            raise
        finally:
            process.kill()


def until(check: Callable[[], object], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < end, f"after {SECONDS:.0f} s still not: {what}"
        time.sleep(0.05)


def test_an_operator_of_kopf_with_finalizers(
    api: Api, api_home: Path, namespace: str, tmp_path: Path
) -> None:
    pytest.importorskip("kopf", reason="kopf is not installed; ./check installs it")
    path = f"/apis/clients.test/v1/namespaces/{namespace}/gadgets"

    def gadget() -> Any:
        status, _, body = api("GET", f"{path}/g")
        return json.loads(body) if status == 200 else {}

    with operator(api_home, namespace, tmp_path):
        head = {"apiVersion": "clients.test/v1", "kind": "Gadget"}
        api.json("POST", path, {**head, "metadata": {"name": "g"}, "spec": {"size": 1}})
        until(lambda: gadget().get("status", {}).get("size") == 1, "the operator took the gadget in")
        assert gadget()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        api.json("PATCH", f"{path}/g", {"spec": {"size": 2}}, content_type=MERGE)
        until(lambda: gadget()["status"].get("was") == 1, "the operator saw the change")
        api.json("DELETE", f"{path}/g")
        until(lambda: not gadget(), "the operator let the gadget go")
    assert (tmp_path / "ended").read_text() == f"{namespace}/g\n"
