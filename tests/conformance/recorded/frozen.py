"""Sequences of changes of what may not change: events, volumes, claims, namespaces, classes, revisions."""

from __future__ import annotations

import base64
import copy
from typing import Any

from tests.conformance.recorded.steps import (
    APPS,
    BATCH,
    NS,
    Step,
    apply,
    batch_job,
    delete,
    get,
    merge,
    post,
    put,
)
from trainshed.kube.meta.objects import Object

_CLAIMS, _VOLUMES, _SERVICES = f"{NS}/persistentvolumeclaims", "/api/v1/persistentvolumes", f"{NS}/services"
_NEW, _CORE = "/apis/events.k8s.io/v1/namespaces/{ns}/events", f"{NS}/events"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_HERE = "/api/v1/namespaces/{ns}-x"
_REVISIONS = f"{APPS}/controllerrevisions"

_POD = {"kind": "Pod", "name": "p", "namespace": "{ns}", "apiVersion": "v1"}
_OF_NEW: Object = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "a.b/c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
    "note": "n",
    "regarding": _POD,
}
_OF_CORE: Object = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "c"},
    "involvedObject": _POD,
    "reason": "r",
    "message": "m",
    "type": "Normal",
    "count": 1,
    "source": {"component": "x"},
}
_AT = "2026-01-01T00:00:01.000000Z"
_OF_EVENTS: tuple[Object, ...] = (
    {"note": "x"}, {"note": "x" * 1100}, {"reason": "q"}, {"reason": ""}, {"reason": "x" * 200}, {"action": "q"},
    {"type": "Warning"}, {"type": "Odd"}, {"reportingController": "a.b/d"}, {"reportingController": ""},
    {"reportingInstance": ""}, {"eventTime": "2026-01-02T00:00:00.000000Z"}, {"eventTime": None},
    {"regarding": {"name": "z"}}, {"regarding": {"namespace": "z"}}, {"related": {"name": "z"}},
    {"series": {"count": 2, "lastObservedTime": _AT}}, {"series": {"count": 1, "lastObservedTime": _AT}},
    {"series": {"count": 3}}, {"deprecatedCount": 3}, {"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"},
    {"deprecatedLastTimestamp": "2026-01-01T00:00:00Z"}, {"deprecatedSource": {"component": "x"}},
    {"metadata": {"labels": {"a": "b"}}},
)  # fmt: skip


def _named(body: Object, name: str, **fields: Any) -> Object:
    return {**body, "metadata": {"name": name}, **fields}


def _volume(**spec: Any) -> Object:
    whole = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/p"},
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "{ns}"}, "spec": whole}


def _place(**labels: str) -> Object:
    terms = [
        {"key": key.replace("__", "/").replace("_", "."), "operator": "In", "values": [value]}
        for key, value in labels.items()
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}


_SOURCE = {"kind": "PersistentVolumeClaim", "name": "y"}
_CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "finalizers": ["kubernetes.io/pvc-protection"]},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "volumeName": "v",
        "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
        "dataSource": _SOURCE,
        "dataSourceRef": _SOURCE,
    },
}


def _without(claim: Object, field: str) -> Object:
    out = copy.deepcopy(claim)
    del out["spec"][field]
    return out


def _secret(kind: str, key: str, data: bytes) -> Object:
    encoded = base64.b64encode(data).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "type": f"kubernetes.io/{kind}",
        "data": {key: encoded},
    }


def _balancer(**spec: Any) -> Object:
    whole = {"ports": [{"port": 80}], "selector": {"a": "b"}, "type": "LoadBalancer", **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": whole}


def _class(name: str, *, default: bool) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 5,
        "globalDefault": default,
    }


def _revision(**fields: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "r"},
        "revision": 1,
        **fields,
    }


