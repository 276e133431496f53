"""Sequences about who may do what: access reviews, impersonation, escalation, tokens, certificates."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    NS,
    Step,
    as_user,
    config_map,
    delete,
    get,
    merge,
    post,
    wait,
)
from trainshed.kube.meta.objects import Object

MAPS = f"{NS}/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
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


IDENTIFYING: dict[str, list[Step]] = {
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
}
