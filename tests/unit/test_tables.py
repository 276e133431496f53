"""Cells of printed tables: the pod STATUS algorithm case by case, every kind at least once, CRD columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.test_registry import make_custom
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.served import tables
from trainshed.kube.served.registry import Registry

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC).timestamp()
FIVE_MINUTES_AGO = "2026-01-01T11:55:00Z"
META: Object = {"name": "x", "namespace": "default", "creationTimestamp": FIVE_MINUTES_AGO}
REGISTRY = Registry()


def cells(plural: str, obj: Object, group: str = "", version: str = "v1") -> dict[str, Any]:
    """Return column name -> cell of a built-in kind."""
    info = REGISTRY.get(group, version, plural)
    assert info is not None
    found, _ = tables.row_cells(info, {"metadata": META, **obj}, NOW)
    names = [column["name"] for column in tables.columns(info)]
    assert len(names) == len(found)
    return dict(zip(names, found, strict=True))


def make_status(name: str = "main", **state: Any) -> Object:
    """Return a container status; `running`, `waiting` or `terminated` is its state."""
    kept = {key: state.pop(key) for key in ("running", "waiting", "terminated") if key in state}
    return {"name": name, "ready": False, "restartCount": 0, "state": kept, **state}


def make_pod(
    phase: str = "Running",
    containers: list[Object] | None = None,
    init: list[Object] | None = None,
    *,
    deleting: bool = False,
    sidecar: bool = False,
    **status: Any,
) -> Object:
    containers, init = containers or [], init or []
    return {
        "metadata": {**META, **({"deletionTimestamp": FIVE_MINUTES_AGO} if deleting else {})},
        "spec": {
            "containers": [{"name": c["name"]} for c in containers] or [{"name": "main"}],
            "initContainers": [
                {"name": c["name"], **({"restartPolicy": "Always"} if sidecar else {})} for c in init
            ],
        },
        "status": {"phase": phase, "containerStatuses": containers, "initContainerStatuses": init, **status},
    }


RUNNING = make_status(running={}, ready=True)
DONE = make_status(terminated={"exitCode": 0, "reason": "Completed"})
READY = [{"type": "Ready", "status": "True"}]
CASES: dict[str, tuple[Object, str, str]] = {
    "unscheduled": (make_pod("Pending"), "0/1", "Pending"),
    "gated": (
        make_pod(
            "Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
        ),
        "0/1",
        "SchedulingGated",
    ),
    "creating": (
        make_pod("Pending", [make_status(waiting={"reason": "ContainerCreating"})]),
        "0/1",
        "ContainerCreating",
    ),
    "running": (make_pod("Running", [RUNNING]), "1/1", "Running"),
    "crash loop": (
        make_pod("Running", [make_status(waiting={"reason": "CrashLoopBackOff"})]),
        "0/1",
        "CrashLoopBackOff",
    ),
    "completed": (make_pod("Succeeded", [DONE]), "0/1", "Completed"),
    "error": (
        make_pod("Failed", [make_status(terminated={"exitCode": 1, "reason": "Error"})]),
        "0/1",
        "Error",
    ),
    "exit code without reason": (
        make_pod("Failed", [make_status(terminated={"exitCode": 3})]),
        "0/1",
        "ExitCode:3",
    ),
    "signal": (
        make_pod("Failed", [make_status(terminated={"exitCode": 137, "signal": 9})]),
        "0/1",
        "Signal:9",
    ),
    "evicted": (make_pod("Failed", reason="Evicted"), "0/1", "Evicted"),
    "one completed, one runs and is ready": (
        make_pod("Running", [DONE, {**RUNNING, "name": "b"}], conditions=READY),
        "1/2",
        "Running",
    ),
    "one completed, pod not ready": (
        make_pod("Running", [DONE, {**RUNNING, "name": "b"}]),
        "1/2",
        "NotReady",
    ),
    "first container has the last word": (
        make_pod(
            "Running",
            [
                make_status("a", waiting={"reason": "ImagePullBackOff"}),
                make_status("b", waiting={"reason": "Other"}),
            ],
        ),
        "0/2",
        "ImagePullBackOff",
    ),
    "terminating": (make_pod("Running", [RUNNING], deleting=True), "1/1", "Terminating"),
    "deleted after its end": (make_pod("Succeeded", [DONE], deleting=True), "0/1", "Completed"),
    "node lost": (make_pod("Running", [RUNNING], deleting=True, reason="NodeLost"), "1/1", "Unknown"),
    "init runs": (
        make_pod(
            "Pending", init=[make_status("a", terminated={"exitCode": 0}), make_status("b", running={})]
        ),
        "0/1",
        "Init:1/2",
    ),
    "init waits": (
        make_pod("Pending", init=[make_status("a", waiting={"reason": "ErrImagePull"})]),
        "0/1",
        "Init:ErrImagePull",
    ),
    "init is next": (
        make_pod("Pending", init=[make_status("a", waiting={"reason": "PodInitializing"})]),
        "0/1",
        "Init:0/1",
    ),
    "init failed": (
        make_pod("Failed", init=[make_status("a", terminated={"exitCode": 2, "reason": "Error"})]),
        "0/1",
        "Init:Error",
    ),
    "init failed without reason": (
        make_pod("Failed", init=[make_status("a", terminated={"exitCode": 2})]),
        "0/1",
        "Init:ExitCode:2",
    ),
    "init killed": (
        make_pod("Failed", init=[make_status("a", terminated={"exitCode": 137, "signal": 9})]),
        "0/1",
        "Init:Signal:9",
    ),
    "sidecar counts": (
        make_pod(
            "Running", [RUNNING], [make_status("side", running={}, ready=True, started=True)], sidecar=True
        ),
        "2/2",
        "Running",
    ),
    "sidecar starts": (
        make_pod("Pending", init=[make_status("side", running={}, started=False)], sidecar=True),
        "0/2",
        "Init:0/1",
    ),
}


@pytest.mark.parametrize(("pod", "ready", "status"), CASES.values(), ids=CASES.keys())
def test_pod_status(pod: Object, ready: str, status: str) -> None:
    found = cells("pods", pod)
    assert (found["Ready"], found["Status"]) == (ready, status)


def test_pod_restarts_say_when() -> None:
    ended = {"terminated": {"finishedAt": FIVE_MINUTES_AGO}}
    pod = make_pod(
        "Running", [{**RUNNING, "restartCount": 2, "lastState": ended}, {**RUNNING, "restartCount": 1}]
    )
    assert cells("pods", pod)["Restarts"] == "3 (5m ago)"
    assert cells("pods", make_pod("Running", [RUNNING]))["Restarts"] == "0"
    done = make_status("init", terminated={"exitCode": 0}, restartCount=4)
    assert cells("pods", make_pod("Running", [RUNNING], [done]))["Restarts"] == "0"


def test_finished_pods_carry_a_row_condition() -> None:
    info = REGISTRY.get("", "v1", "pods")
    assert info is not None
    for phase, expected in (("Running", []), ("Succeeded", ["Succeeded"]), ("Failed", ["Failed"])):
        _, conditions = tables.row_cells(info, make_pod(phase), NOW)
        assert [c["reason"] for c in conditions] == expected


@pytest.mark.parametrize("info", RESOURCES, ids=lambda i: f"{i.resource.group_resource}/{i.resource.version}")
def test_every_kind_prints_an_empty_object(info: ResourceInfo) -> None:
    """Fresh objects have neither spec nor status nor much of anything; lists must print all the same."""
    definitions = tables.columns(info)
    found, _ = tables.row_cells(info, {"metadata": {"name": "x"}}, NOW)
    extra = int(info.resource.plural == "ipaddresses")  # an age without a column, as upstream
    names = 2 if info.resource.plural == "volumeattachments" else 1  # that of the attacher
    assert len(found) == len(definitions) + extra
    assert [d["format"] for d in definitions].count("name") == names
    for definition, cell in zip(definitions, found, strict=not extra):
        assert isinstance(cell, {"integer": int}.get(definition["type"], str | bool | int)), definition[
            "name"
        ]
        if definition["name"] == "Age":
            assert cell == "<unknown>"


EXPECTED: list[tuple[str, str, Object, dict[str, Any]]] = [
    ("", "services", {"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
      "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30443, "protocol": "TCP"}],
      "selector": {"b": "2", "a": "1"}}},
     {"Cluster-IP": "10.96.0.1", "External-IP": "<none>", "Port(s)": "80/TCP,443:30443/TCP", "Selector": "a=1,b=2",
      "Age": "5m"}),
    ("", "services", {"spec": {"type": "LoadBalancer", "clusterIP": "None"}},
     {"Cluster-IP": "None", "External-IP": "<pending>", "Port(s)": "<none>"}),
    ("", "services", {"spec": {"type": "ExternalName", "externalName": "a.b"}}, {"External-IP": "a.b"}),
    ("", "nodes", {"metadata": {**META, "labels": {"node-role.kubernetes.io/worker": "",
      "node-role.kubernetes.io/control-plane": ""}}, "spec": {"unschedulable": True},
      "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.33.2"},
       "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}},
     {"Status": "Ready,SchedulingDisabled", "Roles": "control-plane,worker", "Version": "v1.33.2",
      "Internal-IP": "10.0.0.1", "External-IP": "<none>"}),
    ("", "nodes", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {"Status": "NotReady"}),
    ("", "persistentvolumeclaims", {"spec": {"volumeName": "v", "storageClassName": "local"}, "status": {
      "phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}},
     {"Status": "Bound", "Volume": "v", "Capacity": "1Gi", "Access Modes": "RWO,RWX", "StorageClass": "local",
      "VolumeAttributesClass": "<unset>"}),
    ("", "persistentvolumeclaims", {"status": {"phase": "Pending"}}, {"Capacity": "", "Access Modes": ""}),
    ("", "persistentvolumes", {"spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "n", "name": "c"},
      "accessModes": ["ReadWriteOncePod"], "persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Bound"}},
     {"Claim": "n/c", "Access Modes": "RWOP", "Reclaim Policy": "Delete", "Status": "Bound"}),
    ("", "events", {"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}, "reason": "Started",
      "message": "ok\n", "type": "Normal", "count": 3, "firstTimestamp": "2026-01-01T11:00:00Z",
      "lastTimestamp": FIVE_MINUTES_AGO, "source": {"component": "kubelet", "host": "n"}},
     {"Last Seen": "5m", "Object": "pod/p", "Source": "kubelet, n", "First Seen": "60m", "Count": 3,
      "Message": "ok", "Name": "x"}),
    ("events.k8s.io", "events", {"regarding": {"kind": "Pod", "name": "p"}, "note": "n", "type": "Warning",
      "eventTime": "2026-01-01T11:55:00.000000Z", "reportingController": "c", "reportingInstance": "i"},
     {"Last Seen": "5m", "Object": "pod/p", "Source": "c, i", "Message": "n", "Count": 1}),
    ("", "configmaps", {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}, {"Data": 2}),
    ("", "secrets", {"type": "Opaque", "data": {"a": "b"}}, {"Type": "Opaque", "Data": 1}),
    ("", "endpoints", {"subsets": [{"addresses": [{"ip": f"10.0.0.{i}"} for i in range(4)], "ports": [{"port": 80}]}]},
     {"Endpoints": "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 1 more..."}),
    ("", "resourcequotas", {"status": {"hard": {"cpu": "1", "limits.cpu": "2"}, "used": {"cpu": "500m"}}},
     {"Request": "cpu: 500m/1", "Limit": "limits.cpu: 0/2"}),
    ("apps", "deployments", {"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}, "template": {"spec":
      {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}},
      "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}},
     {"Ready": "2/3", "Up-to-date": 3, "Available": 2, "Containers": "a,b", "Images": "i,j", "Selector": "app=d"}),
    ("apps", "replicasets", {"spec": {"replicas": 2, "selector": {"matchExpressions": [
      {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"}]}}},
     {"Desired": 2, "Current": 0, "Selector": "a in (x,y),!b"}),
    ("batch", "jobs", {"spec": {"completions": 4}, "status": {"succeeded": 4, "startTime": "2026-01-01T11:00:00Z",
      "completionTime": "2026-01-01T11:00:07Z", "conditions": [{"type": "Complete", "status": "True"}]}},
     {"Status": "Complete", "Completions": "4/4", "Duration": "7s"}),
    ("batch", "jobs", {"spec": {"parallelism": 3}, "status": {"startTime": FIVE_MINUTES_AGO}},
     {"Status": "Running", "Completions": "0/1 of 3", "Duration": "5m"}),
    ("batch", "jobs", {"spec": {"suspend": True}, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
     {"Status": "Suspended", "Duration": ""}),
    ("batch", "cronjobs", {"spec": {"schedule": "@hourly", "suspend": False}, "status": {"active": [{}]}},
     {"Schedule": "@hourly", "Timezone": "<none>", "Suspend": "False", "Active": 1, "Last Schedule": "<none>"}),
    ("autoscaling", "horizontalpodautoscalers", {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"},
      "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target":
       {"type": "Utilization", "averageUtilization": 80}}}]}},
     {"Reference": "Deployment/d", "Targets": "cpu: <unknown>/80%", "MinPods": "<unset>", "MaxPods": 5}),
    ("policy", "poddisruptionbudgets", {"spec": {"minAvailable": "50%"}},
     {"Min Available": "50%", "Max Unavailable": "N/A"}),
    ("coordination.k8s.io", "leases", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
    ("rbac.authorization.k8s.io", "rolebindings", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
      {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]},
     {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"}),
    ("rbac.authorization.k8s.io", "roles", {}, {"Created At": FIVE_MINUTES_AGO}),
    ("discovery.k8s.io", "endpointslices", {"addressType": "IPv4", "ports": [{"port": 80}],
      "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]},
     {"AddressType": "IPv4", "Ports": "80", "Endpoints": "10.0.0.1,10.0.0.2"}),
    ("storage.k8s.io", "storageclasses", {"provisioner": "p", "metadata": {**META, "annotations": {
      "storageclass.kubernetes.io/is-default-class": "true"}}},
     {"Name": "x (default)", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate",
      "AllowVolumeExpansion": False}),
    ("networking.k8s.io", "ingresses", {"spec": {"rules": [{"host": "a.b"}], "tls": [{}]}},
     {"Class": "<none>", "Hosts": "a.b", "Ports": "80, 443"}),
    ("networking.k8s.io", "networkpolicies", {"spec": {"podSelector": {}}}, {"Pod-Selector": "<none>"}),
    ("scheduling.k8s.io", "priorityclasses", {"value": 7}, {"Value": 7, "PreemptionPolicy": "PreemptLowerPriority"}),
    ("metrics.k8s.io", "pods", {"containers": [{"usage": {"cpu": "100m", "memory": "1Mi"}},
      {"usage": {"cpu": "1", "memory": "1Mi"}}]}, {"CPU": "1100m"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "plural", "obj", "expected"), EXPECTED, ids=[f"{e[1]}-{i}" for i, e in enumerate(EXPECTED)]
)
def test_cells(group: str, plural: str, obj: Object, expected: dict[str, Any]) -> None:
    found = cells(plural, obj, group, REGISTRY.versions(group)[0])
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("plural", "numbers"),
    [("deployments", 2), ("replicasets", 3), ("statefulsets", 0), ("daemonsets", 5)],
)
def test_a_workload_that_no_controller_has_seen_has_nothing(plural: str, numbers: int) -> None:
    found = cells(plural, {"spec": {"template": {"spec": {"containers": []}}}}, "apps")
    assert [value for value in found.values() if isinstance(value, int)] == [0] * numbers
    assert found.get("Ready", 0) in (0, "0/0")


@pytest.mark.parametrize(
    ("spec", "completions"),
    [
        ({"completions": 1, "parallelism": 2}, "0/1"),
        ({"parallelism": 0}, "0/1"),
        ({"parallelism": 1}, "0/1"),
        ({"parallelism": 2}, "0/1 of 2"),
    ],
)
def test_completions_of_a_job(spec: Object, completions: str) -> None:
    assert cells("jobs", {"spec": spec}, "batch", "v1")["Completions"] == completions


def resource_metric(name: str, **target: Any) -> Object:
    """Return a metric of an autoscaler."""
    return {"type": "Resource", "resource": {"name": name, "target": target}}


CPU = resource_metric("cpu", averageUtilization=80)


@pytest.mark.parametrize(
    ("metrics", "current", "targets"),
    [
        ([], [], "<none>"),
        ([CPU], [], "cpu: <unknown>/80%"),
        ([CPU], [{"resource": {"current": {"averageUtilization": 0}}}], "cpu: 0%/80%"),
        ([resource_metric("memory", averageValue="1Gi")], [], "memory: <unknown>/1Gi"),
        (
            [resource_metric("memory", averageValue="1Gi")],
            [{"resource": {"current": {"averageValue": "100Mi"}}}],
            "memory: 100Mi/1Gi",
        ),
        (
            [resource_metric("memory", value="2Gi")],
            [{"resource": {"current": {"value": "1Gi"}}}],
            "memory: 1Gi/2Gi",
        ),
        ([CPU] * 2, [], "cpu: <unknown>/80%, cpu: <unknown>/80%"),
        ([CPU] * 3, [], "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more..."),
        ([CPU] * 5, [], "cpu: <unknown>/80%, cpu: <unknown>/80% + 3 more..."),
    ],
)
def test_targets_of_an_autoscaler(metrics: list[Object], current: list[Object], targets: str) -> None:
    scaler = {"spec": {"metrics": metrics}, "status": {"currentMetrics": current}}
    found = cells("horizontalpodautoscalers", scaler, "autoscaling", "v2")
    assert found["Targets"] == targets
    assert (found["MinPods"], found["MaxPods"], found["Replicas"]) == ("<unset>", 0, 0)


def test_custom_columns_in_every_type() -> None:
    def column(name: str, kind: str, path: str) -> Object:
        return {"name": name, "type": kind, "jsonPath": path}

    columns = (
        column("State", "string", ".status.conditions[-1:].type"),
        column("Count", "integer", ".spec.count"),
        column("Ratio", "number", ".spec.ratio"),
        column("On", "boolean", ".spec.on"),
        column("Map", "string", ".spec.map"),
        column("Wrong", "integer", ".spec.map"),
        column("Missing", "string", ".spec.missing"),
        column("Broken", "string", ".spec[?("),
        column("Bad", "date", ".spec.count"),
        column("Age", "date", ".metadata.creationTimestamp"),
    )
    info = msgspec.structs.replace(make_custom(), printer_columns=columns)
    obj = {
        "metadata": META,
        "spec": {"count": 3, "ratio": 0.5, "on": False, "map": {"a": [1]}},
        "status": {"conditions": [{"type": "Created"}, {"type": "Running"}]},
    }
    found, conditions = tables.row_cells(info, obj, NOW)
    assert found == ["x", "Running", 3, 0.5, False, '{"a":[1]}', None, None, None, "<invalid>", "5m"]
    assert conditions == []
    assert [c["name"] for c in tables.columns(info)] == ["Name", *(c["name"] for c in columns)]


def test_custom_resources_without_columns_print_name_and_age() -> None:
    info = make_custom()
    assert [c["name"] for c in tables.columns(info)] == ["Name", "Age"]
    assert tables.row_cells(info, {"metadata": META}, NOW) == (["x", "5m"], [])


def test_table_document() -> None:
    info = REGISTRY.get("", "v1", "configmaps")
    assert info is not None
    obj = {"metadata": META, "data": {"a": "b"}}
    whole = tables.table(info, [obj], {"resourceVersion": "7"}, NOW)
    assert (whole["apiVersion"], whole["metadata"]) == ("meta.k8s.io/v1", {"resourceVersion": "7"})
    assert whole["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": META,
    }
    later = tables.table(info, [obj], {}, NOW, include_object="Object", version="v1beta1", with_columns=False)
    assert later["columnDefinitions"] is None
    assert later["rows"][0]["object"] == {"apiVersion": "v1", "kind": "ConfigMap", **obj}
    assert tables.table(info, [obj], {}, NOW, include_object="None")["rows"][0]["object"] is None


def test_partial_list() -> None:
    found = tables.partial_list([{"metadata": META, "spec": {}}], {"resourceVersion": "7"})
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["items"] == [
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": META}
    ]
