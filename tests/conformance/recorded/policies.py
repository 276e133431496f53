"""Sequences about who may do what, and rules in CEL: access reviews, impersonation, tokens, certificates, admission
policies, and the typed rules of custom resources."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    CRDS,
    NS,
    Step,
    as_user,
    config_map,
    crd,
    delete,
    deployment,
    get,
    merge,
    post,
    put,
    rules,
    wait,
)
from trainshed.kube.meta.objects import Object

MAPS = f"{NS}/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
GIZMOS = "/apis/{ns}.example.com/v1/namespaces/{ns}/gizmos"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
JANE = ("jane", "devs")
CSR = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQ1l6Q0NBVXNDQVFBd0hqRU5NQXNHQTFVRUNnd0VaR1Yy"
    "Y3pFTk1Bc0dBMVVFQXd3RWFtRnVaVENDQVNJdwpEUVlKS29aSWh2Y05BUUVCQlFBRGdnRVBBRENDQVFvQ2dnRUJBTkVLc2Qv"
    "dkZvNVVOaVF4OSs4elRIaDhnaEswCm93QXhWZDQ3SUdzWjh4bTk4MnpCcEcwakdoNjc0RlRxMDdHM1ZqT3JZeXlvTWo4N01D"
    "VzZnRno4RVlnRVN1amkKSlN6dFpLak04Z2syZVFPTFRIOXRtbHF1S1JiWWVHam1FaG5hZjJUTlBDaXhUbmlaQkJVNmdGOUNm"
    "RW9udVFJawoxQlk5d2VJOC8zME5iVDduYlBTVEpnRnRMVU94Y21ubEFBdTBxL0w2MkhGcXI3Rk9RYWRmV3VVT3V0NkNHTVEx"
    "CjlGalpCcTRJK2dvRk9RZExiWWV0ZXZZTWJpRWtUajlEZEtPUzhGUThtZVBUYkh1NHc4YkQyOXg5akN3N3Q5QkQKcC9tQ0RT"
    "Z2k3QjNMenFnT0JhMFNXSUZUOFc0SDJKTERHZmZ6UjZERnhJL0tkaXRXekdBK0c2OGVvMGtDQXdFQQpBYUFBTUEwR0NTcUdT"
    "SWIzRFFFQkN3VUFBNElCQVFBNzlpaVlEbkx1N1c2OVZLSlRQcStyV2VmSDBzbi9hTElKCk1xY1JNODA3LzZwYW10RGZoMWhO"
    "K0FUVVhzL2ZEVC9OQ1l3VGZnTWxuanRDNFFHTjdTT3ZNME1uL1k4dHN2T2cKcXMwN3FRNUVUWFUveFBSVVc0MHZpQlUrSlVz"
    "dzRqWloyUXJVMHFMVFQzOVVZVVBiVmN4anFwdW1ZZXZZUFFPMgoyQTNBWXYyV3pMak8wRHZtRGRtNE1XWVJSdURwKzFFWXpX"
    "anRFS1Q2akUzT2QxcXBFeEtJY3BVU0RuTmNMdHp6CkRpeGIrcWtpR2kyWWJ0QkR1WDFMTkFIZXBoeVBDYXJqR2lkUjcrU3Av"
    "ZitzQWdKV2ZkblBZaWhiblc5RitEeEEKclNjU1pXcXpRamE3aWFYWTZmRUo0Ni9OWWRQVm9ZSGVxYWtBVFFUbDFUQ01wVWVF"
    "U2crSwotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
)


def review(kind: str, namespace: str = "", **spec: Any) -> Step:
    where = f"{REVIEWS}/namespaces/{namespace}" if namespace else REVIEWS
    metadata = {"metadata": {"namespace": namespace}} if namespace else {}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, **metadata, "spec": spec}
    return post(f"{where}/{kind.lower()}s", body)


def asked(verb: str, resource: str, group: str = "", **more: str) -> Object:
    return {
        "resourceAttributes": {
            "namespace": "{ns}",
            "verb": verb,
            "group": group,
            "resource": resource,
            **more,
        }
    }


def whoami() -> Step:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)


def token(account: str, **spec: Any) -> Step:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return post(f"{NS}/serviceaccounts/{account}/token", body)


def role(name: str, *rules: Object) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(name: str, role: str, kind: str = "Role") -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
    }


def request(name: str, **spec: Any) -> Object:
    spec = {
        "request": CSR,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        **spec,
    }
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "{ns}-" + name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def approval(name: str, kind: str, **condition: str) -> Step:
    said = {"type": kind, "status": "True", "reason": "ByHand", "message": "yes", **condition}
    return merge(f"{CSRS}/{{ns}}-{name}/approval", {"status": {"conditions": [said]}})


def policy(
    name: str, *validations: Object, resources: tuple[str, ...] = ("configmaps",), **spec: Any
) -> Object:
    rule = {
        "apiGroups": ["", "apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": list(resources),
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{{ns}}-{name}"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": list(validations), **spec},
    }


def bound(name: str, *actions: str, **spec: Any) -> Object:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{{ns}}-{name}"},
        "spec": {
            "policyName": f"{{ns}}-{name}",
            "validationActions": list(actions or ("Deny",)),
            "matchResources": {"namespaceSelector": selector},
            **spec,
        },
    }


def gone(*names: str) -> list[Step]:
    return [delete(f"{path}/{{ns}}-{name}") for name in names for path in (BINDINGS, POLICIES)]


def gizmo(name: str, **spec: Any) -> Object:
    return {"apiVersion": "{ns}.example.com/v1", "kind": "Gizmo", "metadata": {"name": name}, "spec": spec}


def probed(*validations: Object, **spec: Any) -> Step:
    return post(POLICIES, policy("probe", *validations, **spec), dryRun="All")


TEXT = {"type": "string", "maxLength": 20}
TYPED = crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "n": {
                        "type": "integer",
                        "x-kubernetes-validations": [
                            {
                                "rule": "self >= 0",
                                "messageExpression": "self == -1 ? 'minus one' : 'n is low'",
                                "reason": "FieldValueForbidden",
                            },
                            {"rule": "self >= oldSelf", "message": "n cannot shrink"},
                        ],
                    },
                    "first": {
                        **TEXT,
                        "x-kubernetes-validations": [
                            {
                                "rule": "!oldSelf.hasValue() || self == oldSelf.value()",
                                "optionalOldSelf": True,
                            }
                        ],
                    },
                    "tags": {
                        "type": "array",
                        "maxItems": 5,
                        "x-kubernetes-list-type": "set",
                        "items": TEXT,
                        "x-kubernetes-validations": [
                            {"rule": "self == ['a', 'b'] || !('x' in self)", "message": "no x but in ab"}
                        ],
                    },
                    "parts": {
                        "type": "array",
                        "maxItems": 5,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": TEXT, "size": {"type": "integer"}},
                            "x-kubernetes-validations": [
                                {
                                    "rule": "!has(oldSelf.size) || self.size >= oldSelf.size",
                                    "message": "part shrinks",
                                    "fieldPath": ".size",
                                }
                            ],
                        },
                    },
                    "limits": {
                        "type": "object",
                        "maxProperties": 4,
                        "additionalProperties": {
                            "type": "integer",
                            "x-kubernetes-validations": [
                                {"rule": "self < 10", "reason": "FieldValueDuplicate"}
                            ],
                        },
                    },
                    "port": {
                        "x-kubernetes-int-or-string": True,
                        "x-kubernetes-validations": [
                            {"rule": "self > 3 || type(self) == string", "message": "port"}
                        ],
                    },
                    "when": {
                        "type": "string",
                        "format": "date-time",
                        "x-kubernetes-validations": [{"rule": "self > timestamp('2020-01-01T00:00:00Z')"}],
                    },
                    "wait": {
                        "type": "string",
                        "format": "duration",
                        "x-kubernetes-validations": [
                            {
                                "rule": "self < duration('1h')",
                                "messageExpression": "self > duration('2h') ? 'far too long' : 'too long'",
                            }
                        ],
                    },
                    "odd": {
                        "type": "object",
                        "properties": {"a-b": TEXT, "namespace": TEXT, "int": TEXT},
                        "x-kubernetes-validations": [
                            {
                                "rule": "!has(self.a__dash__b) || self.a__dash__b == 'ok'",
                                "reason": "FieldValueRequired",
                                "fieldPath": "['a-b']",
                            },
                            {
                                "rule": "!has(self.__namespace__) || self.__namespace__ != 'no'\n",
                                "message": "word",
                            },
                        ],
                    },
                    "some": {
                        "type": "array",
                        "maxItems": 3,
                        "items": {"type": "integer"},
                        "x-kubernetes-validations": [{"rule": "self[0] == 1", "message": "first is one"}],
                    },
                },
                "x-kubernetes-validations": [
                    {
                        "rule": "!has(self.n) || !has(self.some) || self.n == self.some.size()",
                        "messageExpression": "self.n > 5 ? '' : 'n is not the count'",
                        "message": "n counts",
                    },
                ],
            }
        },
    },
    "gizmos",
)

POLICING: dict[str, list[Step]] = {
    "access reviews": [
        as_user(whoami(), *JANE),
        as_user(whoami(), "jane", "devs", scopes="view"),
        as_user(whoami(), "system:serviceaccount:{ns}:default"),
        as_user(get(MAPS), "", "devs"),
        as_user(get(MAPS), *JANE),
        as_user(post(MAPS, config_map("a")), *JANE),
        as_user(get("/api/v1/nodes"), *JANE),
        as_user(get("/apis/nothing.example.com/v1/x"), *JANE),
        as_user(get(f"{MAPS}/a"), "system:serviceaccount:{ns}:default"),
        as_user(get(f"{NS}/pods/p/log"), *JANE),
        as_user(delete(MAPS), *JANE),
        post(
            f"{RBAC}/roles",
            role(
                "r",
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": ["a"],
                    "verbs": ["get", "list"],
                },
            ),
        ),
        post(f"{RBAC}/rolebindings", binding("b", "r")),
        wait(1),
        as_user(get(f"{MAPS}/a"), *JANE),
        as_user(get(f"{MAPS}/b"), *JANE),
        as_user(get(MAPS), *JANE),
        as_user(get(MAPS, fieldSelector="metadata.name=a"), *JANE),
        as_user(
            post(
                f"{RBAC}/roles", role("more", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]})
            ),
            *JANE,
        ),
        post(
            f"{RBAC}/roles",
            role(
                "maker",
                {
                    "apiGroups": ["rbac.authorization.k8s.io"],
                    "resources": ["roles", "rolebindings"],
                    "verbs": ["create", "update"],
                },
            ),
        ),
        post(f"{RBAC}/rolebindings", binding("maker", "maker")),
        wait(1),
        as_user(
            post(
                f"{RBAC}/roles",
                role("more", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}),
            ),
            *JANE,
        ),
        as_user(post(f"{RBAC}/rolebindings", binding("more", "cluster-admin", "ClusterRole")), *JANE),
        as_user(post(f"{RBAC}/rolebindings", binding("none", "nobody")), *JANE),
        as_user(review("SelfSubjectAccessReview", **asked("get", "configmaps", name="a")), *JANE),
        as_user(review("SelfSubjectAccessReview", **asked("delete", "configmaps")), *JANE),
        as_user(
            review("SelfSubjectAccessReview", nonResourceAttributes={"path": "/healthz", "verb": "get"}),
            *JANE,
        ),
        as_user(
            post(
                f"{REVIEWS}/selfsubjectrulesreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectRulesReview",
                    "spec": {"namespace": "{ns}"},
                },
            ),
            *JANE,
        ),
        review("SubjectAccessReview", user="jane", **asked("get", "configmaps", name="a")),
        review("SubjectAccessReview", user="joe", groups=["system:masters"], **asked("*", "*", "*")),
        review("SubjectAccessReview", **asked("get", "configmaps")),
        review("SubjectAccessReview", user="joe"),
        review(
            "SubjectAccessReview",
            user="joe",
            nonResourceAttributes={"path": "/x", "verb": "get"},
            **asked("get", "pods"),
        ),
        review("LocalSubjectAccessReview", "{ns}", user="jane", **asked("get", "configmaps", name="a")),
        review(
            "LocalSubjectAccessReview",
            "{ns}",
            user="jane",
            resourceAttributes={"namespace": "other", "verb": "get"},
        ),
        review(
            "LocalSubjectAccessReview",
            "{ns}",
            user="jane",
            nonResourceAttributes={"path": "/x", "verb": "get"},
        ),
        post(
            f"{REVIEWS}/selfsubjectrulesreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {}},
        ),
        as_user(as_user(whoami(), "joe"), *JANE),
    ],
    "tokens and certificates": [
        token("default"),
        token("default", audiences=["vault"], expirationSeconds=600),
        token("default", expirationSeconds=5),
        token("default", expirationSeconds=2**33),
        token("default", boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "nobody"}),
        token("default", boundObjectRef={"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}),
        token("nobody"),
        post(f"{NS}/serviceaccounts/default/token", {"apiVersion": "v1", "kind": "Pod"}),
        post(CSRS, request("a")),
        post(CSRS, request("b", signerName="nothing")),
        post(CSRS, request("b", signerName=None)),
        post(CSRS, request("b", request="bm90aGluZw==")),
        post(CSRS, request("b", request=None)),
        post(CSRS, request("b", usages=["flying"])),
        post(CSRS, request("b", usages=[])),
        post(CSRS, request("b", expirationSeconds=5)),
        post(CSRS, request("b", signerName="example.com/own", expirationSeconds=3600)),
        merge(f"{CSRS}/{{ns}}-a", {"spec": {"usages": ["server auth"]}}),
        approval("a", "Approved"),
        approval("a", "Denied"),
        approval("b", "Approved", status="False"),
        approval("b", "Failed"),
        merge(f"{CSRS}/{{ns}}-b/status", {"status": {"certificate": "bm90aGluZw=="}}),
        get(f"{CSRS}/{{ns}}-a", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        delete(f"{CSRS}/{{ns}}-a"),
        delete(f"{CSRS}/{{ns}}-b"),
    ],
    "admission policies": [
        probed({"expression": "object.data.size() > 0"}),
        probed({"expression": "1 +"}),
        probed({"expression": "object.data.size()"}),
        probed({"expression": ""}),
        probed(),
        probed({"expression": "true", "message": "a\nb"}),
        probed({"expression": "true", "reason": "Strange"}),
        probed({"expression": "true", "messageExpression": "1"}),
        probed({"expression": "params.x == 1"}),
        probed(
            {"expression": "variables.a"},
            variables=[{"name": "a", "expression": "1"}, {"name": "a", "expression": "2"}],
        ),
        probed({"expression": "true"}, variables=[{"name": "a-b", "expression": "1"}]),
        probed(
            {"expression": "true"},
            matchConditions=[{"name": "c", "expression": "1"}, {"name": "c", "expression": "true"}],
        ),
        probed({"expression": "true"}, matchConditions=[{"name": "bad name", "expression": "x"}]),
        probed({"expression": "true"}, auditAnnotations=[{"key": "k", "valueExpression": "1"}]),
        probed({"expression": "true"}, failurePolicy="Perhaps"),
        probed({"expression": "true"}, paramKind={"apiVersion": "v1"}),
        probed({"expression": "true"}, matchConstraints={}),
        probed(
            {"expression": "object.spec.replicas > 1", "message": "m"},
            resources=("deployments", "configmaps"),
        ),
        post(BINDINGS, bound("probe", "Deny", "Warn"), dryRun="All"),
        post(BINDINGS, bound("probe", "Sometimes"), dryRun="All"),
        post(BINDINGS, bound("probe", paramRef={"name": "a"}), dryRun="All"),
        post(
            BINDINGS,
            bound("probe", paramRef={"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
            dryRun="All",
        ),
        post(
            POLICIES,
            policy(
                "plain",
                {"expression": "!has(object.data) || !('bad' in object.data)", "message": "no bad data"},
                {"expression": "object == null || object.metadata.name != 'worse'", "reason": "Forbidden"},
                {
                    "expression": "variables.size <= 2",
                    "messageExpression": "'size ' + string(variables.size) + ' in ' + namespaceObject.metadata.name",
                    "reason": "RequestEntityTooLarge",
                },
                {
                    "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'",
                    "message": "kept",
                },
                {"expression": "object == null || object.data['x'] != 'y'"},
                variables=[
                    {
                        "name": "size",
                        "expression": "object == null || !has(object.data) ? 0 : object.data.size()",
                    }
                ],
                matchConditions=[{"name": "not-free", "expression": "request.name != 'free'"}],
                failurePolicy="Fail",
            ),
        ),
        post(BINDINGS, bound("plain")),
        wait(3),
        post(MAPS, config_map("a", {"x": "1"})),
        post(MAPS, config_map("b", {"bad": "1", "x": "1"})),
        post(MAPS, config_map("worse", {"x": "1"})),
        post(MAPS, config_map("c", {"x": "1", "y": "1", "z": "1"})),
        post(MAPS, config_map("d", {"x": "y"})),
        post(MAPS, config_map("e", {"z": "y"})),
        post(MAPS, config_map("f")),
        post(MAPS, config_map("free", {"bad": "1"})),
        post(MAPS, config_map("kept", {"x": "1"}), dryRun="All"),
        post(MAPS, config_map("kept", {"x": "1"})),
        delete(f"{MAPS}/kept"),
        delete(MAPS, fieldSelector="metadata.name=kept"),
        merge(f"{MAPS}/a", {"data": {"bad": "2"}}),
        *gone("plain"),
        wait(3),
        post(MAPS, config_map("most", {"most": "1"})),
        post(POLICIES, policy("warns", {"expression": "object.metadata.name != 'w'", "message": "w is odd"})),
        post(BINDINGS, bound("warns", "Warn", "Audit")),
        post(
            POLICIES,
            policy(
                "params",
                {
                    "expression": "!has(object.data) || object.data.size() <= int(params.data.most)",
                    "messageExpression": "'at most ' + params.data.most",
                },
                paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
                matchConditions=[{"name": "c", "expression": "request.name.startsWith('p-')"}],
            ),
        ),
        post(
            BINDINGS,
            bound(
                "params", paramRef={"name": "most", "namespace": "{ns}", "parameterNotFoundAction": "Deny"}
            ),
        ),
        post(
            BINDINGS,
            bound(
                "params2",
                policyName="{ns}-params",
                paramRef={"name": "nobody", "namespace": "{ns}", "parameterNotFoundAction": "Allow"},
            ),
        ),
        post(POLICIES, policy("ignored", {"expression": "object.nothing.x == 1"}, failurePolicy="Ignore")),
        post(BINDINGS, bound("ignored")),
        post(
            POLICIES,
            policy(
                "scaled",
                {"expression": "object.spec.replicas <= 3", "message": "at most 3"},
                resources=("deployments/scale",),
            ),
        ),
        post(BINDINGS, bound("scaled")),
        wait(12),
        post(MAPS, config_map("w")),
        post(MAPS, config_map("p-a", {"x": "1"})),
        post(MAPS, config_map("p-a", {"x": "1"})),
        post(MAPS, config_map("p-b", {"x": "1", "y": "1"})),
        post("/apis/apps/v1/namespaces/{ns}/deployments", deployment("d", replicas=5)),
        merge("/apis/apps/v1/namespaces/{ns}/deployments/d/scale", {"spec": {"replicas": 4}}),
        merge("/apis/apps/v1/namespaces/{ns}/deployments/d/scale", {"spec": {"replicas": 2}}),
        post(
            BINDINGS,
            bound(
                "params3",
                policyName="{ns}-params",
                paramRef={"name": "nobody", "namespace": "{ns}", "parameterNotFoundAction": "Deny"},
            ),
        ),
        wait(3),
        post(MAPS, config_map("p-c", {"x": "1"})),
        post(MAPS, config_map("other")),
        *gone("params2", "params3", "warns", "params", "ignored", "scaled"),
    ],
    "typed rules": [
        post(CRDS, TYPED),
        post(
            GIZMOS,
            gizmo("a", n=1, first="x", tags=["b", "a"], parts=[{"name": "p", "size": 2}], limits={"k": 1}),
        ),
        post(GIZMOS, gizmo("b", n=-1)),
        post(GIZMOS, gizmo("b", tags=["x"])),
        post(GIZMOS, gizmo("b", limits={"k": 11})),
        post(GIZMOS, gizmo("b", port=1)),
        post(GIZMOS, gizmo("b", port="http")),
        post(GIZMOS, gizmo("b", when="2019-01-01T00:00:00Z")),
        post(GIZMOS, gizmo("b", when="yesterday")),
        post(GIZMOS, gizmo("b", wait="2h")),
        post(GIZMOS, gizmo("b", odd={"a-b": "no", "namespace": "no"})),
        post(GIZMOS, gizmo("b", some=[])),
        post(GIZMOS, gizmo("b", some=[2], n=7)),
        post(GIZMOS, gizmo("b", some=[1], n=3)),
        merge(f"{GIZMOS}/a", {"spec": {"n": 0}}),
        merge(f"{GIZMOS}/a", {"spec": {"first": "y"}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "q", "size": 1}, {"name": "p", "size": 1}]}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "q", "size": 1}]}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "p"}]}}),
        put(f"{GIZMOS}/a", {**gizmo("a", n=5), "metadata": {"name": "a", "resourceVersion": "{rv:17}"}}),
        put(f"{GIZMOS}/a", gizmo("a", n=5)),
        delete(f"{CRDS}/gizmos.{{ns}}.example.com"),
        *rules(
            {"rule": "self.n == 1", "messageExpression": "'n is ' + string(self.n)"},
            properties={"n": {"type": "integer"}},
        ),
        *rules({"rule": "self.n == 1 && self.n == 1.0"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n.size() > 1"}, properties={"n": {"type": "integer"}}),
        *rules(
            {"rule": "self.m.a == 1"},
            properties={"m": {"type": "object", "additionalProperties": {"type": "string"}}},
        ),
        *rules(
            {"rule": "self.l[0].x"},
            properties={"l": {"type": "array", "maxItems": 3, "items": {"type": "object"}}},
        ),
        *rules(
            {"rule": "self.l.all(x, x.startsWith('a'))"},
            properties={"l": {"type": "array", "items": {"type": "string"}}},
        ),
        *rules({"rule": "self.s.matches('(')"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == oldSelf.orValue('').s"}, properties={"s": TEXT}),
        *rules({"rule": "true", "optionalOldSelf": True}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "messageExpression": "1 + 1"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "messageExpression": "'x' +"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "fieldPath": ".nothing"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "fieldPath": "s"}, properties={"s": TEXT}),
        *rules({"rule": ""}, properties={"s": TEXT}),
        *rules(
            {"rule": "self.x.exists(a, self.x.exists(b, self.x.exists(c, a == b && b == c)))"},
            properties={"x": {"type": "array", "items": {"type": "string"}}},
        ),
        *rules({"rule": "dyn(self.n) == 'a'"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n in [1, 'a']"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "has(self.n.x)"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.map(x, x).size() > 0"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n = 1"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.metadata.name == 'x'"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "foo(self.n)"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n == quantity('1')"}, properties={"n": {"type": "integer"}}),
    ],
}
