"""Defaults per kind, pod admission, and that defaulting twice changes nothing."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.builtin.parts.pod.admission import admit_pod
from trainshed.kube.builtin.parts.pod.defaults import image_pull_policy
from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.builtin.registry import RESOURCES, default_object
from trainshed.kube.meta import resources as r
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.nodes import builtin


def pod(container=None, **spec):
    main = {"name": "c", "image": "i", **(container or {})}
    return default_object(r.PODS, {"metadata": {"name": "p"}, "spec": {"containers": [main], **spec}})


def test_pod():
    assert pod()["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "enableServiceLinks": True,
    }


def test_values_that_are_set_stay():
    spec = pod({"imagePullPolicy": "Never"}, terminationGracePeriodSeconds=0, enableServiceLinks=False)[
        "spec"
    ]
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"]) == (0, False)
    assert spec["containers"][0]["imagePullPolicy"] == "Never"


def test_a_pod_has_at_least_a_second_where_less_than_none_is_asked_for():
    assert pod(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1
    template = {"spec": {"terminationGracePeriodSeconds": -5, "containers": [{"name": "c", "image": "i"}]}}
    deployment = default_object(r.DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"template": template}})
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == -5


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/x", "Always"),
        ("localhost:5000/x:1", "IfNotPresent"),
        ("x@sha256:abc", "IfNotPresent"),
    ],
)
def test_image_pull_policy(image, policy):
    assert image_pull_policy(image) == policy


def test_container_details():
    spec = pod(
        {
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        },
        volumes=[
            {"name": "a"},
            {"name": "b", "configMap": {"name": "x"}},
            {"name": "c", "hostPath": {"path": "/x"}},
            {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
        hostNetwork=True,
    )["spec"]
    container = spec["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
        {
            "name": "d",
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                "defaultMode": 420,
            },
        },
    ]


def test_admission_of_a_pod():
    before = pod(initContainers=[{"name": "init", "image": "i"}])
    snapshot = copy.deepcopy(before)
    out = admit_pod(before, token_volume_suffix="abcde")
    assert before == snapshot
    spec = out["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    (volume,) = spec["volumes"]
    assert volume["name"] == "kube-api-access-abcde"
    assert volume["projected"]["sources"][0] == {
        "serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}
    }
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [
            {
                "name": "kube-api-access-abcde",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ]
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert out["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert admit_pod(out, token_volume_suffix="other") == out


def test_admission_adds_no_more_than_is_missing():
    wide = [{"operator": "Exists"}]
    own = {"volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}
    spec = admit_pod(pod(own, tolerations=wide), token_volume_suffix="x")["spec"]
    assert spec["tolerations"] == wide and "volumes" not in spec
    spec = admit_pod(
        pod(automountServiceAccountToken=False, serviceAccountName="me"), token_volume_suffix="x"
    )["spec"]
    assert "volumes" not in spec and spec["serviceAccount"] == "me"
    assert "priority" not in admit_pod(pod(priorityClassName="high"), token_volume_suffix="x")["spec"]


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}],
            "Guaranteed",
        ),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}], "Burstable"),
    ],
)
def test_qos(resources, qos):
    assert qos_class({"containers": [{"resources": part} for part in resources]}) == qos


def default(resource, **fields):
    return default_object(resource, fields)


def test_workloads():
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = default(r.DEPLOYMENTS, spec={"template": template})["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "serviceAccountName" not in spec["template"]["spec"]  # admission is for live pods
    assert default(r.DEPLOYMENTS, spec={"replicas": 0})["spec"]["replicas"] == 0
    assert "template" not in default(r.DEPLOYMENTS, spec={})["spec"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6}),
        ({"parallelism": 3}, {"completions": None, "parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}),
        ({"backoffLimit": 0}, {"backoffLimit": 0}),
        ({}, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}),
        ({}, {"podReplacementPolicy": "TerminatingOrFailed"}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
)
def test_jobs(spec, expected):
    out = default(r.JOBS, spec=spec)["spec"]
    assert {key: out.get(key) for key in expected} == expected


def test_service():
    spec = default(r.SERVICES, spec={"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]})["spec"]
    assert spec == {
        "ports": [
            {"port": 80, "targetPort": 80, "protocol": "TCP"},
            {"port": 81, "targetPort": "http", "protocol": "TCP"},
        ],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert default(r.SERVICES, spec={"type": "NodePort"})["spec"]["externalTrafficPolicy"] == "Cluster"


def test_small_kinds():
    secret = default(r.SECRETS, stringData={"a": "abc"}, data={"a": "old", "b": "eA=="})
    assert secret == {"type": "Opaque", "data": {"a": "YWJj", "b": "eA=="}}
    namespace = default(r.NAMESPACES, metadata={"name": "n"})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert namespace["status"] == {"phase": "Active"}
    claim = default(r.PERSISTENTVOLUMECLAIMS, metadata={}, spec={})
    assert claim["spec"]["volumeMode"] == "Filesystem" and claim["status"]["phase"] == "Pending"
    gone = {"deletionTimestamp": "2024-01-01T00:00:00Z"}
    assert default(r.PERSISTENTVOLUMECLAIMS, metadata=gone, spec={})["metadata"] == gone
    volume = default(r.PERSISTENTVOLUMES, metadata={}, spec={})
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert default(r.STORAGECLASSES) == {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    scaler = default(r.HORIZONTALPODAUTOSCALERS, spec={"maxReplicas": 2})
    assert scaler["spec"]["minReplicas"] == 1 and scaler["spec"]["metrics"][0]["resource"]["name"] == "cpu"
    binding = default(
        r.ROLEBINDINGS, roleRef={"kind": "Role"}, subjects=[{"kind": "User"}, {"kind": "ServiceAccount"}]
    )
    assert binding["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert "apiGroup" not in binding["subjects"][1]


def test_kinds_without_defaults_are_returned_as_they_are():
    obj = {"data": {"a": "b"}}
    assert default_object(r.CONFIGMAPS, obj) is obj


@pytest.mark.parametrize("info", RESOURCES, ids=lambda info: info.resource.group_resource)
def test_defaults_of_an_empty_object_fit_the_schema(info):
    """Whatever defaulting adds is a field that the kind has, with the type it has; twice adds nothing."""
    resource = info.resource
    once = default_object(resource, {"metadata": {"name": "x"}})
    schema = builtin((resource.group, resource.version, resource.kind))
    read = conform(once, schema, mode="strict", what=resource.kind, builtin=True)[0]
    assert default_object(resource, read) == once, (
        "lists that are shown as null are left out when they are read"
    )
    assert default_object(resource, once) == once


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "2Gi"]))
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={
        "image": st.sampled_from(["x", "x:1", ""]),
        "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}),
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(0, 9)}), max_size=2),
        "readinessProbe": st.fixed_dictionaries(
            {}, optional={"httpGet": st.just({"port": 1}), "periodSeconds": st.just(5)}
        ),
    },
)
VOLUMES = st.fixed_dictionaries(
    {"name": st.sampled_from("vw")},
    optional={
        "configMap": st.just({"name": "c"}),
        "hostPath": st.just({"path": "/x"}),
        "projected": st.just(
            {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": []}}]}
        ),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINERS, max_size=2),
        "initContainers": st.lists(CONTAINERS, max_size=1),
        "volumes": st.lists(VOLUMES, max_size=2),
        "hostNetwork": st.booleans(),
        "serviceAccountName": st.sampled_from(["", "me"]),
        "terminationGracePeriodSeconds": st.integers(0, 3),
    },
)
WORKLOADS = st.sampled_from([r.PODS, r.DEPLOYMENTS, r.REPLICASETS, r.JOBS])


@given(WORKLOADS, SPECS)
def test_defaulting_is_idempotent(resource, spec):
    obj = {"spec": spec} if resource == r.PODS else {"spec": {"template": {"spec": spec}}}
    snapshot = copy.deepcopy(obj)
    once = default_object(resource, obj)
    assert obj == snapshot
    assert default_object(resource, once) == once
    schema = builtin((resource.group, resource.version, resource.kind))
    assert conform(once, schema, mode="strict", what=resource.kind, builtin=True)[0] == once
