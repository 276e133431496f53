"""Sequences of what is seldom sent: directives of strategic merges, bodies that are no JSON, addresses of pods that
contradict each other, and faults that are told twice."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    APPS,
    BATCH,
    NS,
    Step,
    apply,
    batch_job,
    config_map,
    deployment,
    get,
    json_patch,
    merge,
    pod,
    post,
    put,
    strategic,
)
from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.types import APPLY, MERGE, STRATEGIC
from trainshed.kube.patch.types import JSON as JSON_PATCH

_MAPS = f"{NS}/configmaps"
_PODS = f"{NS}/pods"
_DEPLOYMENTS = f"{APPS}/deployments"
_CLAIMS = f"{NS}/persistentvolumeclaims"
_SECRETS = f"{NS}/secrets"
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
_CLUSTERROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_POLICIES = "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies"

_OF_MAPS: tuple[Any, ...] = (
    {"data": {"$patch": "replace", "z": "1"}},
    {"data": {"$patch": "delete"}},
    {"data": {"$patch": "merge", "q": "1"}},
    {"data": {"$patch": "odd", "q": "1"}},
    {"data": {"$patch": None, "q": "2"}},
    {"data": {"$patch": None, "q": "3"}},
    {"data": {"$patch": 7, "q": "2"}},
    {"metadata": {"labels": {"$patch": "replace", "z": "1"}}},
    {"metadata": {"labels": {"$patch": "delete", "z": "2"}}},
    {"metadata": {"labels": {"z": "2"}}},
    {"metadata": {"$patch": "replace", "labels": {"p": "2"}}},
    {"metadata": {"$patch": "delete"}},
    {"$patch": "replace", "metadata": {"name": "a"}, "data": {"r": "1"}},
    {"$patch": "delete"},
    {"$patch": "odd"},
    {"data": {"$retainKeys": ["r"], "s": "1"}},
    {"data": {"$retainKeys": ["s"], "s": "1"}},
    {"data": {"$retainKeys": "s", "s": "1"}},
    {"$retainKeys": ["data", "metadata"], "data": {"r": "9"}},
    {"data": {"$setElementOrder/x": ["s"], "s": "1"}},
    {"data": {"$deleteFromPrimitiveList/x": ["s"], "s": "1"}},
    {"data": {"$other": "s"}},
    {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
    {"metadata": {"$setElementOrder/finalizers": ["a.b/e", "a.b/d"], "finalizers": ["a.b/e"]}},
    {"metadata": {"$setElementOrder/finalizers": ["a.b/d"], "finalizers": ["a.b/e", "a.b/f"]}},
    {"metadata": {"finalizers": [{"$patch": "replace"}, "a.b/z"]}},
    {"metadata": {"finalizers": None}},
    {"data": {"s": {"$patch": "delete"}}},
    {"data": {"nope": {"$patch": "delete"}}},
)
_PULLED = {"name": "w", "image": "z"}
_OF_PODS: tuple[Any, ...] = (
    {"nodeSelector": {"a": "b"}, "securityContext": {"runAsUser": 1, "runAsGroup": 2}},
    {"securityContext": {"$patch": "replace", "runAsUser": 3}},
    {"securityContext": {"$patch": "delete"}},
    {"nodeSelector": {"$patch": "replace"}},
    {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]},
    {"containers": [{"name": "main", "resources": {"limits": {"$patch": "replace", "cpu": "2"}}}]},
    {"containers": [{"name": "main", "resources": {"$patch": "delete"}}]},
    {"containers": [{"name": "main", "$patch": "replace", "image": "i:2"}]},
    {"containers": [{"$patch": "replace"}, {"name": "other", "image": "i:3"}]},
    {"containers": [{"$patch": "merge", "name": "x", "image": "q2"}]},
    {"containers": [{"$patch": "delete", "name": "absent"}]},
    {"containers": [{"$patch": "delete", "name": "x"}, {"name": "y", "image": "z"}]},
    {"containers": [{"$patch": "delete"}]},
    {"containers": [{"$patch": "odd", "name": "y"}]},
    {"$patch": "replace", "containers": [_PULLED]},
    {"tolerations": [{"key": "a", "operator": "Exists"}]},
    {"tolerations": [{"$patch": "replace"}, {"key": "b", "operator": "Exists"}]},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"containers": [{"name": "w", "args": ["a"], "command": ["b"]}]},
    {"containers": [{"name": "w", "args": [{"$patch": "replace"}, "c"]}]},
    {"containers": [{"name": "w", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]},
    {"containers": [{"name": "w", "env": [{"$patch": "delete", "name": "A"}]}]},
    {"$setElementOrder/containers": [{"name": "s"}, {"name": "w"}], "containers": [{**_PULLED, "name": "s"}]},
    {"$setElementOrder/containers": [{"name": "w"}], "containers": [{**_PULLED, "name": "u"}]},
    {"$setElementOrder/containers": ["w"], "containers": [_PULLED]},
    {"$setElementOrder/containers": "w", "containers": [_PULLED]},
    {"containers": "w"},
    {"containers": {"name": "w"}},
    {"containers": ["w"]},
    {"containers": [None]},
    {"containers": [{"name": "n", "image": "i", "env": [{"$patch": "delete", "name": "X"}]}]},
    [],
    "x",
)
_OF_DEPLOYMENTS: tuple[Any, ...] = (
    {"template": {"metadata": {"$patch": "replace", "labels": {"app": "d"}}}},
    {"template": {"metadata": {"labels": {"$patch": "merge", "b": "c"}}}},
    {"selector": {"$patch": "replace", "matchLabels": {"app": "d"}}},
    {"strategy": {"$patch": "delete"}},
    {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
)

_NO_JSON = (
    "{", "", "null", "[]", "7", '"x"', "true", '{"a"}', '{"a":}', '{"a":1,}', "[1,2", '{"a":1}x', "nul",
    '{"a":tru}', '{"a":01}', '{"a":1e}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":"\\u1', '{"a":"\\', "{'a':1}",
    '{"a":"b\nc"}', '{"a":"b', '{"a":-}', '{"a":[1 2]}', "\ufeff{}", "   ", '{"a":1}{"b":2}', "{,}", "}", "]", "tru",
    "-", "1e", "NaN", '{"a":+1}', '{"a":.5}', '{"a":1.}', "//x\n{}", "{\x01}", '{"kind":7}',
    '{"apiVersion":7,"kind":"ConfigMap"}', '{"kind":"ConfigMap","apiVersion":"v1","metadata":null}',
    '{"kind":"ConfigMap","apiVersion":"v1"', '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}} ',
)  # fmt: skip
_NO_PATCH = (
    "null", "[]", "{", "", "7", '"x"', '{"a"}', '{"a":1}x', "nul", "[{}]", "[null]", '[{"op":"add"}]',
    '[{"op":"odd","path":"/a"}]', '[{"op":7}]', '[{"op":"add","path":7}]', '{"data":7}', '{"data":null}',
)  # fmt: skip
_NO_APPLY = (
    "null",
    "[]",
    "{",
    "",
    "7",
    '"x"',
    '{"a"}',
    "a: b: c",
    "- x",
    '{"apiVersion":"v1","kind":"ConfigMap"}',
)

_ADDRESSES: tuple[Object, ...] = (
    {"podIP": "10.0.0.1"},
    {"podIPs": [{"ip": "10.0.0.2"}]},
    {"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}]},
    {"podIP": "10.0.0.4", "podIPs": [{"ip": "10.0.0.5"}]},
    {"podIPs": [{"ip": "10.0.0.6"}, {"ip": "10.0.0.7"}]},
    {"podIP": "10.0.0.6", "podIPs": [{"ip": "10.0.0.6"}, {"ip": "fd00::1"}]},
    {"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "fd00::2"}]},
    {"podIP": "x"},
    {"podIP": "x", "podIPs": [{"ip": "x"}]},
    {"podIP": None},
    {"podIPs": None},
    {"podIP": None, "podIPs": None},
    {"podIPs": [{"ip": "10.0.0.6"}, {"ip": "10.0.0.6"}]},
    {"podIPs": [{"ip": "10.0.0.6"}, {"ip": "fd00::1"}, {"ip": "10.0.0.9"}]},
    {"podIPs": [{"ip": "10.0.0.6"}, {"ip": "x"}]},
    {"podIP": ""},
    {"hostIP": "1.2.3.4"},
    {"hostIPs": [{"ip": "1.2.3.5"}]},
    {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.9"}]},
    {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.4"}, {"ip": "fd00::9"}]},
    {"hostIP": None, "hostIPs": None},
)


def _role(kind: str = "Role", **fields: Any) -> Object:
    name = "r" if kind == "Role" else "{ns}"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        **fields,
    }


def _rule(**fields: Any) -> Object:
    return {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **fields}


def _binding(*subjects: Object, **role: str) -> Object:
    named = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r", **role}
    return {**_role(roleRef=named, subjects=list(subjects)), "kind": "RoleBinding"}


def _policy(**spec: Any) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "n"},
        "spec": {"podSelector": {}, **spec},
    }


def _claim(name: str, **spec: Any) -> Object:
    whole = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **spec}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, **whole},
    }


def _labelled(name: str, **spec: Any) -> Object:
    job = batch_job(name, spec)
    job["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    return job


_BAD_RULES = (
    _rule(verbs=[]),
    _rule(apiGroups=[]),
    _rule(resources=[]),
    {"verbs": ["get"], "nonResourceURLs": ["/x"]},
)
_USER = {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}
_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}

EDGES: dict[str, list[Step]] = {
    "directives of maps": [
        post(
            _MAPS, config_map("a", {"x": "y", "k": "v"}, labels={"l": "1", "m": "2"}, annotations={"n": "3"})
        ),
        *(strategic(f"{_MAPS}/a", body) for body in _OF_MAPS),
        get(f"{_MAPS}/a"),
    ],
    "directives of pods": [
        post(_DEPLOYMENTS, deployment("d")),
        *(strategic(f"{_DEPLOYMENTS}/d", {"spec": {"template": {"spec": body}}}) for body in _OF_PODS),
        *(strategic(f"{_DEPLOYMENTS}/d", {"spec": body}) for body in _OF_DEPLOYMENTS),
        get(f"{_DEPLOYMENTS}/d"),
    ],
    "malformed bodies": [
        post(_MAPS, config_map("a", {"x": "y"})),
        *(Step("POST", _MAPS, text) for text in _NO_JSON),
        *(Step("PUT", f"{_MAPS}/a", text) for text in ("null", "[]", "{", "")),
        *(
            Step("PATCH", f"{_MAPS}/a", text, content_type=kind)
            for kind in (MERGE, STRATEGIC, JSON_PATCH)
            for text in _NO_PATCH
        ),
        *(Step("PATCH", f"{_MAPS}/a", text, {"fieldManager": "m"}, APPLY) for text in _NO_APPLY),
        Step("DELETE", f"{_MAPS}/a", "null"),
        Step("DELETE", _MAPS, "null"),
        post(_PODS, pod("p")),
        *(
            Step("POST", f"{_PODS}/p/{part}", text)
            for part in ("eviction", "binding")
            for text in ("null", "{}")
        ),
        Step("PUT", f"{_DEPLOYMENTS}/none/scale", "{}"),
        Step("PUT", f"{_DEPLOYMENTS}/none/scale", "null"),
    ],
    "addresses of pods": [
        post(_PODS, pod("p")),
        *(merge(f"{_PODS}/p/status", {"status": body}) for body in _ADDRESSES),
        *(strategic(f"{_PODS}/p/status", {"status": body}) for body in _ADDRESSES),
        put(f"{_PODS}/p/status", {**pod("p"), "status": {"podIP": "10.0.0.9"}}),
        put(f"{_PODS}/p/status", {**pod("p"), "status": {"podIPs": [{"ip": "10.0.0.8"}]}}),
        put(f"{_PODS}/p/status", {**pod("p"), "status": {}}),
        get(f"{_PODS}/p"),
    ],
    "told twice": [
        post(f"{_RBAC}/roles", _role(rules=[_rule()])),
        *(put(f"{_RBAC}/roles/r", _role(rules=[rule])) for rule in _BAD_RULES),
        put(f"{_RBAC}/roles/r", _role(rules=_BAD_RULES[:3])),
        post(_CLUSTERROLES, _role("ClusterRole", rules=[_rule()])),
        put(f"{_CLUSTERROLES}/{{ns}}", _role("ClusterRole", rules=[_rule(verbs=[])])),
        put(f"{_CLUSTERROLES}/{{ns}}", _role("ClusterRole", aggregationRule={})),
        Step("DELETE", f"{_CLUSTERROLES}/{{ns}}"),
        post(f"{_RBAC}/rolebindings", _binding(_USER)),
        put(f"{_RBAC}/rolebindings/r", _binding({**_USER, "name": ""})),
        put(f"{_RBAC}/rolebindings/r", _binding({"kind": "Odd", "name": "x"})),
        put(f"{_RBAC}/rolebindings/r", _binding({"kind": "ServiceAccount", "name": "A_b"})),
        put(f"{_RBAC}/rolebindings/r", _binding(name="other")),
        put(f"{_RBAC}/rolebindings/r", _binding(apiGroup="x", kind="Odd", name="")),
        post(_POLICIES, _policy()),
        put(f"{_POLICIES}/n", _policy(podSelector={"matchLabels": {"a b": "c"}})),
        put(f"{_POLICIES}/n", _policy(ingress=[{"ports": [{"port": 70000}]}])),
        put(f"{_POLICIES}/n", _policy(egress=[{"to": [{}]}, {"to": [{"ipBlock": {"cidr": "x"}}]}])),
        put(f"{_POLICIES}/n", _policy(policyTypes=["Odd"])),
    ],
    "given by other fields": [
        post(f"{BATCH}/jobs", batch_job("j")),
        post(f"{BATCH}/jobs", _labelled("k")),
        post(f"{BATCH}/jobs", _labelled("l", manualSelector=True, selector={"matchLabels": {"x": "y"}})),
        apply(f"{BATCH}/jobs/m", _labelled("m")),
        post(_CLAIMS, _claim("a", dataSource=_SNAPSHOT)),
        post(_CLAIMS, _claim("b", dataSourceRef=_SNAPSHOT)),
        post(_CLAIMS, _claim("c", dataSource={"kind": "PersistentVolumeClaim", "name": "a"})),
        post(_CLAIMS, _claim("d", dataSource={"apiGroup": "a.b", "kind": "Odd", "name": "a"})),
        post(_CLAIMS, _claim("e", dataSource=_SNAPSHOT, dataSourceRef={**_SNAPSHOT, "name": "t"})),
        post(_CLAIMS, _claim("f", dataSourceRef={**_SNAPSHOT, "namespace": "x"})),
        post(_CLAIMS, _claim("g", dataSource=_SNAPSHOT, dataSourceRef={**_SNAPSHOT, "namespace": "x"})),
        post(_CLAIMS, _claim("h", dataSourceRef={"apiGroup": "a.b", "kind": "Odd", "name": "a"})),
        apply(f"{_CLAIMS}/i", _claim("i", dataSource=_SNAPSHOT)),
        *(
            post(_SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields})
            for name, fields in (
                ("s", {"stringData": {"a": "b"}}),
                ("t", {"stringData": {"a": "b"}, "data": {"c": "ZA==", "a": "ZA=="}}),
            )
        ),
        merge(f"{_SECRETS}/s", {"stringData": {"e": "f"}}),
    ],
    "metadata of updates": [
        post(
            _MAPS,
            config_map("o", ownerReferences=[{**_OWNER, "kind": ""}, {**_OWNER, "name": "", "uid": ""}]),
        ),
        post(_MAPS, config_map("o", ownerReferences=[{**_OWNER, "kind": "Event"}])),
        post(_MAPS, config_map("o", {"a": "b"})),
        *(
            merge(f"{_MAPS}/o", {"metadata": change})
            for change in (
                {"creationTimestamp": "2020-01-01T00:00:00Z"},
                {"creationTimestamp": None},
                {"deletionTimestamp": "2020-01-01T00:00:00Z"},
                {"deletionGracePeriodSeconds": 7},
                {"generation": 7},
                {"selfLink": "/x"},
                {"resourceVersion": ""},
                {"uid": ""},
                {"name": None},
                {"name": ""},
                {"namespace": None},
                {"namespace": "other"},
                None,
            )
        ),
        merge(f"{_MAPS}/o", {"apiVersion": None, "kind": None, "data": {"u": "v"}}),
        json_patch(f"{_MAPS}/o", [{"op": "remove", "path": "/metadata/name"}]),
        json_patch(f"{_MAPS}/o", [{"op": "remove", "path": "/metadata"}]),
        json_patch(f"{_MAPS}/o", [{"op": "replace", "path": "/metadata", "value": {"name": "o"}}]),
    ],
}
