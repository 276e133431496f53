"""Sequences on whose a field is: server-side apply, and managedFields of every other write.

They are played with a second between requests, so that their times tell which write an entry is of.
"""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.recorded.steps import (
    APPS,
    BATCH,
    CRDS,
    NS,
    Step,
    apply,
    batch_job,
    config_map,
    crd,
    delete,
    deployment,
    get,
    json_patch,
    merge,
    pod,
    post,
    put,
    service,
    strategic,
)
from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.types import APPLY

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
A, D = f"{NS}/configmaps/a", f"{APPS}/deployments/d"
S, P = f"{NS}/services/s", f"{NS}/pods/p"


def client_side(obj: Object, *, last: Object | None = None) -> Object:
    """Return what `kubectl apply` sends to create an object, client-side."""
    text = json.dumps(last or obj, separators=(",", ":")) + "\n"
    return {**obj, "metadata": {**obj["metadata"], "annotations": {LAST_APPLIED: text}}}


def containers(*containers: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": list(containers), **spec},
            },
        },
    }


def ports(*ports: Object) -> Object:
    return service("s", selector={"app": "d"}, ports=list(ports))


def managers(*entries: Object) -> Object:
    return {"metadata": {"managedFields": list(entries)}}


GADGET_SPEC: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "mode": {"type": "string", "default": "slow"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "steps": {"type": "array", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "kind"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"type": "string", "default": "plain"},
                    "count": {"type": "integer"},
                    "limits": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        },
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "nothing": {"type": "string", "nullable": True},
    },
}
GADGET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": GADGET_SPEC,
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
        },
    },
}
PARTS = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
}


def gadgets() -> Object:
    """Return a definition with two versions of the same schema."""
    out = crd(GADGET_SCHEMA, "gadgets", subresources=PARTS)
    first = out["spec"]["versions"][0]
    out["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    return out


def gadget(version: str = "v1", metadata: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": f"{{ns}}.example.com/{version}",
        "kind": "Gadget",
        "metadata": {"name": "g", **(metadata or {})},
        **({"spec": spec} if spec else {}),
    }


def at(version: str = "v1", part: str = "") -> str:
    return f"/apis/{{ns}}.example.com/{version}/namespaces/{{ns}}/gadgets/g{part}"


def scale(replicas: int) -> Object:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas},
    }


