"""Sequences about what is admitted: deletions and their propagation, evictions, quotas, limits, pod security, names."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    APPS,
    BATCH,
    NS,
    Step,
    batch_job,
    config_map,
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
    wait,
)
from trainshed.kube.meta.objects import Object

MAPS = f"{NS}/configmaps"
PDBS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
HOLD = ["example.com/hold"]


def options(**fields: Any) -> Object:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def held(name: str, **metadata: Any) -> Step:
    return post(MAPS, config_map(name, finalizers=HOLD, **metadata))


def eviction(name: str, **fields: Any) -> Step:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
    return post(f"{NS}/pods/{name}/eviction", body)


def budget(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def ready(name: str) -> Step:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return strategic(f"{NS}/pods/{name}/status", {"status": status})


def quota(name: str, hard: dict[str, str], **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }


def counted(name: str, hard: dict[str, str]) -> Step:
    """Return what the quota controller does: to say that nothing is used so far."""
    return merge(
        f"{NS}/resourcequotas/{name}/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    )


def limits(name: str, *limits: Object) -> Step:
    body = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": list(limits)},
    }
    return post(f"{NS}/limitranges", body)


def levels(**labels: str) -> Step:
    named = {f"pod-security.kubernetes.io/{name.replace('_', '-')}": level for name, level in labels.items()}
    return merge("/api/v1/namespaces/{ns}", {"metadata": {"labels": named}})


def resources(**amounts: Object) -> Object:
    return {"resources": amounts}


SAFE: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
HARD = {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", "count/configmaps": "2", "services": "1"}

ADMITTING: dict[str, list[Step]] = {
    "deletions": [
        held("a"),
        delete(f"{MAPS}/a"),
        delete(f"{MAPS}/a"),
        get(f"{MAPS}/a"),
        merge(f"{MAPS}/a", {"data": {"k": "v"}}),
        merge(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        merge(f"{MAPS}/a", {"metadata": {"finalizers": []}}),
        get(f"{MAPS}/a"),
        held("b"),
        delete(f"{MAPS}/b", options(propagationPolicy="Foreground")),
        held("c"),
        delete(f"{MAPS}/c", options(propagationPolicy="Orphan")),
        held("d"),
        delete(f"{MAPS}/d", options(propagationPolicy="Background")),
        held("e"),
        delete(f"{MAPS}/e", options(orphanDependents=True)),
        held("f"),
        delete(f"{MAPS}/f", options(orphanDependents=True, propagationPolicy="Orphan")),
        delete(f"{MAPS}/f", options(orphanDependents=False)),
        delete(f"{MAPS}/f", propagationPolicy="Foreground"),
        held("g"),
        delete(f"{MAPS}/g", propagationPolicy="foreground"),
        delete(f"{MAPS}/g", gracePeriodSeconds="-1"),
        delete(f"{MAPS}/g", gracePeriodSeconds="soon"),
        delete(f"{MAPS}/g", options(preconditions={"resourceVersion": "1"})),
        delete(f"{MAPS}/g", options(preconditions={"uid": "{uid:20}", "resourceVersion": "{rv:20}"})),
        delete(f"{MAPS}/nobody", options(preconditions={"uid": "x"})),
        post(MAPS, config_map("h")),
        delete(f"{MAPS}/h", options(preconditions={"uid": "{uid:27}"})),
        delete(f"{MAPS}/h", options(unknown=1)),
        post(f"{NS}/pods", pod("p", {"terminationGracePeriodSeconds": 7}, finalizers=HOLD)),
        delete(f"{NS}/pods/p"),
        post(f"{NS}/pods", pod("q", {"nodeName": "n"})),
        delete(f"{NS}/pods/q"),
        delete(f"{NS}/pods/q", gracePeriodSeconds="3"),
        delete(f"{NS}/pods/q", gracePeriodSeconds="9"),
        delete(f"{NS}/pods/q", options(gracePeriodSeconds=0)),
        get(f"{NS}/pods/q"),
        *(post(MAPS, config_map(name, labels={"app": "x"})) for name in ("l", "m", "n")),
        delete(MAPS, labelSelector="app=x", fieldSelector="metadata.name=l"),
        delete(MAPS, labelSelector="app=x", limit="1"),
        delete(MAPS, options(propagationPolicy="Orphan"), labelSelector="app=x"),
        delete(MAPS, labelSelector="app=x"),
        delete(MAPS, labelSelector="a b"),
        delete(MAPS, fieldSelector="data.k=x"),
        delete("/api/v1/namespaces", labelSelector="nobody=is"),
        delete("/api/v1/configmaps", labelSelector="app=x"),
        delete(f"{NS}/services", labelSelector="app=x"),
        delete(NS),
        post(MAPS, config_map("o", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}])),
        post(
            MAPS,
            config_map(
                "o",
                ownerReferences=[
                    {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "xy"
                ],
            ),
        ),
        post(MAPS, config_map("r", finalizers=["nohold"])),
        post(MAPS, config_map("r", finalizers=["Bad Name/x"])),
        post(MAPS, config_map("r", finalizers=["orphan", "foregroundDeletion"])),
        json_patch(f"{MAPS}/b", [{"op": "remove", "path": "/metadata/deletionTimestamp"}]),
        put(f"{MAPS}/b", config_map("b", finalizers=["example.com/other", "foregroundDeletion"])),
        *(merge(f"{MAPS}/{name}", {"metadata": {"finalizers": None}}) for name in "bcdefg"),
        merge(f"{NS}/pods/p", {"metadata": {"finalizers": None}}),
    ],
    "evictions": [
        *(post(f"{NS}/pods", pod(name, labels={"app": "a"})) for name in ("one", "two", "three")),
        *(ready(name) for name in ("one", "two")),
        post(PDBS, budget("a", minAvailable=2)),
        eviction("one"),
        merge(
            f"{PDBS}/a/status",
            {
                "status": {
                    "observedGeneration": 1,
                    "currentHealthy": 2,
                    "desiredHealthy": 2,
                    "expectedPods": 3,
                    "disruptionsAllowed": 0,
                }
            },
        ),
        eviction("one"),
        eviction("three"),
        eviction("nobody"),
        merge(f"{PDBS}/a/status", {"status": {"disruptionsAllowed": 1}}),
        eviction("one", deleteOptions={"dryRun": ["All"]}),
        eviction("one", deleteOptions={"preconditions": {"uid": "other"}}),
        eviction("one", deleteOptions={"gracePeriodSeconds": 3}),
        get(f"{PDBS}/a"),
        eviction("two"),
        post(
            f"{NS}/pods/two/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}},
        ),
        post(
            f"{NS}/pods/two/eviction",
            {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "two"}},
        ),
        post(f"{NS}/pods/two/eviction", {}),
        get(f"{NS}/pods/two/eviction"),
        post(PDBS, budget("b", maxUnavailable="50%", selector={"matchLabels": {"app": "a"}})),
        eviction("two"),
        post(PDBS, budget("c", minAvailable=-1)),
        post(PDBS, budget("c", minAvailable="120%")),
        post(PDBS, budget("c", maxUnavailable="half")),
        post(PDBS, budget("c", unhealthyPodEvictionPolicy="Never")),
        merge(f"{PDBS}/a", {"spec": {"minAvailable": 1}}),
        put(f"{PDBS}/a", budget("a", minAvailable=1)),
    ],
    "quotas": [
        post(f"{NS}/resourcequotas", quota("q", HARD)),
        post(MAPS, config_map("early")),
        counted("q", HARD),
        wait(3),
        post(MAPS, config_map("a")),
        post(MAPS, config_map("b")),
        wait(1),
        post(MAPS, config_map("c")),
        post(MAPS, config_map("c"), dryRun="All"),
        get(f"{NS}/resourcequotas/q"),
        post(f"{NS}/pods", pod("none")),
        post(f"{NS}/pods", pod("p", container=resources(requests={"cpu": "1"}))),
        post(
            f"{NS}/pods",
            pod("p", container=resources(requests={"cpu": "2"}, limits={"cpu": "2", "memory": "2Gi"})),
        ),
        post(
            f"{NS}/pods", pod("p", container=resources(requests={"cpu": "600m"}, limits={"memory": "100Mi"}))
        ),
        wait(1),
        post(
            f"{NS}/pods", pod("r", container=resources(requests={"cpu": "600m"}, limits={"memory": "100Mi"}))
        ),
        post(f"{NS}/services", service("s", ports=[{"port": 1}])),
        wait(1),
        post(f"{NS}/services", service("t", ports=[{"port": 1}])),
        get(f"{NS}/resourcequotas/q"),
        get(f"{NS}/resourcequotas", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        post(f"{NS}/resourcequotas", quota("bad", {"pods": "-1"})),
        post(f"{NS}/resourcequotas", quota("bad", {"strange": "1"})),
        post(f"{NS}/resourcequotas", quota("bad", {"pods": "1.5"})),
        post(f"{NS}/resourcequotas", quota("bad", {"pods": "1"}, scopes=["Strange"])),
        post(f"{NS}/resourcequotas", quota("bad", {"services": "1"}, scopes=["BestEffort"])),
        post(f"{NS}/resourcequotas", quota("bad", {"pods": "1"}, scopes=["BestEffort", "NotBestEffort"])),
        post(
            f"{NS}/resourcequotas",
            quota(
                "bad",
                {"pods": "1"},
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]},
            ),
        ),
        merge(f"{NS}/resourcequotas/q", {"spec": {"scopes": ["BestEffort"]}}),
    ],
    "limit ranges": [
        limits(
            "l",
            {
                "type": "Container",
                "default": {"cpu": "500m", "memory": "256Mi"},
                "defaultRequest": {"cpu": "100m"},
                "min": {"cpu": "50m"},
                "max": {"cpu": "1", "memory": "1Gi"},
                "maxLimitRequestRatio": {"cpu": "10"},
            },
            {"type": "Pod", "max": {"cpu": "2"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ),
        wait(2),
        post(f"{NS}/pods", pod("defaults")),
        post(f"{NS}/pods", pod("half", container=resources(limits={"cpu": "200m"})), dryRun="All"),
        post(f"{NS}/pods", pod("low", container=resources(requests={"cpu": "10m"})), dryRun="All"),
        post(f"{NS}/pods", pod("high", container=resources(limits={"cpu": "2"})), dryRun="All"),
        post(
            f"{NS}/pods",
            pod("ratio", container=resources(requests={"cpu": "50m"}, limits={"cpu": "1"})),
            dryRun="All",
        ),
        post(
            f"{NS}/pods",
            pod(
                "many",
                {
                    "containers": [
                        {"name": f"c{n}", "image": "i", **resources(limits={"cpu": "1"})} for n in range(3)
                    ]
                },
            ),
            dryRun="All",
        ),
        post(f"{NS}/pods", pod("memory", container=resources(requests={"memory": "2Gi"})), dryRun="All"),
        *(
            post(
                f"{NS}/persistentvolumeclaims",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "c"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "",
                        "resources": {"requests": {"storage": size}},
                    },
                },
                dryRun="All",
            )
            for size in ("500Mi", "1Gi", "3Gi")
        ),
        limits("bad", {"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}}),
        limits("bad", {"type": "Pod", "default": {"cpu": "1"}}),
        limits("bad", {"type": "Container", "max": {"cpu": "1"}}, {"type": "Container", "max": {"cpu": "2"}}),
        limits("bad", {"type": "PersistentVolumeClaim"}),
        limits("bad", {"type": "strange", "max": {"cpu": "1"}}),
        limits("bad", {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
    ],
    "pod security": [
        levels(enforce="baseline", warn="restricted", audit="restricted"),
        wait(1),
        post(f"{NS}/pods", pod("a"), dryRun="All"),
        post(f"{NS}/pods", pod("a", {"hostNetwork": True, "hostPID": True}), dryRun="All"),
        post(f"{NS}/pods", pod("a", container={"securityContext": {"privileged": True}}), dryRun="All"),
        post(
            f"{NS}/pods",
            pod("a", container={"securityContext": {"capabilities": {"add": ["NET_ADMIN", "SYS_TIME"]}}}),
            dryRun="All",
        ),
        post(f"{NS}/pods", pod("a", {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}), dryRun="All"),
        post(
            f"{NS}/pods", pod("a", container={"ports": [{"containerPort": 1, "hostPort": 1}]}), dryRun="All"
        ),
        post(
            f"{NS}/pods",
            pod("a", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            dryRun="All",
        ),
        post(
            f"{NS}/pods",
            pod("a", {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
            dryRun="All",
        ),
        post(f"{NS}/pods", pod("a", {"securityContext": {"seLinuxOptions": {"type": "odd"}}}), dryRun="All"),
        post(f"{NS}/pods", pod("a", container={"securityContext": {"procMount": "Unmasked"}}), dryRun="All"),
        post(f"{NS}/pods", pod("safe", container={"securityContext": SAFE}), dryRun="All"),
        post(f"{APPS}/deployments", deployment("d"), dryRun="All"),
        post(
            f"{BATCH}/jobs", batch_job("j", container={"securityContext": {"privileged": True}}), dryRun="All"
        ),
        levels(enforce="restricted"),
        wait(1),
        post(f"{NS}/pods", pod("a"), dryRun="All"),
        post(f"{NS}/pods", pod("a", container={"securityContext": {**SAFE, "runAsUser": 0}}), dryRun="All"),
        post(f"{NS}/pods", pod("a", {"containers": [{"name": n, "image": "i"} for n in "ab"]}), dryRun="All"),
        post(
            f"{NS}/pods",
            pod(
                "a",
                {"volumes": [{"name": "n", "nfs": {"server": "s", "path": "/"}}]},
                {"securityContext": SAFE},
            ),
            dryRun="All",
        ),
        levels(enforce="privileged", warn="privileged"),
        post(f"{NS}/pods", pod("late")),
        levels(enforce="baseline"),
        levels(enforce="restricted"),
        levels(enforce="strange"),
        levels(enforce_version="v9.9.9"),
        levels(enforce_version="v1.99"),
        merge(f"{NS}/pods/late", {"metadata": {"labels": {"a": "b"}}}),
    ],
}
