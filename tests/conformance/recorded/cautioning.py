"""A sequence of objects that a server takes with a warning. Answers are asked for in short, and nothing is stored but
what is updated afterwards."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from tests.conformance.recorded.steps import (
    APPS,
    BATCH,
    NS,
    PARTIAL,
    TABLE,
    Step,
    apply,
    batch_job,
    delete,
    deployment,
    merge,
    pod,
    post,
    put,
    service,
    strategic,
)
from trainshed.kube.meta.objects import Object

_BETA = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "failure-domain.beta.kubernetes.io/zone": "a",
    "failure-domain.beta.kubernetes.io/region": "b",
    "beta.kubernetes.io/instance-type": "c",
}
_OLD_NOTES = {
    "scheduler.alpha.kubernetes.io/critical-pod": "",
    "security.alpha.kubernetes.io/sysctls": "kernel.shm_rmid_forced=1",
    "security.alpha.kubernetes.io/unsafe-sysctls": "kernel.msgmax=65536",
    "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
    "container.seccomp.security.alpha.kubernetes.io/main": "runtime/default",
    "container.apparmor.security.beta.kubernetes.io/main": "runtime/default",
}


def _dry(path: str, body: Object) -> Step:
    return msgspec.structs.replace(post(path, body, dryRun="All"), accept=PARTIAL)


def _pod(spec: Object | None = None, container: Object | None = None, **metadata: Any) -> Step:
    return _dry(f"{NS}/pods", pod("warned", spec, container, **metadata))


def _volumes(*sources: Object) -> Step:
    return _pod({"volumes": [{"name": f"v{number}", **source} for number, source in enumerate(sources)]})


def _projected(*sources: Object) -> Object:
    return {"projected": {"sources": list(sources)}}


def _keys(*paths: str) -> Object:
    return {"name": "c", "items": [{"key": f"k{number}", "path": path} for number, path in enumerate(paths)]}


def _files(*paths: str) -> Object:
    return {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}} for path in paths]}


def _ports(*ports: Object, of_second: Object | None = None) -> Step:
    others = [{"name": "second", "image": "i", "ports": [of_second]}] if of_second else []
    main = {"name": "main", "image": "i", "ports": list(ports)}
    return _pod({"containers": [main, *others]})


def _env(*variables: Object) -> Step:
    return _pod(container={"env": list(variables)})


def _term(required: bool, **of_term: Any) -> Object:
    expressions = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in _BETA.items()
        if "failure" not in key
    ]
    term = {"matchExpressions": expressions, **of_term}
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}


_NAME = {"name": "A", "value": "1"}
_FROM = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
_TWICE = [_NAME, {"name": "A", "value": "2"}]
_TOKEN = {"serviceAccountToken": {"path": "t"}}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}
_WARNED = {"spec": {"containers": [{"name": "main", "image": "i", "env": _TWICE}]}}
_SELECTED = {"metadata": {"labels": {"app": "a"}}, **_WARNED}
_BY_LABEL = {"selector": {"matchLabels": {"app": "a"}}, "template": _SELECTED}
_OF_BATCH = {"spec": {**_WARNED["spec"], "restartPolicy": "Never"}}


def _object(version: str, kind: str, spec: Object | None = None, **more: Any) -> Object:
    metadata = {"name": "warned", **more.pop("metadata", {})}
    whole = {"apiVersion": version, "kind": kind, "metadata": metadata, **more}
    return whole if spec is None else {**whole, "spec": spec}


def _volume(spec: Object, **annotations: str) -> Step:
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    made = _object("v1", "PersistentVolume", whole, metadata={"name": "{ns}", "annotations": annotations})
    return _dry("/api/v1/persistentvolumes", made)


def _claim(spec: Object, **annotations: str) -> Step:
    made = _object("v1", "PersistentVolumeClaim", spec, metadata={"annotations": annotations})
    return _dry(f"{NS}/persistentvolumeclaims", made)


def _secret(kind: str, **data: str) -> Step:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return _dry(
        f"{NS}/secrets",
        _object("v1", "Secret", type=kind, data={k.replace("_", "."): v for k, v in encoded.items()}),
    )


def _service(**spec: Any) -> Step:
    return _dry(f"{NS}/services", service("warned", **{"ports": [{"port": 80}], **spec}))


_RULE = {
    "http": {
        "paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 1}}}}
        ]
    }
}
_INGRESSES = "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses"
_BACKEND = {"hostPath": {"path": "/x"}}

_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
_KEY, _CERTIFICATE, _OTHER = (
    f"-----BEGIN {kind}-----\nMIGH\n-----END {kind}-----\n"
    for kind in ("PRIVATE KEY", "CERTIFICATE", "OTHER")
)


def _slice(kind: str, address: str) -> Object:
    made = _object("discovery.k8s.io/v1", "EndpointSlice", addressType=kind)
    return {**made, "endpoints": [{"addresses": [address]}]}


CAUTIONING: list[Step] = [
    # Labels that nodes had once.
    _pod({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
    _pod({"nodeSelector": {"failure-domain.beta.kubernetes.io/zone": "a"}}),
    _pod({"affinity": {"nodeAffinity": _term(True)}}),
    _pod({"affinity": {"nodeAffinity": _term(False)}}),
    _pod(
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for key in _BETA
            ]
        }
    ),
    # What is of no use.
    *(_pod(annotations={key: value}) for key, value in _OLD_NOTES.items()),
    _pod(
        {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
        annotations={"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"},
    ),
    _pod(
        container={"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
        annotations={"container.seccomp.security.alpha.kubernetes.io/main": "runtime/default"},
    ),
    _pod(
        {
            "hostAliases": [
                {"ip": "1.1.1.1", "hostnames": ["a"]},
                {"ip": "1.1.1.1", "hostnames": ["b"]},
                {"ip": "1.1.1.1", "hostnames": ["c"]},
            ]
        }
    ),
    _pod({"imagePullSecrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
    _pod({"imagePullSecrets": [{}]}),
    _pod({"imagePullSecrets": [{}, {"name": "a"}, {}]}),
    _pod({"terminationGracePeriodSeconds": -1}),
    _pod(
        {
            "affinity": {
                kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}
                for kind in ("podAffinity", "podAntiAffinity")
            }
        }
    ),
    _pod(
        {
            "affinity": {
                kind: {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "k"}}
                    ]
                }
                for kind in ("podAffinity", "podAntiAffinity")
            }
        }
    ),
    # Amounts of bytes.
    *(
        _pod(container={"resources": {part: {name: "1500m"}}})
        for part in ("requests", "limits")
        for name in ("memory", "ephemeral-storage", "hugepages-2Mi", "cpu")
    ),
    _pod({"initContainers": [{"name": "first", "image": "i", "resources": {"requests": {"memory": "0.5"}}}]}),
    _pod(container={"resources": {"requests": {"memory": "1.5Ki"}, "limits": {"memory": "10000000u"}}}),
    _pod({"resources": {"requests": {"memory": "1500m"}}}),
    # Variables.
    _env(_NAME, _NAME),
    _env(_NAME, {"name": "A", "value": "2"}, {"name": "A", "value": "3"}),
    _env(_NAME, {"name": "A", "value": "$(A)2"}),
    _env(_NAME, {"name": "A", "value": "$(A)"}),
    _env(_NAME, _FROM),
    _env(_NAME, {"name": "A"}),
    _env(_NAME, {"name": "A", "value": "x$$(A)"}),
    _pod({"initContainers": [{"name": "first", "image": "i", "env": _TWICE}]}),
    # Ports.
    _ports({"containerPort": 80}, {"containerPort": 80}),
    _ports({"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}),
    _ports({"containerPort": 80}, of_second={"containerPort": 80}),
    _ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80}),
    _ports({"containerPort": 80, "hostPort": 80}, of_second={"containerPort": 80}),
    _ports(
        {"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}
    ),
    _ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 81}),
    _ports({"containerPort": 80, "hostIP": "127.0.0.1"}),
    _ports({"containerPort": 80, "hostIP": "127.0.0.1", "name": "web", "protocol": "UDP"}),
    _ports({"containerPort": 80}, {"containerPort": 80}, {"containerPort": 80}),
    # Volumes.
    _volumes({"gitRepo": {"repository": "r"}}),
    _volumes({"glusterfs": {"endpoints": "e", "path": "p"}}),
    _volumes({"cephfs": {"monitors": ["m"]}}),
    _volumes({"rbd": {"monitors": ["m"], "image": "i"}}),
    _volumes({"flocker": {"datasetName": "d"}}),
    _volumes({"storageos": {"volumeName": "v"}}),
    _volumes({"quobyte": {"registry": "r:1", "volume": "v"}}),
    _volumes({"scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}}),
    _volumes({"photonPersistentDisk": {"pdID": "p"}}),
    _volumes({"ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}),
    _volumes({"configMap": _keys("a", "a")}),
    _volumes({"configMap": _keys("a", "a/b")}),
    _volumes({"configMap": _keys("a/b", "a")}),
    _volumes({"configMap": _keys("a", "ab")}),
    _volumes({"configMap": _keys("a/", "a")}),
    _volumes({"configMap": _keys("a", "b", "c")}),
    _volumes({"secret": {"secretName": "s", "items": _keys("a", "a")["items"]}}),
    _volumes({"downwardAPI": _files("a", "a")}),
    _volumes(_projected({"configMap": _keys("a", "a")})),
    _volumes(_projected({"configMap": _keys("a")}, {"secret": _keys("a")})),
    _volumes(_projected({"configMap": _keys("a")}, {"secret": _keys("a/b")})),
    _volumes(_projected(_TOKEN, {"downwardAPI": _files("t")})),
    _volumes(_projected(_TOKEN, {"configMap": _keys("t")})),
    _volumes(_projected({"configMap": _keys("t", "x")}, _TOKEN)),
    _volumes(_projected({})),
    _volumes(_projected(_TOKEN, _TOKEN), {"configMap": _keys("t")}),
    _volumes({"configMap": _keys("a")}, {"configMap": _keys("a")}),
    # Templates; the workload's own.
    _dry(f"{APPS}/deployments", _object("apps/v1", "Deployment", _BY_LABEL)),
    _dry(f"{APPS}/replicasets", _object("apps/v1", "ReplicaSet", _BY_LABEL)),
    _dry(f"{APPS}/daemonsets", _object("apps/v1", "DaemonSet", _BY_LABEL)),
    _dry(
        f"{APPS}/statefulsets",
        _object(
            "apps/v1",
            "StatefulSet",
            {
                **_BY_LABEL,
                "serviceName": "s",
                "volumeClaimTemplates": [{"metadata": {"name": "c"}, "spec": _CLAIM}],
            },
        ),
    ),
    _dry(
        f"{APPS}/statefulsets",
        _object("apps/v1", "StatefulSet", {**_BY_LABEL, "serviceName": "s", "revisionHistoryLimit": -1}),
    ),
    _dry(
        f"{NS}/replicationcontrollers",
        _object("v1", "ReplicationController", {"selector": {"app": "a"}, "template": _SELECTED}),
    ),
    _dry(f"{NS}/podtemplates", _object("v1", "PodTemplate", template=_SELECTED)),
    _dry(f"{BATCH}/jobs", _object("batch/v1", "Job", {"template": _OF_BATCH})),
    _dry(
        f"{BATCH}/jobs",
        batch_job("warned", {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}),
    ),
    _dry(
        f"{BATCH}/jobs",
        batch_job("warned", {"completionMode": "Indexed", "completions": 100_000, "parallelism": 10_000}),
    ),
    _dry(
        f"{BATCH}/cronjobs",
        _object(
            "batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _OF_BATCH}}}
        ),
    ),
    *(
        _dry(
            f"{BATCH}/cronjobs",
            _object(
                "batch/v1",
                "CronJob",
                {"schedule": f"{zone}=UTC * * * * *", "jobTemplate": {"spec": batch_job("x")["spec"]}},
            ),
        )
        for zone in ("TZ", "CRON_TZ")
    ),
    _dry(
        f"{APPS}/deployments",
        _object(
            "apps/v1",
            "Deployment",
            {
                **_BY_LABEL,
                "template": {**_SELECTED, "metadata": {"labels": {"app": "a"}, "annotations": _OLD_NOTES}},
            },
        ),
    ),
    # Changes: of a pod none are warned of, of a template those that give it a generation.
    post(f"{NS}/pods", pod("kept", container={"env": _TWICE})),
    merge(f"{NS}/pods/kept", {"metadata": {"labels": {"a": "b"}}}),
    post(f"{APPS}/deployments", deployment("kept")),
    merge(f"{APPS}/deployments/kept", {"metadata": {"labels": {"a": "b"}}}),
    strategic(
        f"{APPS}/deployments/kept",
        {"spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}},
    ),
    merge(f"{APPS}/deployments/kept", {"metadata": {"labels": {"a": "c"}}}),
    merge(f"{APPS}/deployments/kept", {"spec": {"replicas": 2}}),
    merge(f"{APPS}/deployments/kept/scale", {"spec": {"replicas": 3}}),
    merge(f"{APPS}/deployments/kept/status", {"status": {"replicas": 1}}),
    apply(
        f"{APPS}/deployments/kept", {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"paused": True}}
    ),
    post(f"{BATCH}/jobs", batch_job("kept", {"suspend": True, "template": _OF_BATCH})),
    merge(f"{BATCH}/jobs/kept", {"metadata": {"labels": {"a": "b"}}}),
    merge(f"{BATCH}/jobs/kept", {"spec": {"parallelism": 2}}),
    post(
        f"{NS}/podtemplates",
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "kept"}, "template": _SELECTED},
    ),
    merge(f"{NS}/podtemplates/kept", {"metadata": {"labels": {"a": "b"}}}),
    # Volumes and claims.
    _volume({**_BACKEND, "persistentVolumeReclaimPolicy": "Recycle"}),
    _volume(_BACKEND, **{"volume.beta.kubernetes.io/storage-class": "c"}),
    _volume(_BACKEND, **{"volume.beta.kubernetes.io/mount-options": "ro"}),
    _volume(
        {
            **_BACKEND,
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}
                            ]
                        }
                    ]
                }
            },
        }
    ),
    _volume({**_BACKEND, "capacity": {"storage": "1500m"}}),
    _volume({"glusterfs": {"endpoints": "e", "path": "p"}}),
    _volume({"cephfs": {"monitors": ["m"]}}),
    _volume({"rbd": {"monitors": ["m"], "image": "i"}}),
    _volume({"flocker": {"datasetName": "d"}}),
    _volume({"storageos": {"volumeName": "v"}}),
    _volume({"quobyte": {"registry": "r:1", "volume": "v"}}),
    _volume(
        {
            "scaleIO": {
                "gateway": "g",
                "system": "s",
                "secretRef": {"name": "s", "namespace": "n"},
                "volumeName": "v",
            }
        }
    ),
    _volume({"photonPersistentDisk": {"pdID": "p"}}),
    _claim(_CLAIM),
    _claim({**_CLAIM, "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "10500m"}}}),
    _claim(
        {**_CLAIM, "resources": {"requests": {"storage": "1Gi"}}},
        **{"volume.beta.kubernetes.io/storage-class": "c"},
    ),
    _claim(
        {**_CLAIM, "resources": {"requests": {"storage": "1Gi"}}},
        **{"volume.beta.kubernetes.io/storage-provisioner": "c"},
    ),
    # Services.
    _service(clusterIP="None"),
    _service(clusterIP="None", sessionAffinity="None"),
    _service(clusterIP="None", sessionAffinity="ClientIP"),
    _service(clusterIP="None", externalIPs=["1.2.3.4"]),
    _service(type="ExternalName", externalName="x.org", externalIPs=["1.2.3.4"]),
    _service(externalName="x.org"),
    _service(trafficDistribution="PreferClose"),
    _dry(
        f"{NS}/services",
        {
            **service("warned", ports=[{"port": 80}]),
            "metadata": {
                "name": "warned",
                "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"},
            },
        },
    ),
    _dry(
        f"{NS}/services",
        {
            **service("warned", ports=[{"port": 80}]),
            "metadata": {
                "name": "warned",
                "annotations": {"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"},
            },
        },
    ),
    _dry(
        f"{NS}/services",
        {
            **service("warned", ports=[{"port": 80}]),
            "metadata": {
                "name": "warned",
                "annotations": {"service.beta.kubernetes.io/azure-load-balancer-internal": "true"},
            },
        },
    ),
    _dry(
        f"{NS}/services",
        {
            **service("warned", ports=[{"port": 80}]),
            "metadata": {"name": "warned", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
        },
    ),
    # Ingresses, secrets, and others.
    _dry(
        _INGRESSES,
        _object(
            "networking.k8s.io/v1",
            "Ingress",
            {"rules": [_RULE]},
            metadata={"annotations": {"kubernetes.io/ingress.class": "nginx"}},
        ),
    ),
    _dry(
        _INGRESSES,
        _object(
            "networking.k8s.io/v1",
            "Ingress",
            {"rules": [{"host": "a.org", **_RULE}, {"host": "a.org", **_RULE}]},
        ),
    ),
    _secret("kubernetes.io/tls", tls_crt="x", tls_key="y"),
    _secret("kubernetes.io/tls", tls_crt="", tls_key=""),
    _dry(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            **_object("storage.k8s.io/v1", "StorageClass", provisioner="p"),
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": key, "values": ["a"]} for key in _BETA]}
            ],
        },
    ),
    _dry(
        "/apis/storage.k8s.io/v1/storageclasses",
        _object("storage.k8s.io/v1", "StorageClass", provisioner="kubernetes.io/glusterfs"),
    ),
    _dry(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            **_object("node.k8s.io/v1", "RuntimeClass", handler="h"),
            "scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
        },
    ),
    _dry(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            **_object("node.k8s.io/v1", "RuntimeClass", handler="h"),
            "overhead": {"podFixed": {"memory": "1500m"}},
        },
    ),
    _dry("/api/v1/nodes", _object("v1", "Node", {}, metadata={"name": "{ns}", "labels": _BETA})),
    _dry(
        "/api/v1/nodes",
        _object("v1", "Node", {"configSource": {}, "externalID": "x"}, metadata={"name": "{ns}"}),
    ),
    _dry(
        "/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities",
        {
            **_object("storage.k8s.io/v1", "CSIStorageCapacity", storageClassName="c"),
            "nodeTopology": {
                "matchLabels": {"beta.kubernetes.io/os": "x"},
                "matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}],
            },
        },
    ),
    _dry(
        "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        _object("policy/v1", "PodDisruptionBudget", {"minAvailable": 1}),
    ),
    _dry(
        "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        _object("policy/v1", "PodDisruptionBudget", {"minAvailable": 1, "selector": {}}),
    ),
    _dry(
        "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
        _object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "memory",
                            "target": {"type": "AverageValue", "averageValue": "1500m"},
                        },
                    }
                ],
            },
        ),
    ),
    _dry(
        "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]},
        ),
    ),
    _service(
        externalIPs=["1.2.3.4"],
        type="LoadBalancer",
        loadBalancerIP="5.6.7.8",
        loadBalancerSourceRanges=["10.0.0.1/8"],
    ),
    put(
        f"{NS}/services/none",
        service("none", ports=[{"port": 80}], clusterIP="None", sessionAffinity="ClientIP"),
    ),
    # Spellings of addresses.
    *(_service(externalIPs=[address]) for address in ("2001:DB8::0:1", "::ffff:1.2.3.4", "010.0.0.1")),
    _service(clusterIP="010.96.0.99"),
    _service(
        type="LoadBalancer",
        loadBalancerIP="010.0.0.1",
        loadBalancerSourceRanges=[
            "010.0.0.0/8",
            "2001:DB8::/32",
            "::ffff:1.2.3.4/120",
            "10.0.0.0/08",
            " 10.1.0.0/16 ",
        ],
    ),
    _pod(
        {
            "hostAliases": [{"ip": "010.0.0.1", "hostnames": ["a"]}],
            "dnsConfig": {"nameservers": ["010.0.0.1"]},
        }
    ),
    _dry(_SLICES, _slice("IPv4", "010.0.0.1")),
    _dry(_SLICES, _slice("FQDN", "a.example.org")),
    _dry(
        f"{NS}/endpoints",
        _object(
            "v1",
            "Endpoints",
            subsets=[
                {
                    "addresses": [{"ip": "010.0.0.1"}],
                    "notReadyAddresses": [{"ip": "2001:DB8::1"}],
                    "ports": [{"port": 1}],
                }
            ],
        ),
    ),
    _dry(
        "/api/v1/nodes",
        _object(
            "v1", "Node", {"podCIDR": "010.0.0.0/8", "podCIDRs": ["010.0.0.0/8"]}, metadata={"name": "{ns}"}
        ),
    ),
    # Files of TLS secrets.
    *(
        _secret("kubernetes.io/tls", tls_crt=certificate, tls_key=key)
        for certificate, key in (
            (_KEY, _KEY),
            (_OTHER, _KEY),
            (_OTHER + _KEY, _KEY),
            (_CERTIFICATE, ""),
            (_CERTIFICATE, _CERTIFICATE),
            (_CERTIFICATE, _OTHER),
            (_CERTIFICATE, _OTHER + _CERTIFICATE),
        )
    ),
    # What is refused beside.
    *(
        _pod(
            container={
                "resources": {
                    "requests": {**more, "hugepages-2Mi": amount},
                    "limits": {"hugepages-2Mi": limit},
                }
            }
        )
        for amount, limit, more in (
            ("2Mi", "2Mi", {}),
            ("2Mi", "2Mi", {"cpu": "1"}),
            ("3Mi", "3Mi", {"memory": "1"}),
            ("0", "0", {"memory": "1"}),
            ("2Mi", "4Mi", {"memory": "1"}),
        )
    ),
    *(
        _pod(container={"resources": {"requests": {"memory": "1", name: "2M"}, "limits": {name: "2M"}}})
        for name in ("hugepages-x", "hugepages-2M")
    ),
    _volumes(_projected({"downwardAPI": _files("a", "a")})),
    _volumes(_projected({"downwardAPI": _files("a")}, {"configMap": _keys("a")})),
    _volumes(_projected({"configMap": _keys("a")}, {"downwardAPI": _files("a")})),
    _volumes(
        _projected({"configMap": _keys("a")}, {"serviceAccountToken": {"path": "a"}}, {"secret": _keys("a")})
    ),
    _volumes(_projected({"configMap": _keys("a/")}, {"secret": _keys("a")})),
    *(
        _volume(source, **{"volume.beta.kubernetes.io/mount-options": "ro"})
        for source in (
            {"nfs": {"server": "s", "path": "/x"}},
            {"csi": {"driver": "d", "volumeHandle": "h"}},
            {"iscsi": {"targetPortal": "1.2.3.4:1", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}},
            {"storageos": {"volumeName": "v"}},
            {"azureFile": {"secretName": "s", "shareName": "x"}},
            {"glusterfs": {"endpoints": "e", "path": "p"}},
        )
    ),
    # Whoever writes may ask for a table, too.
    post(f"{NS}/configmaps", {"metadata": {"name": "shown"}}),
    msgspec.structs.replace(merge(f"{NS}/configmaps/shown", {"data": {"a": "b"}}), accept=TABLE),
    msgspec.structs.replace(merge(f"{NS}/configmaps/shown", {"data": {"a": "c"}}), accept="text/plain"),
    msgspec.structs.replace(delete(f"{NS}/configmaps/shown"), accept="text/plain"),
    msgspec.structs.replace(delete(f"{NS}/configmaps/shown"), accept=TABLE),
]
