"""Requests by name of their sequence. Each sequence has a namespace of its own, and starts with nothing in it."""

from __future__ import annotations

from tests.conformance.recorded.admitting import ADMITTING
from tests.conformance.recorded.applies import APPLIES
from tests.conformance.recorded.cautioning import CAUTIONING
from tests.conformance.recorded.definitionmutations import DEFINITION_MUTATIONS
from tests.conformance.recorded.edges import EDGES
from tests.conformance.recorded.frozen import FROZEN
from tests.conformance.recorded.hooking import HOOKING
from tests.conformance.recorded.identities import IDENTIFYING
from tests.conformance.recorded.kinds import KINDS
from tests.conformance.recorded.lenientpatches import LENIENT_PATCHES
from tests.conformance.recorded.mutations import MUTATIONS
from tests.conformance.recorded.naming import NAMING
from tests.conformance.recorded.policies import POLICING
from tests.conformance.recorded.questions import QUESTIONS
from tests.conformance.recorded.reading import READING
from tests.conformance.recorded.resizing import RESIZING
from tests.conformance.recorded.serviceports import SERVICE_PORTS
from tests.conformance.recorded.steps import (
    A_CRD,
    APPS,
    BATCH,
    CRDS,
    NS,
    PARTIAL,
    TABLE,
    WIDGETS,
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
    probe,
    put,
    rules,
    service,
    strategic,
    widget,
)
from tests.conformance.recorded.storedkinds import STORED
from tests.conformance.recorded.typedrules import TYPED_RULES
from trainshed.kube.meta.objects import Object

BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "plain"},
    "target": {"kind": "Node", "name": "n"},
}
BAD_PODS: dict[str, Object] = {
    "no containers": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": []},
    },
    "upper case": pod("Upper"),
    "no image": pod("p", container={"image": ""}),
    "twice": pod("p", {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]}),
    "policy": pod("p", {"restartPolicy": "Sometimes"}),
    "pull": pod("p", container={"imagePullPolicy": "Often"}),
    "dns": pod("p", {"dnsPolicy": "None"}),
    "port": pod("p", container={"ports": [{"containerPort": 70000}]}),
    "port name": pod("p", container={"ports": [{"containerPort": 1, "name": "UPPER_CASE"}]}),
    "env name": pod("p", container={"env": [{"name": "a b", "value": "c"}]}),
    "two sources": pod(
        "p",
        container={
            "env": [{"name": "a", "value": "c", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        },
    ),
    "field path": pod(
        "p", container={"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nothing"}}}]}
    ),
    "mount without volume": pod("p", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
    "same path twice": pod(
        "p",
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]},
    ),
    "volume without source": pod("p", {"volumes": [{"name": "v"}]}),
    "two volume sources": pod("p", {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
    "request above limit": pod(
        "p", container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    ),
    "quantity": pod("p", container={"resources": {"requests": {"cpu": "much"}}}),
    "negative": pod("p", container={"resources": {"requests": {"memory": "-1"}}}),
    "gpu request": pod("p", container={"resources": {"requests": {"nvidia.com/gpu": "1"}}}),
    "probe": pod("p", container={"livenessProbe": {"httpGet": {"port": 0}}}),
    "probe without handler": pod("p", container={"readinessProbe": {"periodSeconds": 1}}),
    "grace": pod("p", {"terminationGracePeriodSeconds": "soon"}),
    "priority": pod("p", {"priorityClassName": "nobody"}),
    "account": pod("p", {"serviceAccountName": "nobody"}),
    "toleration": pod("p", {"tolerations": [{"operator": "Exists", "value": "x"}]}),
    "affinity": pod(
        "p",
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        },
    ),
    "host network": pod("p", {"hostNetwork": True}, {"ports": [{"containerPort": 1, "hostPort": 2}]}),
    "host alias": pod("p", {"hostAliases": [{"ip": "nowhere", "hostnames": ["a"]}]}),
    "deadline": pod("p", {"activeDeadlineSeconds": 0}),
    "label": pod("p", labels={"a": "b c"}),
    "annotation": pod("p", annotations={"a b": "c"}),
    "unknown field": pod("p", {"containerz": []}),
    "wrong type": pod("p", {"containers": "one"}),
    "sub path": pod(
        "p",
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../x"}]},
    ),
    "run as": pod("p", {"securityContext": {"runAsUser": -1}}),
    "init restart": pod("p", {"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Never"}]}),
    "topology": pod(
        "p", {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]}
    ),
}

