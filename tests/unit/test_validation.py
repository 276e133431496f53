"""Built-in kinds other than pods: rules, texts, and the fields that may not change."""

import copy

import pytest

from trainshed.kube.builtin.batch import job as jobs
from trainshed.kube.builtin.registry import default_object, validate_object
from trainshed.kube.meta import resources as r

BUDGETS = r.Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")

POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
MOUNTED = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
MOUNTING = {**TEMPLATE, "spec": {"containers": [MOUNTED]}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
OWN_CLAIM = {"metadata": {"name": "data"}, "spec": CLAIM_SPEC}
SELECTOR = {"matchLabels": {"a": "b"}}
JOB_TEMPLATE = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}


def make(resource, **fields):
    meta = {"name": "x", "uid": "u", **({"namespace": "ns"} if resource.namespaced else {})}
    return default_object(resource, copy.deepcopy({"kind": resource.kind, "metadata": meta, **fields}))


def texts(resource, obj, old=None, **more):
    return [f"{c.field}: {c.message}" for c in validate_object(resource, obj, old, **more)]


VALID = [
    (r.DEPLOYMENTS, {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    *(
        (
            r.DEPLOYMENTS,
            {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"rollingUpdate": one}}},
        )
        for one in ({"maxUnavailable": 0, "maxSurge": 1}, {"maxUnavailable": "1%", "maxSurge": "0%"})
    ),
    (r.REPLICASETS, {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (r.STATEFULSETS, {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}}),
    (
        r.STATEFULSETS,
        {"spec": {"selector": SELECTOR, "template": MOUNTING, "volumeClaimTemplates": [OWN_CLAIM]}},
    ),
    (r.JOBS, {"spec": {"template": JOB_TEMPLATE}}),
    (r.CRONJOBS, {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}}),
    (r.SERVICES, {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    (r.SERVICES, {"spec": {"clusterIP": "None"}}),
    (r.SERVICES, {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
    (r.CONFIGMAPS, {"data": {"a": "b"}}),
    (r.SECRETS, {"stringData": {"a": "b"}}),
    (r.NAMESPACES, {}),
    (
        r.PERSISTENTVOLUMECLAIMS,
        {"spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    (
        r.PERSISTENTVOLUMES,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/x"},
            }
        },
    ),
    (r.STORAGECLASSES, {"provisioner": "example.com/x"}),
    (r.ROLES, {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    (r.CLUSTERROLES, {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}),
    (
        r.ROLEBINDINGS,
        {
            "roleRef": {"kind": "Role", "name": "x"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "ServiceAccount", "name": "of-the-same-namespace"},
            ],
        },
    ),
    (r.LEASES, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
    (r.PRIORITYCLASSES, {"value": 5}),
    (r.ENDPOINTSLICES, {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
    (
        r.HORIZONTALPODAUTOSCALERS,
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "PyTorchJob", "name": "j"}}},
    ),
    (r.NODES, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    (r.EVENTS, {"involvedObject": {"namespace": "ns", "kind": "Pod", "name": "p"}}),
    (BUDGETS, {"spec": {"minAvailable": 1, "selector": SELECTOR}}),
    (r.SERVICEACCOUNTS, {}),
]


@pytest.mark.parametrize(("resource", "fields"), VALID, ids=lambda value: getattr(value, "kind", ""))
def test_valid_objects(resource, fields):
    obj = make(resource, **fields)
    assert texts(resource, obj) == []
    assert texts(resource, obj, copy.deepcopy(obj)) == []


HOOK = {
    "name": "a.example.com",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://example.com/"},
}
INVALID = [
    (
        r.VALIDATINGWEBHOOKS,
        {"webhooks": [HOOK, {**HOOK, "name": "b.example.com"}, HOOK]},
        'webhooks[2].name: Duplicate value: "a.example.com"',
    ),
    (
        r.DEPLOYMENTS,
        {"spec": {"selector": SELECTOR, "template": {**TEMPLATE, "metadata": {"labels": {"c": "d"}}}}},
        'spec.template.metadata.labels: Invalid value: map[string]string{"c":"d"}:'
        " `selector` does not match template `labels`",
    ),
    (
        r.RESOURCEQUOTAS,
        {
            "spec": {
                "hard": {"requests.storage": "1Gi"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["p"]}]
                },
            }
        },
        "spec.scopeSelector.matchExpressions: Invalid value: core.ScopeSelector{MatchExpressions:"
        "[]core.ScopedResourceSelectorRequirement{core.ScopedResourceSelectorRequirement{"
        'ScopeName:"PriorityClass", Operator:"In", Values:[]string{"p"}}}}: unsupported scope applied to resource',
    ),
    (r.DEPLOYMENTS, {"spec": {"template": TEMPLATE}}, "spec.selector: Required value"),
    (r.DEPLOYMENTS, {"spec": {"selector": SELECTOR}}, "spec.template: Required value"),
    (
        r.DEPLOYMENTS,
        {"spec": {"selector": {}, "template": TEMPLATE}},
        "spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string(nil), ",
    ),
    (
        r.DEPLOYMENTS,
        {
            "spec": {
                "selector": SELECTOR,
                "template": {**TEMPLATE, "spec": {**POD_SPEC, "restartPolicy": "Never"}},
            }
        },
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        r.DEPLOYMENTS,
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": -1}},
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        r.JOBS,
        {"spec": {"template": {"spec": POD_SPEC}}},
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (r.JOBS, {}, "spec.template: Required value"),
    (
        r.JOBS,
        {"spec": {"template": JOB_TEMPLATE, "completionMode": "Indexed", "parallelism": 2}},
        "spec.completions: Required value: when completion mode is Indexed",
    ),
    (
        r.CRONJOBS,
        {"spec": {"schedule": "often", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
        'spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]',
    ),
    (r.SERVICES, {}, "spec.ports: Required value"),
    (
        r.SERVICES,
        {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}},
        'spec.ports[1]: Duplicate value: core.ServicePort{Name:"", Protocol:"TCP", ',
    ),
    (
        r.SERVICES,
        {"spec": {"ports": [{"port": 80}, {"port": 81, "name": "b"}]}},
        "spec.ports[0].name: Required value",
    ),
    (r.SERVICES, {"spec": {"type": "ExternalName"}}, "spec.externalName: Required value"),
    (
        r.CONFIGMAPS,
        {"data": {"a/b": ""}},
        'data[a/b]: Invalid value: "a/b": a valid config key must consist of',
    ),
    (r.CONFIGMAPS, {"data": {"a": "x" * 1048577}}, ": Too long: may not be more than 1048576 bytes"),
    (
        r.CONFIGMAPS,
        {"data": {"a": ""}, "binaryData": {"a": ""}},
        'data[a]: Invalid value: "a": duplicate of key',
    ),
    (r.SECRETS, {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, "data[tls.key]: Required value"),
    (r.PERSISTENTVOLUMECLAIMS, {}, "spec.accessModes: Required value: at least 1 access mode is required"),
    (
        r.PERSISTENTVOLUMECLAIMS,
        {"spec": {"accessModes": ["RWX"], "resources": {"requests": {"storage": "1Gi"}}}},
        'spec.accessModes: Unsupported value: "RWX": supported values: "ReadOnlyMany", "ReadWriteMany"',
    ),
    (
        r.PERSISTENTVOLUMECLAIMS,
        {"spec": {"accessModes": ["ReadWriteOnce"]}},
        "spec.resources[storage]: Required value",
    ),
    (
        r.PERSISTENTVOLUMES,
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}},
        "spec: Required value: must specify a volume type",
    ),
    (r.STORAGECLASSES, {}, "provisioner: Required value"),
    (
        r.ROLES,
        {"rules": [{"apiGroups": [""], "resources": ["x"]}]},
        "rules[0].verbs: Required value: verbs must",
    ),
    (
        r.ROLES,
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        'rules[0].nonResourceURLs: Invalid value: []string{"/x"}: namespaced rules cannot apply to non-resource URLs',
    ),
    (r.ROLEBINDINGS, {"roleRef": {"kind": "Rolle", "name": "x"}}, 'roleRef.kind: Unsupported value: "Rolle"'),
    (
        r.CLUSTERROLEBINDINGS,
        {
            "roleRef": {"kind": "ClusterRole", "name": "x"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}],
        },
        "subjects[0].namespace: Required value",
    ),
    (
        r.LEASES,
        {"spec": {"leaseDurationSeconds": 0}},
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater",
    ),
    (
        r.PRIORITYCLASSES,
        {"value": 2_000_000_000},
        "value: Forbidden: maximum allowed value of a user defined priority",
    ),
    (r.ENDPOINTSLICES, {}, "addressType: Required value"),
    (r.HORIZONTALPODAUTOSCALERS, {}, "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
    (
        r.NODES,
        {"spec": {"taints": [{"key": "k", "effect": "x"}]}},
        'metadata.taints[0].effect: Unsupported value: "x"',
    ),
    (
        r.EVENTS,
        {"involvedObject": {"namespace": "other"}},
        'involvedObject.namespace: Invalid value: "other": does',
    ),
]


@pytest.mark.parametrize(("resource", "fields", "text"), INVALID)
def test_invalid_objects(resource, fields, text):
    found = texts(resource, make(resource, **fields))
    assert len(found) >= 1 and found[0].startswith(text)


def edited(resource, fields, path, value):
    old = make(resource, **fields)
    new = copy.deepcopy(old)
    *parents, last = path.split("/")
    at = new
    for key in parents:
        at = at.setdefault(key, {})
    at[last] = value
    return texts(resource, new, old)


CLAIM = {"spec": CLAIM_SPEC}
DEPLOYMENT = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
JOB = {"spec": {"template": JOB_TEMPLATE, "selector": SELECTOR, "manualSelector": True}}
JOB["spec"]["template"] = {**JOB_TEMPLATE, "metadata": {"labels": {"a": "b"}}}
SERVICE = {"spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.5"}}
PV = {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}}
BINDING = {"roleRef": {"kind": "Role", "name": "x"}}


@pytest.mark.parametrize(
    ("resource", "fields", "path", "value", "text"),
    [
        (r.DEPLOYMENTS, DEPLOYMENT, "spec/replicas", 5, None),
        (
            r.DEPLOYMENTS,
            {
                "spec": {
                    "selector": SELECTOR,
                    "template": {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d"}}},
                }
            },
            "spec/selector",
            {"matchLabels": {"c": "d"}},
            'spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"c":"d"},'
            " MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: field is immutable",
        ),
        (r.STATEFULSETS, DEPLOYMENT, "spec/replicas", 5, None),
        (
            r.STATEFULSETS,
            DEPLOYMENT,
            "spec/serviceName",
            "z",
            "spec: Forbidden: updates to statefulset spec for",
        ),
        (r.JOBS, JOB, "spec/parallelism", 5, None),
        (r.JOBS, JOB, "spec/completions", 5, "spec.completions: Invalid value: 5: field is immutable"),
        (r.JOBS, JOB, "spec/template/spec/nodeSelector", {"a": "b"}, "spec.template: Invalid value: {"),
        (
            r.JOBS,
            {"spec": {**JOB["spec"], "suspend": True}},
            "spec/template/spec/nodeSelector",
            {"a": "b"},
            None,
        ),
        (r.SERVICES, SERVICE, "spec/selector", {"a": "b"}, None),
        (r.SERVICES, SERVICE, "spec/clusterIP", "10.96.0.6", "spec.clusterIPs[0]: Invalid value: "),
        (r.PERSISTENTVOLUMECLAIMS, CLAIM, "spec/volumeName", "pv", None),
        (
            r.PERSISTENTVOLUMECLAIMS,
            CLAIM,
            "spec/accessModes",
            ["ReadOnlyMany"],
            "spec: Forbidden: spec is immutable",
        ),
        (
            r.PERSISTENTVOLUMECLAIMS,
            {**CLAIM, "status": {"phase": "Bound"}},
            "spec/resources/requests/storage",
            "2Gi",
            None,
        ),
        (
            r.PERSISTENTVOLUMECLAIMS,
            {**CLAIM, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
            "spec/resources/requests/storage",
            "1Mi",
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
        ),
        (
            r.PERSISTENTVOLUMECLAIMS,
            {**CLAIM, "status": {"phase": "Bound", "capacity": {"storage": "1Ki"}}},
            "spec/resources/requests/storage",
            "1Mi",
            None,
        ),
        (r.PERSISTENTVOLUMES, PV, "spec/claimRef", {"name": "c", "namespace": "ns"}, None),
        (r.PERSISTENTVOLUMES, PV, "spec/claimRef", {"name": "c"}, None),
        (r.PERSISTENTVOLUMES, PV, "spec/hostPath/path", "/y", "spec.persistentvolumesource: Forbidden: "),
        (
            r.CONFIGMAPS,
            {"data": {"a": "b"}, "immutable": True},
            "data/a",
            "c",
            "data: Forbidden: field is",
        ),
        (
            r.CONFIGMAPS,
            {"data": {"a": "b"}, "immutable": True},
            "immutable",
            False,
            "immutable: Forbidden: field is",
        ),
        (r.CONFIGMAPS, {"data": {"a": "b"}}, "immutable", True, None),
        (r.SECRETS, {}, "type", "example.com/x", 'type: Invalid value: "example.com/x": field is immutable'),
        (
            r.STORAGECLASSES,
            {"provisioner": "a"},
            "provisioner",
            "b",
            "provisioner: Forbidden: updates to provisioner are forbidden.",
        ),
        (
            r.STORAGECLASSES,
            {"provisioner": "a"},
            "parameters",
            {"k": "v"},
            "parameters: Forbidden: updates to parameters are forbidden.",
        ),
        (r.ROLEBINDINGS, BINDING, "roleRef/name", "y", "roleRef: Invalid value: rbac.RoleRef{APIGroup:"),
        (r.PRIORITYCLASSES, {"value": 1}, "value", 2, "value: Forbidden: may not be changed in an update."),
    ],
)
def test_updates(resource, fields, path, value, text):
    found = edited(resource, fields, path, value)
    if text is None:
        assert found == []
    else:
        assert len(found) == 1 and found[0].startswith(text)


def test_a_job_gets_its_identity():
    job = make(r.JOBS, spec={"template": JOB_TEMPLATE})
    out = jobs.KIND.identify(job)
    labels = {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": "u",
        "job-name": "x",
    }
    assert out["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert out["spec"]["template"]["metadata"]["labels"] == labels
    assert out["metadata"]["labels"] == labels
    assert jobs.KIND.identify(out) == out and texts(r.JOBS, out) == []
    assert "labels" not in job["metadata"]


def test_status_writes_are_not_held_to_the_rules_of_the_spec():
    job = make(r.JOBS)
    assert texts(r.JOBS, job, job, subresource="status") == []


@pytest.mark.parametrize("resource", [r.NODES, r.PODS, r.JOBS])
@pytest.mark.parametrize("condition", [{}, {"type": ""}, {"status": "True"}])
def test_conditions_have_a_type(resource, condition):
    """The scheduler and the controllers look conditions up by it."""
    held = make(resource)
    wanted = {**held, "status": {"conditions": [{"type": "Ready", "status": "True"}, condition]}}
    found = texts(resource, wanted, held, subresource="status")
    assert found == ["status.conditions[1].type: Required value"]


@pytest.mark.parametrize(
    ("resource", "spec", "name", "expected"),
    [
        (r.DEPLOYMENTS, {"progressDeadlineSeconds": 11, "minReadySeconds": 10}, "x", []),
        (
            r.DEPLOYMENTS,
            {"progressDeadlineSeconds": 10, "minReadySeconds": 10},
            "x",
            ["spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"],
        ),
        (r.JOBS, {}, "a" * 63, []),
        (
            r.JOBS,
            {},
            "a" * 64,
            [f'metadata.name: Invalid value: "{"a" * 64}": must be no more than 63 characters'],
        ),
    ],
    ids=["a deadline later than readiness", "no later", "a name that fits a label", "a longer one"],
)
def test_where_a_bound_lies(resource, spec, name, expected):
    template = copy.deepcopy(TEMPLATE)
    whole = {"selector": SELECTOR} if resource is r.DEPLOYMENTS else {}
    if resource is r.JOBS:
        template["spec"]["restartPolicy"] = "Never"
    obj = make(resource, spec={**whole, "template": template, **spec})
    obj["metadata"]["name"] = name
    assert [text for text in texts(resource, obj) if "deadline" in text.lower() or "name" in text] == expected