def _labelled(name: str) -> Object:
    job = batch_job(name)
    job["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    return job


_NOT_MAPS = (b"", b"{", b"x", b"{}", b"[]", b"7", b"null", b'{"a":01}', b"{} x", b"tru")
_FINALIZERS = {"spec": {"finalizers": ["x"]}}

FROZEN: dict[str, list[Step]] = {
    "changes of events": [
        post(_NEW, _OF_NEW),
        *(merge(f"{_NEW}/e", change, dryRun="All") for change in _OF_EVENTS),
        post(_CORE, _OF_CORE),
        *(
            merge(f"{_CORE}/c", change, dryRun="All")
            for change in (
                {"message": "x"},
                {"type": "Odd"},
                {"involvedObject": {"namespace": "z"}},
                {"involvedObject": {"namespace": None}},
                {"eventTime": _AT},
            )
        ),
        merge(f"{_NEW}/c", {"deprecatedCount": 3, "action": "a", "eventTime": _AT}, dryRun="All"),
        post(_CORE, _named(_OF_CORE, "d", eventTime=_AT), dryRun="All"),
        post(
            _CORE,
            _named(_OF_CORE, "d", eventTime=_AT, reportingComponent="a/b", reportingInstance="i", action="a"),
            dryRun="All",
        ),
        post(_NEW, _named(_OF_NEW, "d", regarding={}), dryRun="All"),
        post(_NEW, _named(_OF_NEW, "d", regarding={**_POD, "namespace": "z"}), dryRun="All"),
        post(_NEW, _named(_OF_NEW, "d", series={"count": 1}), dryRun="All"),
        post(_NEW, _named(_OF_NEW, "d", deprecatedCount=2), dryRun="All"),
    ],
    "changes of volumes": [
        post(_VOLUMES, _volume()),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"nodeAffinity": _place(beta_kubernetes_io__os="linux")}}),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"nodeAffinity": _place(kubernetes_io__os="linux")}}),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"nodeAffinity": _place(kubernetes_io__os="other")}}),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"nodeAffinity": None}}),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"volumeMode": "Block"}}),
        merge(f"{_VOLUMES}/{{ns}}", {"spec": {"capacity": {"storage": "5Gi"}}}),
        delete(f"{_VOLUMES}/{{ns}}"),
        merge(f"{_VOLUMES}/{{ns}}", {"metadata": {"finalizers": None}}),
        post(_CLAIMS, _CLAIM),
        put(f"{_CLAIMS}/c", _without(_CLAIM, "dataSourceRef")),
        *(
            merge(f"{_CLAIMS}/c", {"spec": spec}, dryRun="All")
            for spec in (
                {"dataSource": None},
                {"resources": {"limits": None}},
                {"resources": {"requests": {"cpu": "1"}}},
                {"resources": {"requests": {"storage": "2Gi"}}},
                {"volumeMode": None},
                {"accessModes": ["ReadOnlyMany"]},
            )
        ),
    ],
    "changes of namespaces": [
        post("/api/v1/namespaces", {"metadata": {"name": "{ns}-x"}}),
        merge(_HERE, _FINALIZERS),
        merge(_HERE, {"spec": None}),
        put(_HERE, {"metadata": {"name": "{ns}-x"}}),
        put(f"{_HERE}/finalize", {"metadata": {"name": "{ns}-x"}, **_FINALIZERS}, dryRun="All"),
        merge(f"{_HERE}/status", {**_FINALIZERS, "status": {"phase": "Terminating"}}),
        merge(f"{_HERE}/status", {"status": {"phase": "Odd"}}),
        get(_HERE),
        delete(_HERE),
    ],
    "changes of classes": [
        post(_CLASSES, _class("{ns}-a", default=True)),
        post(_CLASSES, _class("{ns}-b", default=False)),
        post(_CLASSES, _class("{ns}-c", default=True)),
        merge(f"{_CLASSES}/{{ns}}-b", {"globalDefault": True}),
        merge(f"{_CLASSES}/{{ns}}-a", {"globalDefault": True, "description": "x"}),
        merge(f"{_CLASSES}/{{ns}}-a", {"globalDefault": False}),
        merge(f"{_CLASSES}/{{ns}}-b", {"globalDefault": True}),
        merge(f"{_CLASSES}/{{ns}}-b", {"preemptionPolicy": "Odd", "value": 2_000_000_000}),
        delete(f"{_CLASSES}/{{ns}}-a"),
        delete(f"{_CLASSES}/{{ns}}-b"),
        post(_SERVICES, _balancer(loadBalancerClass="a.b/c")),
        merge(f"{_SERVICES}/s", {"spec": {"loadBalancerClass": "x"}}),
        merge(f"{_SERVICES}/s", {"spec": {"loadBalancerClass": None}}),
        merge(f"{_SERVICES}/s", {"spec": {"type": "ClusterIP", "loadBalancerClass": None}}),
        merge(f"{_SERVICES}/s", {"spec": {"type": "LoadBalancer", "loadBalancerClass": "x"}}),
    ],
    "odd contents": [
        *(
            post(f"{NS}/secrets", _secret(kind, key, data), dryRun="All")
            for kind, key in (("dockerconfigjson", ".dockerconfigjson"), ("dockercfg", ".dockercfg"))
            for data in _NOT_MAPS
        ),
        post(_REVISIONS, _revision(data={"a": "b", "spec": {"x": 1}})),
        put(f"{_REVISIONS}/r", _revision()),
        apply(f"{_REVISIONS}/r", _revision(data={"a": "c"}), "other"),
        get(f"{_REVISIONS}/r"),
    ],
    "labels of jobs": [
        post(f"{BATCH}/jobs", batch_job("j")),
        post(f"{BATCH}/jobs", _labelled("k")),
        merge(f"{BATCH}/jobs/k", {"metadata": {"labels": None}}),
        merge(f"{BATCH}/jobs/k", {"metadata": {"labels": {"c": "d"}}}),
        put(f"{BATCH}/jobs/k/status", {**_labelled("k"), "status": {"active": 1}}),
        apply(f"{BATCH}/jobs/l", _labelled("l")),
        get(f"{BATCH}/jobs/k"),
        get(f"{BATCH}/jobs/l"),
    ],
}
