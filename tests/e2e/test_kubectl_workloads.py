"""Workloads, nodes and storage as every kubectl shows and handles them, on a real cluster: the oldest and the newest.

Rows 043, 044, 074-077, 084, 085, 098, 108, 116, 119, 122, 126, 131 of the conformance list. Left out: rules of
rollouts and of Jobs one by one (tests/cluster, tests/unit).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import job as make_training_job
from tests.e2e.jobs import replica
from tests.e2e.pods import WAITS, container, make_pod, rows

pytestmark = pytest.mark.timeout(120)

Object = dict[str, Any]


def make_deployment(name: str, replicas: int = 2) -> Object:
    main = container("main", f"echo up; {WAITS}", ports=[{"name": "http", "containerPort": 8080}])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [main]}},
        },
    }


def make_job(name: str, script: str, **spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [container("main", script)]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }


def rolled_out(kube: Cluster, name: str) -> None:
    text = kube.kubectl("rollout", "status", f"deployment/{name}", "--timeout=30s").ok()
    assert "successfully rolled out" in text


def images(kube: Cluster, name: str) -> set[str]:
    """Return the images of the pods that are not on their way out."""
    return {
        pod["spec"]["containers"][0]["image"]
        for pod in kube.pods().values()
        if pod["metadata"]["labels"]["app"] == name and "deletionTimestamp" not in pod["metadata"]
    }


def test_deployment(kube: Cluster) -> None:
    kube.apply(make_deployment("dep"))
    rolled_out(kube, "dep")
    assert kube.kubectl("scale", "deploy", "dep", "--replicas=3").ok() == "deployment.apps/dep scaled\n"
    rolled_out(kube, "dep")
    assert rows(kube.kubectl("get", "deploy").ok())[1][:4] == ["dep", "3/3", "3", "3"]
    lines = kube.kubectl("logs", "-l", "app=dep", "--prefix").ok().splitlines()
    assert sorted(lines) == [f"[pod/{pod}/main] up" for pod in sorted(kube.pods())]
    assert kube.kubectl("logs", "deploy/dep").ok() == "up\n"

    before = set(kube.pods())
    kube.kubectl("rollout", "restart", "deploy/dep").ok()
    rolled_out(kube, "dep")
    until(lambda: len(kube.pods()) == 3 and not before & set(kube.pods()), "other pods")
    kube.kubectl("set", "image", "deploy/dep", "main=example.com/main:2").ok()
    rolled_out(kube, "dep")
    assert images(kube, "dep") == {"example.com/main:2"}
    history = kube.kubectl("rollout", "history", "deploy/dep").ok()
    assert re.findall(r"^\d+", history, re.MULTILINE) == ["1", "2", "3"]
    kube.kubectl("rollout", "undo", "deploy/dep").ok()
    rolled_out(kube, "dep")
    assert images(kube, "dep") == {"example.com/main:1"}
    assert kube.kubectl("rollout", "pause", "deploy/dep").ok() == "deployment.apps/dep paused\n"
    kube.kubectl("rollout", "resume", "deploy/dep").ok()

    text = kube.kubectl("describe", "deploy", "dep").ok()
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in text
    assert re.search(r"Scaled up replica set dep-\w+ from 0 to 2", text)
    kube.kubectl("delete", "deploy", "dep").ok()
    until(lambda: not kube.pods(), "the pods of the deployment gone", 10)
    assert kube.kubectl("get", "rs").out == ""


def test_service(kube: Cluster) -> None:
    kube.apply(make_deployment("dep"))
    rolled_out(kube, "dep")
    expose = ("expose", "deploy", "dep", "--port=80", "--target-port=http")
    assert kube.kubectl(*expose).ok() == "service/dep exposed\n"
    addresses = {pod["status"]["podIP"] for pod in kube.pods().values()}

    def slice_addresses() -> set[str]:
        what = ("get", "endpointslices", "-l", "kubernetes.io/service-name=dep", "-o", "json")
        slices = json.loads(kube.kubectl(*what).ok())["items"]
        return {a for s in slices for e in s.get("endpoints") or () for a in e["addresses"]}

    until(lambda: slice_addresses() == addresses, f"{addresses} in the EndpointSlice")
    text = kube.kubectl("describe", "svc", "dep").ok()
    assert re.search(r"TargetPort: +http/TCP\n", text)
    for address in addresses:
        assert re.search(rf"Endpoints: .*{re.escape(address)}:8080", text)


def test_job(kube: Cluster) -> None:
    kube.apply(make_job("good", "echo from job", completions=2), make_job("bad", "exit 2", backoffLimit=0))
    kube.kubectl("wait", "--for=condition=complete", "job/good", "--timeout=30s").ok()
    kube.kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=30s").ok()
    assert "from job\n" in kube.kubectl("logs", "job/good").ok()
    shown = {row[0]: row for row in rows(kube.kubectl("get", "jobs").ok())[1:]}
    assert "2/2" in shown["good"] and "0/1" in shown["bad"]
    text = kube.kubectl("describe", "job", "good").ok()
    assert re.search(r"Pods Statuses: +0 Active( \(0 Ready\))? / 2 Succeeded / 0 Failed", text)
    until(lambda: kube.events("Completed", "good"), "an event of the job's end")
    until(lambda: kube.events("BackoffLimitExceeded", "bad"), "an event of the job's failure")
    kube.kubectl("create", "job", "typed", "--image=example.com/x:1", "--", "echo", "typed").ok()
    cron = ("--image=example.com/x:1", "--schedule=0 0 1 1 *", "--", "echo", "cron")
    kube.kubectl("create", "cronjob", "cron", *cron).ok()
    kube.kubectl("create", "job", "--from=cronjob/cron", "now").ok()
    kube.kubectl("wait", "--for=condition=complete", "job/typed", "job/now", "--timeout=30s").ok()
    assert kube.kubectl("logs", "job/now").ok() == "cron\n"
    kube.kubectl("delete", "jobs", "--all").ok()
    until(lambda: not kube.pods(), "the pods of the jobs gone", 10)


def test_created_by_command(kube: Cluster) -> None:
    """The newest kubectl sends these as protobuf."""
    create = ("create", "deployment", "typed", "--image=example.com/x:1", "--replicas=2", "--", "sh", "-c")
    kube.kubectl(*create, WAITS).ok()
    rolled_out(kube, "typed")
    assert len(kube.pods()) == 2


def test_storage(kube: Cluster) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    writer = make_pod("writer", f"echo kept > /data/file; {WAITS}")
    writer["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    writer["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/data"}]
    kube.apply(claim, writer)
    kube.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data").ok()
    kube.kubectl("wait", "--for=condition=Ready", "pod/writer").ok()
    name, status, volume, capacity, modes, storage_class = rows(kube.kubectl("get", "pvc").ok())[1][:6]
    assert (name, status, capacity, modes, storage_class) == ("data", "Bound", "1Gi", "RWO", "standard")
    text = kube.kubectl("describe", "pvc", "data").ok()
    assert re.search(r"Used By: +writer\n", text) and "ProvisioningSucceeded" in text
    text = kube.kubectl("describe", "pv", volume).ok()
    assert re.search(rf"Claim: +{kube.namespace}/data\n", text) and re.search(r"Status: +Bound\n", text)
    kube.kubectl("delete", "pvc", "data", "--wait=false").ok()
    assert rows(kube.kubectl("get", "pvc").ok())[1][1] == "Terminating", "it is in use"
    kube.kubectl("delete", "pod", "writer").ok()
    kube.kubectl("wait", "--for=delete", "pvc/data", f"pv/{volume}", "--timeout=20s").ok()


def test_training_job(kube: Cluster, shared_folder: Path) -> None:
    master = "echo rank $RANK; until [ -e /out/finish ]; do sleep 0.05; done"
    worker = "echo rank $RANK; touch /out/finish"
    kube.apply(make_training_job("train", replica(master, shared_folder), replica(worker, shared_folder)))
    kube.until_condition("train", "Succeeded")
    kube.until_phase("Succeeded", "train-master-0", "train-worker-0")
    assert rows(kube.kubectl("get", "pytorchjobs").ok())[1][:2] == ["train", "Succeeded"]
    until(lambda: kube.events("PyTorchJobSucceeded"), "an event of the job's end")
    text = kube.kubectl("describe", "pytorchjob", "train").ok()
    reasons = [line.split()[1] for line in text.partition("Events:")[2].splitlines()[3:]]
    assert reasons[0] == "SuccessfulCreatePod" and reasons[-1] == "PyTorchJobSucceeded", reasons
    everything = kube.kubectl("get", "all").ok()
    assert "pod/train-master-0" in everything and "service/train-worker-0" in everything
    label = "training.kubeflow.org/job-name=train"
    lines = kube.kubectl("logs", "-l", label, "--prefix", "-c", "pytorch").ok().splitlines()
    assert sorted(lines) == ["[pod/train-master-0/pytorch] rank 0", "[pod/train-worker-0/pytorch] rank 1"]
    kube.kubectl("delete", "pytorchjob", "train").ok()
    until(lambda: not kube.pods(), "the job's pods gone", 10)


def test_node(kube: Cluster) -> None:
    burn = "while :; do :; done"
    kube.apply(make_pod("burns", burn, grace=1), make_deployment("dep", 1))
    kube.kubectl("wait", "--for=condition=Ready", "pod/burns").ok()
    rolled_out(kube, "dep")
    node = kube.kubectl("get", "nodes", "-o", "name").ok().strip().removeprefix("node/")
    assert rows(kube.kubectl("get", "nodes").ok())[1][1] == "Ready"
    text = kube.kubectl("describe", "node", node).ok()
    for part in ("Capacity:", "Allocatable:", "RenewTime:", "Non-terminated Pods:", "Allocated resources:"):
        assert part in text
    assert re.search(rf"\n  {kube.namespace} +burns ", text)

    def cores() -> int:
        table = kube.kubectl("top", "pods")
        found = re.search(r"^burns +(\d+)m +\d+Mi", table.out, re.MULTILINE)
        return int(found[1]) if found else 0

    until(lambda: cores() > 10, "the use of a pod that computes")
    assert re.search(r"^\S+ +\d+m +\d+% +\d+Mi +\d+%", kube.kubectl("top", "nodes").ok(), re.MULTILINE)
    kube.kubectl("delete", "pod", "burns", "--force", "--grace-period=0").ok()

    try:
        kube.kubectl("cordon", node).ok()
        assert rows(kube.kubectl("get", "nodes").ok())[1][1] == "Ready,SchedulingDisabled"
        kube.apply(make_pod("late", WAITS))
        until(lambda: kube.events("FailedScheduling", "late"), "an event of the pod that waits")
        assert "1 node(s) were unschedulable" in kube.events("FailedScheduling", "late")[0]
        old = [name for name in kube.pods() if name.startswith("dep-")]
        drain = ("drain", node, "--ignore-daemonsets", "--force", "--pod-selector=app=dep", "--timeout=30s")
        assert f"pod/{old[0]} evicted" in kube.kubectl(*drain).ok()
        kube.kubectl("uncordon", node).ok()
        kube.kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=30s").ok()
        rolled_out(kube, "dep")
        assert kube.kubectl("taint", "node", node, "a=b:NoSchedule").ok().endswith("tainted\n")
        assert re.search(r"Taints: +a=b:NoSchedule\n", kube.kubectl("describe", "node", node).ok())
    finally:
        kube.kubectl("uncordon", node)
        kube.kubectl("taint", "node", node, "a-")


def test_stateful_set(kube: Cluster) -> None:
    main = container("main", f"cat /data/who 2>/dev/null; hostname > /data/who; {WAITS}")
    main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = make_deployment("db")["spec"]
    spec["template"]["spec"] = {"containers": [main], "terminationGracePeriodSeconds": 1}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    metadata = {"name": "db"}
    kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {**spec, "serviceName": "db"},
        }
    )

    def rolled_out() -> None:
        kube.kubectl("rollout", "status", "sts/db", "--timeout=60s").ok()

    rolled_out()
    assert rows(kube.kubectl("get", "sts").ok())[1][:2] == ["db", "2/2"]
    assert sorted(kube.pods()) == ["db-0", "db-1"]
    kube.kubectl("set", "image", "sts/db", "main=example.com/main:2").ok()
    rolled_out()
    assert images(kube, "db") == {"example.com/main:2"}
    assert kube.kubectl("logs", "db-1").ok() == "db-1\n", "the new pod has the old one's data and name"
    assert kube.kubectl("rollout", "undo", "sts/db").ok() == "statefulset.apps/db rolled back\n"
    rolled_out()
    assert images(kube, "db") == {main["image"]}
    history = kube.kubectl("rollout", "history", "sts/db").ok()
    assert re.findall(r"^(\d+) ", history, re.MULTILINE) == ["2", "3"]
    kube.kubectl("scale", "sts/db", "--replicas=1").ok()
    until(lambda: sorted(kube.pods()) == ["db-0"], "one pod")
    kube.kubectl("delete", "sts/db").ok()
    until(lambda: not kube.pods(), "no pods")
    assert rows(kube.kubectl("get", "pvc").ok())[1][1] == "Bound"


def test_cron_job(kube: Cluster) -> None:
    make = ("create", "cronjob", "tick", "--image=example.com/main:1", "--schedule=@every 1s")
    assert kube.kubectl(*make, "--", "echo", "tack").ok() == "cronjob.batch/tick created\n"
    until(lambda: kube.kubectl("get", "jobs", "-o", "name").ok(), "a job")
    kube.kubectl("patch", "cronjob/tick", "-p", '{"spec":{"suspend":true}}').ok()
    assert rows(kube.kubectl("get", "cronjob").ok())[1][0] == "tick"
    by_hand = kube.kubectl("create", "job", "now", "--from=cronjob/tick").ok()
    assert by_hand == "job.batch/now created\n"
    kube.kubectl("wait", "--for=condition=Complete", "job/now", "--timeout=30s").ok()
    assert kube.kubectl("logs", "job/now").ok() == "tack\n"
    kube.kubectl("delete", "cronjob/tick").ok()
    until(lambda: not kube.kubectl("get", "jobs", "-o", "name").ok(), "no jobs")