SEQUENCES: dict[str, list[Step]] = {
    **APPLIES,
    **READING,
    **ADMITTING,
    **KINDS,
    **STORED,
    **SERVICE_PORTS,
    "resizing": RESIZING,
    "cautions": CAUTIONING,
    **NAMING,
    **IDENTIFYING,
    **HOOKING,
    **POLICING,
    **TYPED_RULES,
    **MUTATIONS,
    **DEFINITION_MUTATIONS,
    **EDGES,
    **QUESTIONS,
    **FROZEN,
    **LENIENT_PATCHES,
    "objects": [
        post(f"{NS}/configmaps", config_map("a", {"k": "v"}, labels={"app": "x"})),
        post(f"{NS}/configmaps", config_map("a")),
        get(f"{NS}/configmaps/a"),
        get(f"{NS}/configmaps/nobody"),
        put(f"{NS}/configmaps/a", config_map("a", {"k": "w"})),
        put(f"{NS}/configmaps/a", config_map("b")),
        put(f"{NS}/configmaps/a", config_map("a", resourceVersion="1")),
        put(f"{NS}/configmaps/nobody", config_map("nobody")),
        post(f"{NS}/configmaps", config_map("", generateName="g-")),
        post(f"{NS}/configmaps", config_map("B")),
        post(f"{NS}/configmaps", config_map("c", namespace="elsewhere")),
        post(f"{NS}/configmaps", config_map("c", {"bad key": "v"})),
        post(f"{NS}/configmaps", {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}}),
        post(f"{NS}/configmaps", config_map("d"), dryRun="All"),
        get(f"{NS}/configmaps/d"),
        post(f"{NS}/configmaps", config_map("d"), dryRun="Some"),
        post(f"{NS}/configmaps", {**config_map("d"), "dota": {}}, fieldValidation="Strict"),
        post(f"{NS}/configmaps", {**config_map("d"), "dota": {}}, fieldValidation="Sometimes"),
        post(f"{NS}/configmaps", {**config_map("imm"), "immutable": True}),
        merge(f"{NS}/configmaps/imm", {"data": {"a": "b"}}),
        delete(f"{NS}/configmaps/a"),
        delete(f"{NS}/configmaps/a"),
        delete(
            f"{NS}/configmaps/imm",
            {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}},
        ),
        delete(
            f"{NS}/configmaps/imm",
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Sometimes"},
        ),
        Step("PATCH", f"{NS}/configmaps/imm", {}, content_type="text/plain"),
        Step("POST", f"{NS}/configmaps/imm", {}),
        Step("PUT", f"{NS}/configmaps", {}),
        get("/api/v1/namespaces/{ns}/nothings"),
        get("/apis/nothing.example.com/v1"),
        get("/nothing"),
    ],
    "lists": [
        post(f"{NS}/configmaps", config_map("a", labels={"app": "x", "tier": "1"})),
        post(f"{NS}/configmaps", config_map("b", labels={"app": "x"})),
        post(f"{NS}/configmaps", config_map("c", labels={"app": "y"})),
        get(f"{NS}/configmaps", labelSelector="app=x"),
        get(f"{NS}/configmaps", labelSelector="app in (x,y),!tier"),
        get(f"{NS}/configmaps", labelSelector="app notin (x)"),
        get(f"{NS}/configmaps", labelSelector="a b"),
        get(f"{NS}/configmaps", fieldSelector="metadata.name=b"),
        get(f"{NS}/configmaps", fieldSelector="data.k=b"),
        get(f"{NS}/configmaps", labelSelector="app", limit="2"),
        get(f"{NS}/configmaps", limit="-1"),
        get(f"{NS}/configmaps", limit="x"),
        get(f"{NS}/configmaps", resourceVersion="0", resourceVersionMatch="Exact"),
        get(f"{NS}/configmaps", resourceVersionMatch="Exact"),
        get(f"{NS}/configmaps", resourceVersion="x"),
        get(f"{NS}/configmaps", **{"continue": "x"}),
        get(f"{NS}/configmaps", TABLE, labelSelector="app"),
        get(f"{NS}/configmaps", PARTIAL, labelSelector="app"),
        get(f"{NS}/configmaps/a", TABLE),
        delete(f"{NS}/configmaps", labelSelector="app=x"),
        get(f"{NS}/configmaps", labelSelector="app"),
    ],
    "patches": [
        post(f"{APPS}/deployments", deployment("d")),
        strategic(
            f"{APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}},
        ),
        strategic(
            f"{APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}},
        ),
        strategic(
            f"{APPS}/deployments/d",
            {
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "main", "env": [{"name": "a", "value": "1"}]}]}
                    }
                }
            },
        ),
        strategic(
            f"{APPS}/deployments/d",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "new"}, {"name": "main"}],
                            "containers": [{"name": "new", "image": "n"}],
                        }
                    }
                }
            },
        ),
        strategic(
            f"{APPS}/deployments/d", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
        ),
        strategic(f"{APPS}/deployments/d", {"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
        merge(f"{APPS}/deployments/d", {"metadata": {"labels": {"a": "b"}, "annotations": {"x": None}}}),
        merge(f"{APPS}/deployments/d", {"spec": {"replicas": -1}}),
        merge(f"{APPS}/deployments/d", {"spec": {"replicas": "two"}}),
        merge(f"{APPS}/deployments/d", []),
        json_patch(f"{APPS}/deployments/d", [{"op": "replace", "path": "/spec/replicas", "value": 3}]),
        json_patch(f"{APPS}/deployments/d", [{"op": "test", "path": "/spec/replicas", "value": 4}]),
        json_patch(f"{APPS}/deployments/d", [{"op": "remove", "path": "/spec/nothing"}]),
        json_patch(f"{APPS}/deployments/d", {"op": "remove"}),
        json_patch(f"{APPS}/deployments/d", [{"op": "add", "path": "/metadata/labels/c~1d", "value": "e"}]),
        merge(f"{APPS}/deployments/d", {"metadata": {"name": "other"}}),
        merge(f"{APPS}/deployments/d", {"metadata": {"resourceVersion": "1"}}),
        merge(f"{APPS}/deployments/nobody", {}),
        get(f"{APPS}/deployments/d/scale"),
        merge(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 5}}),
        merge(f"{APPS}/deployments/d/status", {"status": {"replicas": 1}, "spec": {"replicas": 7}}),
        get(f"{APPS}/deployments/d", TABLE),
    ],
    "pods": [
        post(f"{NS}/pods", pod("plain")),
        post(
            f"{NS}/pods",
            pod(
                "rich",
                {
                    "restartPolicy": "OnFailure",
                    "volumes": [
                        {"name": "v", "configMap": {"name": "c"}},
                        {"name": "s", "secret": {"secretName": "s"}},
                    ],
                },
                {
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                },
            ),
        ),
        strategic(f"{NS}/pods/plain", {"spec": {"containers": [{"name": "main", "image": "train:2"}]}}),
        strategic(f"{NS}/pods/plain", {"spec": {"containers": [{"name": "main", "command": ["x"]}]}}),
        strategic(f"{NS}/pods/plain", {"spec": {"activeDeadlineSeconds": 5}}),
        strategic(f"{NS}/pods/plain", {"spec": {"activeDeadlineSeconds": 9}}),
        strategic(f"{NS}/pods/plain", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        strategic(f"{NS}/pods/plain", {"spec": {"terminationGracePeriodSeconds": 1}}),
        get(f"{NS}/pods/plain", TABLE),
        get(f"{NS}/pods", TABLE),
        get(f"{NS}/pods", fieldSelector="spec.nodeName=,status.phase=Pending"),
        get(f"{NS}/pods/plain/log"),
        strategic(
            f"{NS}/pods/plain/status",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        ),
        post(f"{NS}/pods/plain/binding", BINDING),
        post(f"{NS}/pods/plain/binding", BINDING),
        post(
            f"{NS}/pods/rich/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "rich"}},
        ),
        delete(f"{NS}/pods/plain", gracePeriodSeconds="0"),
    ],
    "bad pods": [post(f"{NS}/pods", bad, dryRun="All") for bad in BAD_PODS.values()],
    "services": [
        post(f"{NS}/services", service("a", selector={"a": "b"}, ports=[{"port": 80, "targetPort": "http"}])),
        post(
            f"{NS}/services", service("headless", clusterIP="None", selector={"a": "b"}, ports=[{"port": 80}])
        ),
        post(f"{NS}/services", service("none")),
        post(f"{NS}/services", service("two", ports=[{"port": 80}, {"port": 81}])),
        post(f"{NS}/services", service("same", ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}])),
        post(f"{NS}/services", service("big", ports=[{"port": 70000}])),
        post(f"{NS}/services", service("ext", type="ExternalName", externalName="example.com")),
        post(f"{NS}/services", service("ext2", type="ExternalName")),
        post(f"{NS}/services", service("odd", type="Strange", ports=[{"port": 1}])),
        post(f"{NS}/services", service("ip", clusterIP="1.2.3.4.5", ports=[{"port": 1}])),
        post(f"{NS}/services", service("9bad", ports=[{"port": 1}])),
        merge(f"{NS}/services/a", {"spec": {"clusterIP": "10.0.0.77"}}),
        merge(f"{NS}/services/a", {"spec": {"sessionAffinity": "ClientIP"}}),
        strategic(f"{NS}/services/a", {"spec": {"ports": [{"port": 81, "name": "b"}]}}),
        get(f"{NS}/services", TABLE),
    ],
    "workloads": [
        post(f"{BATCH}/jobs", batch_job("a"), dryRun="All"),
        post(
            f"{BATCH}/jobs",
            batch_job("a", {"completionMode": "Indexed", "completions": 3, "parallelism": 2}),
            dryRun="All",
        ),
        post(f"{BATCH}/jobs", batch_job("a", {"completionMode": "Indexed"}), dryRun="All"),
        post(f"{BATCH}/jobs", batch_job("a", {"parallelism": -1}), dryRun="All"),
        post(f"{BATCH}/jobs", batch_job("a", {"backoffLimitPerIndex": 1}), dryRun="All"),
        post(f"{BATCH}/jobs", batch_job("a", {"selector": {"matchLabels": {"a": "b"}}}), dryRun="All"),
        post(
            f"{BATCH}/jobs",
            batch_job("a", {"podFailurePolicy": {"rules": [{"action": "Count"}]}}),
            dryRun="All",
        ),
        post(f"{APPS}/deployments", deployment("d", selector={"matchLabels": {"app": "e"}}), dryRun="All"),
        post(
            f"{APPS}/deployments",
            deployment("d", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            dryRun="All",
        ),
        post(
            f"{APPS}/deployments",
            deployment("d", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            dryRun="All",
        ),
        post(
            f"{APPS}/deployments",
            deployment("d", strategy={"rollingUpdate": {"maxSurge": "150%"}}),
            dryRun="All",
        ),
        post(
            f"{APPS}/statefulsets",
            {
                **deployment(
                    "s",
                    serviceName="s",
                    volumeClaimTemplates=[
                        {
                            "metadata": {"name": "v"},
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "1Gi"}},
                            },
                        }
                    ],
                ),
                "kind": "StatefulSet",
            },
        ),
        merge(f"{APPS}/statefulsets/s", {"spec": {"serviceName": "t"}}),
        post(f"{APPS}/daemonsets", {**deployment("ds"), "kind": "DaemonSet"}, dryRun="All"),
        post(
            f"{BATCH}/cronjobs",
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "c"},
                "spec": {"schedule": "* * *", "jobTemplate": {"spec": batch_job("x")["spec"]}},
            },
        ),
        post(
            f"{BATCH}/cronjobs",
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "c"},
                "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": batch_job("x")["spec"]}},
            },
        ),
        post(
            f"{NS}/persistentvolumeclaims",
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {}},
        ),
        post(
            f"{NS}/persistentvolumeclaims",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "a"},
                "spec": {"accessModes": ["Often"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        post(
            f"{NS}/persistentvolumeclaims",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "a"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        merge(f"{NS}/persistentvolumeclaims/a", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        merge(f"{NS}/persistentvolumeclaims/a", {"spec": {"accessModes": ["ReadWriteMany"]}}),
        post(
            f"{NS}/secrets",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
        ),
        merge(f"{NS}/secrets/s", {"type": "kubernetes.io/tls"}),
        post(
            f"{NS}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "t"},
                "type": "kubernetes.io/tls",
                "data": {},
            },
        ),
        post(
            f"{NS}/secrets",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "data": {"a": "!"}},
        ),
        post(
            f"{NS}/resourcequotas",
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"pods": "x"}},
            },
        ),
        post(
            f"{NS}/limitranges",
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l"},
                "spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]},
            },
        ),
    ],
    "custom resources": [
        post(CRDS, A_CRD),
        post(WIDGETS, widget("a", size=2)),
        post(WIDGETS, widget("b")),
        post(WIDGETS, widget("b", size=0)),
        post(WIDGETS, widget("b", size="2")),
        post(WIDGETS, widget("b", size=1, color="blue")),
        post(WIDGETS, widget("b", size=1, parts=[{"name": "x"}, {"name": "y"}])),
        post(WIDGETS, widget("b", size=5, parts=[{"name": "x"}, {"name": "x"}])),
        post(WIDGETS, widget("b", size=5, parts=[{"name": "long-long-long"}])),
        post(WIDGETS, widget("b", size=5, parts=[{}])),
        post(WIDGETS, widget("b", size=5, port="http", extra=1), fieldValidation="Strict"),
        post(WIDGETS, widget("b", size=5, port="http", extra=1), fieldValidation="Ignore"),
        post(WIDGETS, {**widget("c", size=5), "kind": "Gadget"}),
        merge(f"{WIDGETS}/a", {"spec": {"size": 1}}),
        merge(f"{WIDGETS}/a", {"spec": {"size": 3}, "status": {"size": 9}}),
        merge(f"{WIDGETS}/a/status", {"spec": {"size": 9}, "status": {"size": 2}}),
        strategic(f"{WIDGETS}/a", {"spec": {"size": 4}}),
        get(f"{WIDGETS}/a/scale"),
        merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 6}}),
        apply(f"{WIDGETS}/a", widget("a", size=6, parts=[{"name": "x", "count": 1}])),
        apply(f"{WIDGETS}/a", widget("a", size=6, parts=[{"name": "y"}]), "other"),
        apply(f"{WIDGETS}/a", widget("a", size=7), "other"),
        get(WIDGETS, TABLE),
        get("/apis/{ns}.example.com/v1"),
        delete(f"{WIDGETS}/b"),
        delete(f"{CRDS}/widgets.{{ns}}.example.com"),
    ],
    "definitions": [
        *probe({"type": "object"}),
        post(
            CRDS,
            crd({"type": "object", "properties": {"metadata": {"type": "object", "description": "x"}}}),
            dryRun="All",
        ),
        post(
            CRDS,
            crd(
                {
                    "type": "object",
                    "properties": {
                        "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}
                    },
                }
            ),
            dryRun="All",
        ),
        *probe({"type": "strange"}),
        *probe({"properties": {"a": {"type": "string"}}}),
        *probe(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            }
        ),
        *probe({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
        *probe({"type": "object", "properties": {"a": {"type": "string", "default": None}}}),
        *probe({"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}}),
        *probe({"type": "object", "properties": {"a": {"type": "array"}}}),
        *probe({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        *probe(
            {"type": "array", "items": {"type": "object", "properties": {}}, "x-kubernetes-list-type": "map"}
        ),
        *probe(
            {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            }
        ),
        *probe({"type": "object", "x-kubernetes-int-or-string": True}),
        *probe(
            {"type": "object"},
            additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec.a"}],
        ),
        *probe(
            {"type": "object"},
            additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".spec.a"}],
        ),
        *probe({"type": "object"}, selectableFields=[{"jsonPath": ".spec.nothing"}]),
        *probe(
            {"type": "object"},
            subresources={"scale": {"specReplicasPath": "spec.a", "statusReplicasPath": ".status.b"}},
        ),
        *probe({"type": "object"}, storage=False),
        *rules({"rule": "self.a > "}),
        *rules({"rule": "self.nothing > 1"}),
        *rules({"rule": "self.a + 1"}, properties={"a": {"type": "integer"}}),
        *rules({"rule": "self.a > 1", "message": "a\nb"}, properties={"a": {"type": "integer"}}),
        *rules(
            {"rule": "self.all(k, self[k].all(l, self[k][l] == 'x'))"},
            additionalProperties={"type": "object", "additionalProperties": {"type": "string"}},
        ),
        *rules({"rule": "self.a == oldSelf.a", "reason": "Strange"}, properties={"a": {"type": "integer"}}),
        *rules(
            {"rule": "isQuantity(self.a) && quantity(self.a).isGreaterThan(quantity('1'))"},
            properties={"a": {"type": "string", "maxLength": 9}},
        ),
        *rules(
            {"rule": "isURL(self.a) && url(self.a).getScheme() == 'https'"},
            properties={"a": {"type": "string", "maxLength": 9}},
        ),
        *rules(
            {"rule": "isIP(self.a) && ip(self.a).family() == 4"},
            properties={"a": {"type": "string", "maxLength": 40}},
        ),
        *rules(
            {"rule": "isCIDR(self.a) && cidr(self.a).containsIP('10.0.0.1')"},
            properties={"a": {"type": "string", "maxLength": 40}},
        ),
        *rules(
            {"rule": "!format.dns1123Label().validate(self.a).hasValue()"},
            properties={"a": {"type": "string", "maxLength": 40}},
        ),
        *rules({"rule": "self.?a.orValue(1) > 0"}, properties={"a": {"type": "integer"}}),
        *rules({"rule": "authorizer.path('/x').check('get').allowed()"}),
    ],
    "access": [
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "r"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            },
        ),
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "s"},
                "rules": [{"apiGroups": [""], "resources": [], "verbs": []}],
            },
        ),
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "default"}],
            },
        ),
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"}],
            },
        ),
        merge(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings/b",
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}},
        ),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}},
        ),
        post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": "system:serviceaccount:{ns}:default",
                    "resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"},
                },
            },
        ),
        post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nonsense"}},
        ),
        post(
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "l"},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 0},
            },
        ),
        post(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "p"},
                "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}},
            },
        ),
        post(
            "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "h"},
                "spec": {
                    "minReplicas": 3,
                    "maxReplicas": 2,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                },
            },
        ),
        post(
            "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "n"},
                "spec": {"podSelector": {}, "policyTypes": ["Both"]},
            },
        ),
        post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "system-x"},
                "value": 1,
            },
            dryRun="All",
        ),
        post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "x"},
                "value": 2000000000,
            },
            dryRun="All",
        ),
    ],
}