MAIN = {"name": "main", "image": "train:1"}
APPLIES: dict[str, list[Step]] = {
    "apply": [
        apply(A, config_map("a", {"x": "1", "y": "1"})),
        apply(A, config_map("a", {"x": "2"})),
        apply(A, config_map("a", {"x": "3"}), "other"),
        apply(A, config_map("a", {"x": "3", "z": "1"}), "other", force="true"),
        apply(A, config_map("a", {}), "other"),
        merge(A, {"data": {"m": "1"}}, fieldManager="hand"),
        apply(A, config_map("a", {"m": "2"}), "hand"),
        apply(A, {**config_map("b")}),
        Step("PATCH", A, config_map("a"), content_type=APPLY),
        apply(D, deployment("d", replicas=2)),
        merge(f"{D}/scale", {"spec": {"replicas": 3}}, fieldManager="scaler"),
        apply(D, deployment("d", replicas=2)),
        apply(D, deployment("d")),
        strategic(
            D,
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}},
            fieldManager="injector",
        ),
        apply(D, deployment("d", paused=True)),
    ],
    "apply migration": [
        # kubectl apply, then kubectl apply --server-side of the same, and of less
        post(
            f"{NS}/configmaps",
            client_side(config_map("a", {"x": "1", "y": "1"})),
            fieldManager="kubectl-client-side-apply",
        ),
        apply(A, config_map("a", {"x": "1", "y": "1"}), "kubectl"),
        get(A),
        apply(A, config_map("a", {"x": "2"}), "kubectl"),
        # what kubectl itself does first: the client-side manager's fields become the applier's
        json_patch(
            A,
            [
                {
                    "op": "replace",
                    "path": "/metadata/managedFields",
                    "value": [
                        {
                            "manager": "kubectl",
                            "operation": "Apply",
                            "apiVersion": "v1",
                            "time": "2024-01-01T00:00:00Z",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:x": {}, "f:y": {}}},
                        }
                    ],
                }
            ],
            fieldManager="kubectl",
        ),
        apply(A, config_map("a", {"x": "2"}), "kubectl"),
        # a deployment whose replicas somebody else set meanwhile
        post(
            f"{APPS}/deployments",
            client_side(deployment("d", replicas=2)),
            fieldManager="kubectl-client-side-apply",
        ),
        merge(f"{D}/scale", {"spec": {"replicas": 5}}, fieldManager="kubectl"),
        apply(D, deployment("d", replicas=2), "kubectl"),
        apply(D, deployment("d"), "kubectl"),
        apply(D, deployment("d", replicas=2), "kubectl", force="true"),
        # back: a client-side apply over what was applied server-side
        strategic(
            D,
            {
                "metadata": {"annotations": {LAST_APPLIED: "{}"}},
                "spec": {"replicas": 3},
            },
            fieldManager="kubectl-client-side-apply",
        ),
        apply(D, deployment("d", replicas=2), "kubectl"),
        # an object that nobody tracked
        post(f"{NS}/configmaps", config_map("b", {"x": "1"}), fieldManager="maker"),
        merge(f"{NS}/configmaps/b", managers({}), fieldManager="maker"),
        apply(f"{NS}/configmaps/b", config_map("b", {"x": "1"}), "kubectl"),
        apply(f"{NS}/configmaps/b", config_map("b", {"x": "2"}), "other"),
    ],
    "apply lists": [
        apply(D, containers(MAIN, {"name": "side", "image": "s"})),
        apply(D, containers({"name": "side", "image": "s"}, MAIN)),
        apply(D, containers({"name": "other", "image": "o"}), "other"),
        apply(D, containers({**MAIN, "env": [{"name": "b", "value": "1"}, {"name": "a", "value": "2"}]})),
        apply(D, containers({**MAIN, "env": [{"name": "a", "value": "2"}], "args": ["x"]}), "other"),
        apply(D, containers({**MAIN, "env": [{"name": "c", "value": "2"}]})),
        apply(D, containers({**MAIN, "args": ["x", "y"]}), "other"),
        apply(D, containers({**MAIN, "args": ["z"]})),
        apply(D, containers(MAIN, MAIN)),
        apply(D, containers({"image": "nameless"})),
        apply(D, containers({**MAIN, "resources": {"limits": {"cpu": "1"}}})),
        apply(D, containers({**MAIN, "resources": {"limits": {"memory": "1Gi"}}}), "other"),
        apply(D, containers({**MAIN, "resources": {"limits": {"cpu": "1000m"}}}), "third"),
        apply(D, containers(MAIN, nodeSelector={"a": "b"}, tolerations=[{"key": "k"}])),
        apply(D, containers(MAIN, tolerations=[{"key": "l"}]), "other", force="true"),
        apply(S, ports({"port": 80, "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"})),
        apply(S, ports({"port": 80, "name": "c"}), "other", force="true"),
        apply(S, ports({"port": 81, "name": "d", "targetPort": "web"})),
        get(S),
        apply(A, config_map("a", {"x": "1"}, finalizers=["example.com/a", "example.com/b"])),
        apply(A, config_map("a", finalizers=["example.com/b", "example.com/c"]), "other"),
        apply(A, config_map("a", {"x": "1"})),
        apply(A, config_map("a"), "other"),
        apply(
            A,
            config_map(
                "a",
                ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "one"}],
                labels={"a": "b"},
            ),
            dryRun="All",
        ),
        apply(
            A,
            config_map(
                "a",
                ownerReferences=[
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "two", "controller": True}
                ],
                labels={"a": "c", "d": "e"},
            ),
            "other",
            dryRun="All",
        ),
        apply(A, config_map("a", labels={"d": "e"}), "other"),
        apply(A, config_map("a")),
        apply(
            P,
            pod("p", {"volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}),
        ),
        apply(P, pod("p", container={"image": "train:2"}, labels={"a": "b"}), "other", force="true"),
        get(P),
    ],
    "apply custom resources": [
        post(CRDS, gadgets()),
        apply(at(), gadget(replicas=1, tags=["b", "a"], steps=["x"])),
        apply(at(), gadget(tags=["c", "a"]), "other"),
        apply(at(), gadget(replicas=1, tags=["b"])),
        apply(at(), gadget(tags=["a", "a"]), "other"),
        apply(at(), gadget(steps=["y"]), "other"),
        apply(at(), gadget(steps=["y"]), "other", force="true"),
        apply(at(), gadget(parts=[{"name": "p", "count": 1}, {"name": "q", "kind": "k"}])),
        apply(at(), gadget(parts=[{"name": "p", "kind": "plain", "limits": {"a": "b"}}]), "other"),
        apply(at(), gadget(parts=[{"name": "q", "kind": "k", "count": 2}])),
        apply(at(), gadget(parts=[])),
        apply(at(), gadget(whole={"a": 1}, free={"x": {"y": 1}}, labels={"a": "b"}, nothing=None)),
        apply(at(), gadget(whole={"b": 1}, free={"x": {"z": 1}}, labels={"c": "d"}), "other"),
        apply(at(), gadget(whole={"b": 1}, free={"x": {"z": 1}}, labels={"c": "d"}), "other", force="true"),
        apply(at("v2"), gadget("v2", replicas=2)),
        apply(at("v2"), gadget("v2", replicas=3), "newer"),
        apply(at("v2"), gadget("v2", replicas=3), "newer", force="true"),
        apply(at(), gadget(mode="fast"), "newer"),
        merge(at(), {"spec": {"replicas": 4}}, fieldManager="hand"),
        merge(at("v2"), {"spec": {"mode": "slow"}}, fieldManager="hand"),
        get(at("v2")),
        apply(at("v2"), gadget("v2"), "newer"),
        apply(at(part="/status"), {**gadget(replicas=9), "status": {"phase": "Up"}}, "controller"),
        merge(at(part="/status"), {"status": {"replicas": 1}}, fieldManager="hand"),
        apply(at(part="/status"), {**gadget(), "status": {"phase": "Down"}}, "other"),
        apply(at(), {**gadget(replicas=4), "status": {"phase": "Gone"}}, "both"),
        merge(at(part="/scale"), {"spec": {"replicas": 6}}, fieldManager="scaler"),
        apply(at(part="/scale"), {**scale(7), "metadata": {"name": "g"}}, "autoscaler"),
        apply(at(part="/scale"), {**scale(7), "metadata": {"name": "g"}}, "autoscaler", force="true"),
        apply(at(), gadget(unknown=1)),
        apply(at(), gadget(replicas="many")),
        get(at()),
        delete(at()),
        apply(at(part="/status"), {**gadget(), "status": {"phase": "Up"}}, "controller"),
        delete(f"{CRDS}/gadgets.{{ns}}.example.com"),
    ],
    "apply and other writes": [
        apply(A, config_map("a", {"x": "1"}), dryRun="All"),
        get(A),
        apply(A, config_map("a", {"x": "1"})),
        apply(A, config_map("a", {"x": "1"})),
        apply(A, config_map("a", {"x": "1"}), "other"),
        apply(A, config_map("a", {"x": "1"}), force="true"),
        apply(A, config_map("a", {"x": "2"}), "other", dryRun="All"),
        apply(A, config_map("a", {"x": "2"}), "other", dryRun="All", force="true"),
        put(A, config_map("a", {"x": "1"})),
        put(A, config_map("a", {"x": "1", "y": "1"})),
        put(A, config_map("a", {"y": "2"})),
        merge(A, {"data": {"y": "2"}}, fieldManager="idle"),
        merge(A, {"metadata": {"annotations": {"a": "b"}}}, fieldManager="idle"),
        merge(A, {"metadata": {"annotations": {"a": None}}}, fieldManager="other"),
        merge(A, {"metadata": {"managedFields": [{"manager": "x"}]}}),
        merge(A, {"metadata": {"managedFields": "x"}}),
        merge(A, {"metadata": {"managedFields": []}}),
        merge(A, {"data": {"z": "2"}}),
        apply(A, config_map("a", {"z": "3"})),
        apply(A, config_map("a", {"z": "3"}), force="true"),
        merge(A, managers({})),
        json_patch(A, [{"op": "remove", "path": "/data/y"}]),
        apply(A, {**config_map("a"), **managers({"manager": "x"})}),
        apply(A, config_map("a", {"z": "3"}, uid="another")),
        apply(A, config_map("a", {"z": "3"}, resourceVersion="1")),
        apply(f"{NS}/configmaps/new", config_map("new", {"z": "3"}, resourceVersion="1")),
        apply(f"{NS}/configmaps/new", config_map("new", {"z": "3"}, uid="another")),
        apply(A, {"kind": "ConfigMap", "metadata": {"name": "a"}}),
        apply(A, {"apiVersion": "v1", "metadata": {"name": "a"}}),
        apply(A, {**config_map("a"), "dota": {}}),
        apply(A, {**config_map("a"), "dota": {}}, fieldValidation="Ignore"),
        apply(A, {**config_map("a"), "dota": {}}, fieldValidation="Strict"),
        apply(A, config_map("a", {"z": 3})),  # type: ignore[dict-item]
        apply(A, ["no object"]),
        apply(A, config_map("a", creationTimestamp=None), "nulls"),
        apply(f"{NS}/configmaps", config_map("a")),
        *(
            merge(f"{NS}/configmaps/a", {"data": {f"k{n}": "v"}}, fieldManager=f"manager-{n}")
            for n in range(13)
        ),
        get(A),
    ],
    "apply parts": [
        apply(D, deployment("d", replicas=1)),
        apply(f"{D}/status", {**deployment("d"), "status": {"replicas": 1}}, "controller"),
        merge(
            f"{D}/status",
            {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": {"replicas": 2}},
            fieldManager="hand",
        ),
        apply(f"{D}/status", {**deployment("d"), "status": {"replicas": 3}}, "controller"),
        apply(f"{D}/status", {**deployment("d"), "status": {}}, "controller"),
        put(f"{D}/status", {**deployment("d"), "status": {"observedGeneration": 1}}, fieldManager="put"),
        get(f"{D}/scale"),
        put(f"{D}/scale", scale(2), fieldManager="scaler"),
        apply(D, deployment("d", replicas=1)),
        apply(D, deployment("d", replicas=1), force="true"),
        apply(f"{D}/scale", scale(4), "autoscaler"),
        apply(f"{D}/scale", scale(4), "autoscaler", force="true"),
        apply(f"{D}/scale", scale(5), "autoscaler"),
        get(D),
        apply(D, deployment("d")),
        json_patch(f"{D}/scale", [{"op": "replace", "path": "/spec/replicas", "value": 6}]),
        get(D),
        post(f"{NS}/pods", pod("p", {"hostNetwork": False, "nodeSelector": {}, "tolerations": []})),
        strategic(
            f"{P}/status",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            fieldManager="kubelet",
        ),
        strategic(
            f"{P}/status",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}, {"type": "Own", "status": "True"}]
                }
            },
            fieldManager="gate",
        ),
        strategic(
            f"{P}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug"}]}},
            fieldManager="debugger",
        ),
        get(P),
        apply(f"{NS}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"a": "b"}}}),
        post(f"{BATCH}/jobs", batch_job("j", {"suspend": True})),
        merge(f"{BATCH}/jobs/j", {"spec": {"suspend": False}}, fieldManager="queue"),
        apply(f"{BATCH}/jobs/j", batch_job("j", {"parallelism": 2}), "applier", force="true"),
        post(f"{NS}/services", service("s", ports=[{"port": 80}], selector={"a": "b"})),
        merge(S, {"spec": {"type": "NodePort"}}, fieldManager="opener"),
        put(S, service("s", ports=[{"port": 81}], selector={"a": "b"}), fieldManager="put"),
        get(S),
    ],
}
