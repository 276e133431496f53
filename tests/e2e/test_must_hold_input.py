"""Bad input gets the error that Kubernetes gives, with the field path and exit code 1, and changes nothing.

Matrix: manifests × {oldest kubectl, newest kubectl, trainshed run}; --validate {strict, warn, ignore}; what is only
found out when a pod is to run. Left out: every rule of validation (tests/unit).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path, until
from tests.e2e.jobs import job, pod, replica

Object = dict[str, Any]


def base() -> Object:
    return job("bad", replica("exit 0"), replica("exit 0"))


def master(obj: Object) -> Any:
    return obj["spec"]["pytorchReplicaSpecs"]["Master"]


def container(obj: Object) -> Any:
    return master(obj)["template"]["spec"]["containers"][0]


def changed(change: Callable[[Object], Any]) -> Object:
    """Return the job after the change."""
    obj = base()
    change(obj)
    return obj


def changed_pod(change: Callable[[Object], Any]) -> Object:
    obj = pod("bad", "exit 0")
    change(obj)
    return obj


APPLIED = {
    "unknown field": ("spec.foo: field not declared in schema",),
    "text for the containers": ("spec.containers: expected list, got &{x}",),
    "unknown field of the pod": (".comand: field not declared in schema",),
    "text for a number": (".replicas: expected numeric (int or float), got string",),
    "a map for a list": (".template.spec.containers: expected list, got ",),
    "a list for a map": ("spec.runPolicy: expected map, got ",),
}
"""What is refused in other words where it is applied, before anything is validated, as `trainshed run` does."""

MASTER = "spec.pytorchReplicaSpecs.Master"
DENIED = 'admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the request'

REFUSED: dict[str, tuple[Object, tuple[str, ...]]] = {
    "unknown field": (
        changed(lambda o: o["spec"].update(foo=1)),
        ('strict decoding error: unknown field "spec.foo"',),
    ),
    "unknown field of the pod": (
        changed(lambda o: container(o).update(comand=["x"])),
        (f'unknown field "{MASTER}.template.spec.containers[0].comand"',),
    ),
    "text for a number": (
        changed(lambda o: master(o).update(replicas="two")),
        (f'{MASTER}.replicas: Invalid value: "string"', "must be of type integer"),
    ),
    "a map for a list": (
        changed(lambda o: master(o)["template"]["spec"].update(containers={"a": 1})),
        (f'strict decoding error: unknown field "{MASTER}.template.spec.containers.a"',),
    ),
    "a list for a map": (
        changed(lambda o: o["spec"].update(runPolicy=[])),
        ("spec.runPolicy", "must be of type object"),
    ),
    "no containers": (
        changed(lambda o: master(o)["template"]["spec"].pop("containers")),
        (f"{MASTER}.template.spec.containers: Required value",),
    ),
    "no replicas": (
        changed(lambda o: o["spec"].pop("pytorchReplicaSpecs")),
        ("spec.pytorchReplicaSpecs: Required value",),
    ),
    "no image": (
        changed(lambda o: container(o).pop("image")),
        (DENIED, "containers[0].image: Required value"),
    ),
    "no container pytorch": (
        changed(lambda o: container(o).update(name="other")),
        (DENIED, "must have at least one container with name pytorch"),
    ),
    "a name that is no DNS label": (
        changed(lambda o: o["metadata"].update(name="Bad_Name")),
        ('metadata.name: Invalid value: "Bad_Name"', "RFC 1123"),
    ),
    "a name that is no service name": (
        changed(lambda o: o["metadata"].update(name="1bad")),
        (DENIED, 'metadata.name: Invalid value: "1bad"', "DNS-1035"),
    ),
    "an unknown replica type": (
        changed(lambda o: o["spec"]["pytorchReplicaSpecs"].update(Chief=master(o))),
        (DENIED, 'spec.pytorchReplicaSpecs[Chief]: Unsupported value: "Chief"', '"Master", "Worker"'),
    ),
    "two masters": (
        changed(lambda o: master(o).update(replicas=2)),
        (DENIED, "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"),
    ),
    "an unknown kind": (
        changed(lambda o: o.update(kind="PyTorchJop")),
        ('no matches for kind "PyTorchJop" in version "kubeflow.org/v1"',),
    ),
    "an unknown version": (
        changed(lambda o: o.update(apiVersion="kubeflow.org/v9")),
        ('no matches for kind "PyTorchJob" in version "kubeflow.org/v9"',),
    ),
    "an unknown namespace": (
        changed(lambda o: o["metadata"].update(namespace="nowhere")),
        ('"nowhere"',),
    ),
    "a pod without a name": (
        changed_pod(lambda o: o["metadata"].clear()),
        ("metadata.name: Required value",),
    ),
    "a pod without containers": (
        changed_pod(lambda o: o["spec"].update(containers=[])),
        ("spec.containers: Required value",),
    ),
    "text for the containers": (
        changed_pod(lambda o: o["spec"].update(containers="x")),
        ("cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",),
    ),
    "an unknown pull policy": (
        changed_pod(lambda o: o["spec"]["containers"][0].update(imagePullPolicy="Maybe")),
        ('spec.containers[0].imagePullPolicy: Unsupported value: "Maybe"', '"Never"'),
    ),
    "a mount of no volume": (
        changed_pod(
            lambda o: o["spec"]["containers"][0].update(volumeMounts=[{"name": "no", "mountPath": "/x"}])
        ),
        ('spec.containers[0].volumeMounts[0].name: Not found: "no"',),
    ),
}

NOT_YAML = {
    "broken YAML": ("apiVersion: v1\nkind: [Pod\n", ("line 2", ":3: not YAML")),
    "a word": ("hello\n", ("invalid object to validate", "not a Kubernetes object but a string")),
    "no kind": ("apiVersion: v1\nmetadata: {name: x}\n", ("kind not set", "kind: Required value")),
}


def contents(cluster: Cluster) -> dict[str, str]:
    """Return name → resourceVersion of all that is in the cluster and that input could change."""
    found = {}
    for path in (
        "/api/v1/pods",
        "/api/v1/services",
        "/api/v1/configmaps",
        "/api/v1/events",
        "/api/v1/namespaces",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/kubeflow.org/v1/pytorchjobs",
    ):
        for item in cluster.api.json("GET", path)["items"]:
            metadata = item["metadata"]
            # The operator's own pod becomes ready in its own time.
            if metadata.get("namespace") != "kubeflow":
                name = f"{path}/{metadata.get('namespace', '')}/{metadata['name']}"
                found[name] = metadata["resourceVersion"]
    return found


@pytest.fixture
def manifest(cluster: Cluster) -> Callable[[str], str]:
    def write(text: str) -> str:
        file = cluster.scratch / "manifest.yaml"
        file.write_text(text)
        return str(file)

    return write


@pytest.mark.parametrize("which", [0, -1], ids=["oldest kubectl", "newest kubectl"])
def test_kubectl_is_refused(cluster: Cluster, manifest: Callable[[str], str], which: int) -> None:
    path = kubectl_path(which)
    cluster.until_alone()
    before = contents(cluster)
    for what, (obj, texts) in REFUSED.items():
        refused = cluster.kubectl("create", "-f", manifest(json.dumps(obj)), path=path)
        print(what)
        refused.failed(*texts)
    for what, (text, (words, _)) in NOT_YAML.items():
        print(what)
        cluster.kubectl("create", "-f", manifest(text), path=path).failed(words)
    assert contents(cluster) == before


def test_trainshed_run_is_refused(cluster: Cluster, manifest: Callable[[str], str]) -> None:
    cluster.until_alone()
    before = contents(cluster)
    cases = {what: (json.dumps(obj), APPLIED.get(what, texts)) for what, (obj, texts) in REFUSED.items()}
    cases |= {what: (text, (words,)) for what, (text, (_, words)) in NOT_YAML.items()}
    for what, (text, texts) in cases.items():
        print(what)
        refused = cluster.trainshed("run", manifest(text), "-n", cluster.namespace)
        message = refused.failed("error:", *texts)
        assert "Traceback" not in message
        assert len(message.splitlines()) <= 2, "one line, and perhaps a hint"
    cluster.trainshed("run", "/no/such/file.yaml").failed("/no/such/file.yaml: no such file")
    assert contents(cluster) == before


def test_one_bad_object_keeps_run_from_applying_the_good_ones(
    cluster: Cluster, manifest: Callable[[str], str]
) -> None:
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}, "data": {"a": "b"}}
    bad, texts = REFUSED["two masters"]
    cluster.until_alone()
    before = contents(cluster)
    documents = f"{json.dumps(good)}\n---\n{json.dumps(bad)}"
    cluster.trainshed("run", manifest(documents), "-n", cluster.namespace).failed(*texts)
    assert contents(cluster) == before


def test_a_bad_change_leaves_the_object_as_it_is(cluster: Cluster) -> None:
    cluster.apply(job("train", replica("exit 0"), suspend=True))
    cluster.until_condition("train", "Suspended")
    until(lambda: cluster.events("PyTorchJobSuspended"), "the event, which follows the condition")
    cluster.until_alone()
    before = contents(cluster)
    for patch, text in (
        ('{"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}}', "must be 1"),
        ('{"spec": {"runPolicy": {"suspend": "yes"}}}', "spec.runPolicy.suspend"),
        ('{"spec": {"pytorchReplicaSpecs": null}}', "spec.pytorchReplicaSpecs: Required value"),
        ('{"metadata": {"labels": {"a b": "c"}}}', "metadata.labels"),
    ):
        cluster.kubectl("patch", "pytorchjob", "train", "--type=merge", "-p", patch).failed(text)
    assert contents(cluster) == before


def test_validate_warn_and_ignore(cluster: Cluster, manifest: Callable[[str], str]) -> None:
    """The unknown field is dropped either way; `warn` says so."""
    obj = job("lenient", replica("exit 0"), suspend=True)
    obj["spec"]["foo"] = 1
    file = manifest(json.dumps(obj))
    warned = cluster.kubectl("create", "--validate=warn", "-f", file)
    assert warned.rc == 0 and 'Warning: unknown field "spec.foo"' in warned.err, warned
    assert "foo" not in cluster.get("pytorchjobs", "lenient")["spec"]
    cluster.kubectl("delete", "-f", file).ok()
    ignored = cluster.kubectl("create", "--validate=ignore", "-f", file)
    assert ignored.rc == 0 and ignored.err == "", ignored
    assert "foo" not in cluster.get("pytorchjobs", "lenient")["spec"]


def waiting_reason(cluster: Cluster, name: str) -> str:
    statuses = cluster.pods()[name]["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def until_event(cluster: Cluster, name: str, text: str) -> None:
    """Wait for an event of the object: events follow the status."""
    until(
        lambda: any(text in event for event in cluster.events(name=name)), f"an event of {name} with {text!r}"
    )


def test_a_command_that_does_not_exist(cluster: Cluster) -> None:
    spec = replica("")
    spec["template"]["spec"]["containers"][0]["command"] = ["/no/such/program", "--epochs=1"]
    cluster.apply(job("missing", spec))
    cluster.until_condition("missing", "Failed")
    terminated = cluster.pods()["missing-master-0"]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 127
    assert "/no/such/program" in terminated["message"]
    until_event(cluster, "missing-master-0", "/no/such/program")
    assert "/no/such/program" in cluster.kubectl("describe", "pod", "missing-master-0").ok()


def test_no_command_for_an_image_that_nobody_registered(cluster: Cluster) -> None:
    obj = pod("bare", "")
    del obj["spec"]["containers"][0]["command"]
    cluster.apply(obj)
    until(
        lambda: waiting_reason(cluster, "bare") == "CreateContainerError", "bare waits, CreateContainerError"
    )
    assert "CreateContainerError" in cluster.kubectl("get", "pod", "bare").ok()
    until_event(cluster, "bare", "no command specified")
    described = cluster.kubectl("describe", "pod", "bare").ok()
    assert "no command specified" in described and "trainshed image add example.com/sh:1" in described


def test_an_image_that_must_not_be_pulled(cluster: Cluster) -> None:
    cluster.apply(pod("never", "exit 0", imagePullPolicy="Never"))
    until(lambda: waiting_reason(cluster, "never") == "ErrImageNeverPull", "never waits, ErrImageNeverPull")
    until_event(cluster, "never", "is not present with pull policy of Never")


def test_a_claim_that_nothing_matches(cluster: Cluster, shared_folder: Path) -> None:
    """The claim and the pod are Pending and both say why; a volume that matches sets both free."""
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "manual",
            "selector": {"matchLabels": {"for": cluster.namespace}},
            "resources": {"requests": {"storage": "3Gi"}},
        },
    }
    user = pod("user", "ls /data")
    user["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    user["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.apply(claim, user)

    def scheduled() -> Object:
        conditions = cluster.pods()["user"]["status"].get("conditions", ())
        found: Object = next((c for c in conditions if c["type"] == "PodScheduled"), {})
        return found

    until(lambda: scheduled().get("reason") == "Unschedulable", "the pod is Unschedulable")
    assert "unbound immediate PersistentVolumeClaims" in scheduled()["message"]
    until(lambda: cluster.events(name="data"), "an event on the claim")
    assert (
        "manual" in cluster.events(name="data")[0]
        or "no persistent volumes" in cluster.events(name="data")[0]
    )
    assert "Pending" in cluster.kubectl("get", "pvc", "data").ok()
    described = cluster.kubectl("describe", "pod", "user").ok()
    assert "FailedScheduling" in described

    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": cluster.namespace, "labels": {"for": cluster.namespace}},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "manual",
            "hostPath": {"path": str(shared_folder)},
        },
    }
    (shared_folder / "found").touch()
    cluster.apply(volume)
    cluster.until_phase("Succeeded", "user")
    assert cluster.logs("user") == ["found"]
    cluster.kubectl("delete", "pod/user", "pvc/data").ok()
    cluster.kubectl("delete", "pv", cluster.namespace).ok()
