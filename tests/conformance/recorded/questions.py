"""Sequences of questions that are odd: reviews with selectors, without what they need, with a name; finalizers of one
word; who acts as a group of nobody; methods where they do not belong."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    APPS,
    JSON,
    NS,
    Step,
    as_user,
    config_map,
    get,
    merge,
    pod,
    post,
)
from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.types import MERGE

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_AUTHENTICATION = "/apis/authentication.k8s.io/v1"
_LOCAL = f"{_AUTHORIZATION}/namespaces/{{ns}}/localsubjectaccessreviews"
_NAMED = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]


def _review(kind: str, spec: Object | None, **metadata: Any) -> Step:
    group = "authentication" if kind in ("TokenReview", "SelfSubjectReview") else "authorization"
    where = _LOCAL if kind.startswith("Local") else f"/apis/{group}.k8s.io/v1/{kind.lower()}s"
    body = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "metadata": metadata}
    return post(where, body if spec is None else {**body, "spec": spec})


def _about(kind: str = "SubjectAccessReview", **resource: Any) -> Step:
    whole = {"namespace": "{ns}", "verb": "list", "resource": "pods", **resource}
    who = {} if kind.startswith("Self") else {"user": "u"}
    return _review(kind, {**who, "resourceAttributes": whole})


def _required(operator: str, *values: str, key: str = "a") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


_SELECTORS: tuple[Object, ...] = (
    {"rawSelector": "metadata.name=a"},
    {"rawSelector": "a"},
    {"rawSelector": "a=b,c!=d"},
    {"rawSelector": "a b c"},
    {"rawSelector": "a in (x"},
    {"requirements": _NAMED},
    {"rawSelector": "metadata.name=a", "requirements": _NAMED},
    {},
    {"requirements": [_required("In", "a", key="")]},
    {"requirements": [_required("Odd", "a")]},
    {"requirements": [_required("", "x")]},
    {"requirements": [_required("In")]},
    {"requirements": [_required("In"), _required("Exists", "x", key="b")]},
    {"requirements": [_required("NotIn", "x", "y")]},
    {"requirements": [_required("Exists")]},
    {"requirements": [_required("NotIn", "x"), _required("Odd")]},
    {"requirements": [_required("In", "a b", key="a b")]},
)
_PATH = {"path": "/x"}
_REVIEWS = (
    f"{_AUTHORIZATION}/subjectaccessreviews",
    f"{_AUTHORIZATION}/selfsubjectrulesreviews",
    _LOCAL,
    f"{_AUTHENTICATION}/tokenreviews",
    f"{NS}/bindings",
)


def _methods(path: str, *methods: str) -> list[Step]:
    bodied = ("POST", "PUT", "PATCH")
    return [
        Step(
            method,
            path,
            {} if method in bodied else None,
            content_type=MERGE if method == "PATCH" else JSON,
        )
        for method in methods
    ]


def _kept(path: str, kind: str, version: str, **fields: Any) -> list[Step]:
    """Return what makes an object with finalizers of one word, of none that is one, and of two that exclude."""
    whole = {"apiVersion": version, "kind": kind, **fields}
    return [
        post(path, {**whole, "metadata": {"name": "{ns}", "finalizers": list(finalizers)}}, dryRun="All")
        for finalizers in (("short",), ("short", "a b"), ("orphan", "foregroundDeletion"))
    ]


_HOOK = {"clientConfig": {"url": "https://a.b"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
_HOOKS = {"webhooks": [{"name": "a.b.c", **_HOOK}]}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}

QUESTIONS: dict[str, list[Step]] = {
    "selectors of reviews": [
        *(_about(**{field: each}) for field in ("fieldSelector", "labelSelector") for each in _SELECTORS),
        _about(fieldSelector={"rawSelector": "a b c"}, labelSelector={"rawSelector": "a in (x"}),
        _about(fieldSelector={}, labelSelector={}),
        _about("SelfSubjectAccessReview", fieldSelector={}),
        _about("LocalSubjectAccessReview", labelSelector={}),
    ],
    "odd reviews": [
        _review("SubjectAccessReview", {}),
        _review("SubjectAccessReview", {"resourceAttributes": {}, "nonResourceAttributes": _PATH}),
        _review("SubjectAccessReview", {"groups": [""], "resourceAttributes": {"verb": "get"}}),
        _review("SubjectAccessReview", {"user": "u", "nonResourceAttributes": _PATH}, namespace="other"),
        _review("SubjectAccessReview", {"user": "u", "nonResourceAttributes": _PATH}, name="x"),
        _review("SelfSubjectAccessReview", {"nonResourceAttributes": _PATH}, labels={"a": "b"}),
        _review("SelfSubjectAccessReview", {"nonResourceAttributes": _PATH}, labels={}),
        _review("LocalSubjectAccessReview", {"user": "u", "nonResourceAttributes": _PATH}),
        _review("LocalSubjectAccessReview", {"user": "u", "resourceAttributes": {"namespace": "x"}}),
        _review(
            "LocalSubjectAccessReview",
            {"resourceAttributes": {"namespace": "x"}, "nonResourceAttributes": _PATH},
        ),
        _review("LocalSubjectAccessReview", {"user": "u", "nonResourceAttributes": _PATH}, namespace="other"),
        _review("LocalSubjectAccessReview", {"user": "u", "nonResourceAttributes": _PATH}, name="x"),
        _review("TokenReview", None),
        _review("TokenReview", {}),
        _review("TokenReview", {"token": ""}),
        _review("TokenReview", {"audiences": ["a"]}),
        _review("TokenReview", {"token": "x"}, name="b", namespace="other"),
        *(
            step
            for path in _REVIEWS
            for step in _methods(f"{path}/x", "GET", "POST", "PUT", "PATCH", "DELETE")
        ),
        *(step for path in _REVIEWS for step in _methods(path, "GET", "PUT", "DELETE")),
        get(f"{_REVIEWS[0]}/x/status"),
    ],
    "short finalizers": [
        *_kept(f"{NS}/configmaps", "ConfigMap", "v1"),
        *_kept("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", "Lease", "coordination.k8s.io/v1"),
        *_kept(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            "PodDisruptionBudget",
            "policy/v1",
            spec={},
        ),
        *_kept("/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", "node.k8s.io/v1", handler="h"),
        *(
            step
            for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
            for step in _kept(
                f"{_ADMISSION}/{kind.lower()}s", kind, "admissionregistration.k8s.io/v1", **_HOOKS
            )
        ),
        *_kept(
            f"{_ADMISSION}/validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            "admissionregistration.k8s.io/v1",
            spec={"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "true"}]},
        ),
        *_kept(
            "/apis/storage.k8s.io/v1/csidrivers",
            "CSIDriver",
            "storage.k8s.io/v1",
            spec={"attachRequired": False},
        ),
        post(f"{NS}/configmaps", config_map("a")),
        merge(f"{NS}/configmaps/a", {"metadata": {"finalizers": ["short", "a b"]}}),
    ],
    "acting as nobody": [
        as_user(get(f"{NS}/configmaps"), "system:anonymous"),
        as_user(get(f"{NS}/configmaps/a"), "system:anonymous"),
        as_user(get("/metrics"), "system:anonymous"),
        as_user(get("/metrics"), "u"),
        as_user(post(f"{NS}/pods", pod("p")), "u"),
        as_user(get(f"{NS}/configmaps"), "", "g"),
        as_user(get(f"{NS}/configmaps"), "", a="b"),
    ],
    "methods of paths": [
        *_methods("/healthz", "POST", "PUT", "PATCH", "DELETE"),
        *_methods("/livez/ping", "POST", "DELETE"),
        *(
            step
            for path in ("/api", "/api/v1", "/apis/apps/v1", "/version", "/nope", f"{APPS}/deployments")
            for step in _methods(path, "PUT", "DELETE")
            if (step.method, path) != ("DELETE", f"{APPS}/deployments")
        ),
    ],
}
