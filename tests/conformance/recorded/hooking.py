"""Sequences about admission webhooks: what they answer, whom they are asked about, and in which order."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.answering import ANSWERS
from tests.conformance.recorded.steps import (
    APPS,
    CRDS,
    NS,
    Step,
    apply,
    as_user,
    config_map,
    crd,
    delete,
    deployment,
    get,
    json_patch,
    merge,
    pod,
    post,
    put,
    wait,
)
from trainshed.kube.meta.objects import Object

MAPS = f"{NS}/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = "Validating", "Mutating"
ASKED = Step("ASKED", "")
"""Its answer is what the webhooks were asked since the last."""
HERE: Object = {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}


def rule(*resources: str, **more: Any) -> Object:
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources or ("configmaps",)),
        **more,
    }


def hook(case: str, name: str = "", **spec: Any) -> Object:
    """Return a webhook at the path `case`."""
    return {
        "name": f"{name or case}.example.com",
        "clientConfig": {"url": "{hook}/" + case, "caBundle": "{ca}"},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": HERE,
        "timeoutSeconds": 10,
        **spec,
    }


def chosen(case: str, name: str = "", **spec: Any) -> Object:
    """Return a webhook for objects that name it in a label."""
    return hook(case, name, **{"objectSelector": {"matchLabels": {"case": name or case}}, **spec})


def configured(sort: str, name: str, *hooks: Object) -> Step:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{sort}WebhookConfiguration",
        "metadata": {"name": f"{{ns}}-{name}"},
        "webhooks": list(hooks),
    }
    return post(f"{HOOKS}/{sort.lower()}webhookconfigurations", body)


def gone(sort: str, *names: str) -> list[Step]:
    return [delete(f"{HOOKS}/{sort.lower()}webhookconfigurations/{{ns}}-{name}") for name in names]


def made(case: str, **query: str) -> Step:
    return post(MAPS, config_map(f"m-{case}", labels={"case": case}), **query)


SAID = [case for case in ANSWERS if not case.startswith("patch") and len(case) > 1]
PATCHED = [case for case in ANSWERS if case.startswith("patch")] + ["type-no-patch"]
WRONG = ("500", "not-json", "uid-wrong", "no-response", "deny", "302")
UNREACHED: dict[str, Object] = {
    "late": chosen("late", timeoutSeconds=1),
    "refused": chosen("allow", "refused", clientConfig={"url": "https://127.0.0.1:1/x", "caBundle": "{ca}"}),
    "stranger": chosen("allow", "stranger", clientConfig={"url": "{hook}/allow", "caBundle": "{stranger}"}),
    "service": chosen(
        "allow",
        "service",
        clientConfig={"service": {"name": "nobody", "namespace": "{ns}", "path": "/x"}, "caBundle": "{ca}"},
    ),
}


def conditioned(name: str, *expressions: str, **spec: Any) -> Object:
    conditions = [{"name": f"c{number}", "expression": text} for number, text in enumerate(expressions)]
    return chosen("deny", name, matchConditions=conditions, **spec)


CONDITIONS: dict[str, Object] = {
    "yes": conditioned("yes", "true"),
    "no": conditioned("no", "true", "false"),
    "fails": conditioned("fails", "object.data.nothing == 'x'"),
    "fails-ignored": conditioned("fails-ignored", "object.data.nothing == 'x'", failurePolicy="Ignore"),
    "fails-and-no": conditioned("fails-and-no", "object.data.nothing == 'x'", "false"),
    "two-fail": conditioned("two-fail", "object.data.nothing == 'x'", "object.none == 'x'"),
    "made": conditioned("made", "oldObject == null && request.operation == 'CREATE'"),
    "user": conditioned("user", "'system:masters' in request.userInfo.groups"),
    "may": conditioned(
        "may", "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"
    ),
    "named": conditioned("named", "request.name == 'm-named' && request.resource.resource == 'configmaps'"),
    "dry": conditioned("dry", "request.dryRun"),
}
HPA: Object = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "h"},
    "spec": {
        "maxReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    },
}
SCALERS = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"
TWO_VERSIONS = crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "gears")
TWO_VERSIONS["spec"]["versions"].append(
    {**TWO_VERSIONS["spec"]["versions"][0], "name": "v2", "storage": False}
)
GEAR = {"apiVersion": "{ns}.example.com/v2", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"x": 1}}
GEARS = "/apis/{ns}.example.com/v2/namespaces/{ns}/gears"

HOOKING: dict[str, list[Step]] = {
    "webhook answers": [
        configured(VALIDATING, "answers", *(chosen(case) for case in SAID)),
        wait(2),
        *(made(case) for case in SAID),
        *gone(VALIDATING, "answers"),
        configured(
            VALIDATING,
            "ignored",
            *(chosen(case, failurePolicy="Ignore") for case in WRONG),
            *({**each, "failurePolicy": "Ignore"} for each in UNREACHED.values()),
        ),
        wait(2),
        *(post(MAPS, config_map(f"i-{case}", labels={"case": case})) for case in (*WRONG, *UNREACHED)),
        *gone(VALIDATING, "ignored"),
        configured(VALIDATING, "unreached", *UNREACHED.values()),
        wait(2),
        *(made(case) for case in UNREACHED),
        *gone(VALIDATING, "unreached"),
    ],
    "webhook patches": [
        configured(MUTATING, "patches", *(chosen(case) for case in PATCHED)),
        wait(2),
        *(made(case, fieldValidation="Strict") for case in PATCHED if case != "patch-large"),
        post(MAPS, config_map("upd", {"x": "1"})),
        merge(f"{MAPS}/upd", {"metadata": {"labels": {"case": "patch-several"}}}),
        merge(f"{MAPS}/upd", {"metadata": {"labels": {"case": "patch-name"}}}),
        merge(f"{MAPS}/upd", {"metadata": {"labels": {"case": "patch-uid"}}}),
        merge(f"{MAPS}/upd", {"metadata": {"labels": {"case": "patch-metadata"}}}),
        delete(f"{MAPS}/upd"),
        merge(f"{MAPS}/upd", {"metadata": {"labels": {"case": "patch-empty"}}}),
        delete(f"{MAPS}/upd"),
        apply(f"{MAPS}/app", config_map("app", {"mine": "1"}, labels={"case": "patch-labels"})),
        apply(f"{MAPS}/app", config_map("app", {"mine": "2"}, labels={"case": "patch-labels"})),
        *gone(MUTATING, "patches"),
        configured(
            MUTATING,
            "ignored",
            *(chosen(case, failurePolicy="Ignore") for case in (*PATCHED, *WRONG)),
            *({**each, "failurePolicy": "Ignore"} for each in UNREACHED.values()),
        ),
        wait(2),
        *(
            post(MAPS, config_map(f"i-{case}", labels={"case": case}))
            for case in (
                "patch-not-json",
                "patch-test",
                "patch-no-type",
                "patch-type",
                "500",
                "deny",
                "refused",
            )
        ),
        *gone(MUTATING, "ignored"),
    ],
    "webhook conditions": [
        configured(VALIDATING, "conditions", *CONDITIONS.values()),
        wait(2),
        *(made(case) for case in CONDITIONS),
        made("dry", dryRun="All"),
        as_user(made("may"), "jane", "system:masters"),
        *gone(VALIDATING, "conditions"),
        configured(
            VALIDATING,
            "selectors",
            hook("deny", "labelled", objectSelector={"matchLabels": {"a": "b"}}),
            hook("deny", "elsewhere", namespaceSelector={"matchLabels": {"no": "such"}}),
            hook(
                "deny",
                "created",
                rules=[rule(operations=["DELETE"])],
                objectSelector={"matchLabels": {"d": "x"}},
            ),
            hook("deny", "secrets", rules=[rule("secrets", apiGroups=[""], apiVersions=["v1"])]),
            hook("deny", "cluster", rules=[rule(scope="Cluster")]),
            hook("deny", "apps", rules=[rule(apiGroups=["apps"])]),
        ),
        wait(2),
        post(MAPS, config_map("one")),
        post(MAPS, config_map("two", labels={"a": "b"})),
        merge(f"{MAPS}/one", {"metadata": {"labels": {"a": "b"}}}),
        merge(f"{MAPS}/one", {"metadata": {"labels": {"d": "x"}}}),
        delete(f"{MAPS}/one"),
        delete(MAPS, labelSelector="d=x"),
        merge(f"{MAPS}/one", {"metadata": {"labels": {"d": None}}}),
        delete(f"{MAPS}/one", dryRun="All"),
        post(f"{NS}/secrets", {"metadata": {"name": "s"}}),
        *gone(VALIDATING, "selectors"),
    ],
    "webhook requests": [
        post(f"{APPS}/deployments", deployment("d")),
        post(f"{NS}/pods", pod("p")),
        post(f"{NS}/pods", pod("q")),
        post(CRDS, TWO_VERSIONS),
        post(SCALERS, HPA),
        configured(MUTATING, "all", hook("allow", rules=[rule("*/*")])),
        wait(2),
        post(MAPS, config_map("a", {"x": "1"}), fieldValidation="Warn"),
        put(f"{MAPS}/a", config_map("a", {"x": "2"})),
        merge(f"{MAPS}/a", {"data": {"x": "3"}}, dryRun="All"),
        apply(f"{MAPS}/b", config_map("b", {"x": "1"}), force="true"),
        post(MAPS, config_map("", generateName="g-"), dryRun="All"),
        ASKED,
        delete(
            f"{MAPS}/a",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Foreground",
                "dryRun": ["All"],
            },
        ),
        delete(f"{MAPS}/a", gracePeriodSeconds="0"),
        delete(f"{MAPS}/nobody"),
        delete(MAPS, fieldSelector="metadata.name=b"),
        ASKED,
        merge(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 0}}),
        merge(f"{APPS}/deployments/d/status", {"status": {"observedGeneration": 1}}),
        ASKED,
        post(
            f"{NS}/pods/p/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "p"},
                "target": {"kind": "Node", "name": "n"},
            },
        ),
        post(
            f"{NS}/pods/q/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}},
            dryRun="All",
        ),
        post(
            f"{NS}/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ),
        ASKED,
        post(f"{NS}/pods/p/exec", None, command="true", stdout="1"),
        get(f"{NS}/pods/p/attach", stdout="1"),
        get(f"{NS}/pods/p/log"),
        get(f"{NS}/pods/p/proxy/x"),
        ASKED,
        post(GEARS, GEAR),
        merge(f"{SCALERS}/h", {"spec": {"maxReplicas": 3}}),
        as_user(post(MAPS, config_map("c")), "jane", "system:masters", scopes="view"),
        merge("/api/v1/namespaces/{ns}", {"metadata": {"labels": {"extra": "x"}}}),
        json_patch(
            f"{NS}/pods/p/ephemeralcontainers",
            [{"op": "add", "path": "/spec/ephemeralContainers", "value": [{"name": "e", "image": "i"}]}],
        ),
        ASKED,
        *gone(MUTATING, "all"),
        configured(
            VALIDATING,
            "versions",
            hook("allow", rules=[rule("gears", apiGroups=["{ns}.example.com"], apiVersions=["v1"])]),
            hook(
                "deny",
                "exact",
                rules=[rule("gears", apiGroups=["{ns}.example.com"], apiVersions=["v1"])],
                matchPolicy="Exact",
            ),
            hook(
                "deny-message",
                rules=[rule("horizontalpodautoscalers", apiGroups=["autoscaling"], apiVersions=["v1"])],
            ),
            hook("deny-code", rules=[rule("deployments/scale", apiGroups=["apps"], apiVersions=["v1"])]),
            hook("deny-conflict", rules=[rule("pods/exec", operations=["CONNECT"])]),
            hook("deny-reason", rules=[rule("pods/eviction", operations=["CREATE"])]),
            hook("deny-high", rules=[rule("serviceaccounts/token", operations=["CREATE"])]),
            hook("deny-low", rules=[rule("deployments/status", operations=["UPDATE"])]),
        ),
        wait(2),
        merge(f"{GEARS}/g", {"spec": {"x": 2}}),
        merge(f"{SCALERS}/h", {"spec": {"maxReplicas": 4}}),
        merge(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 2}}),
        post(f"{NS}/pods/p/exec", None, command="true", stdout="1"),
        post(
            f"{NS}/pods/q/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}},
        ),
        post(
            f"{NS}/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ),
        merge(f"{APPS}/deployments/d/status", {"status": {"observedGeneration": 1}}),
        merge(f"{APPS}/deployments/d", {"spec": {"replicas": 2}}),
        ASKED,
        *gone(VALIDATING, "versions"),
        delete(f"{CRDS}/gears.{{ns}}.example.com"),
        delete(f"{NS}/pods/p", gracePeriodSeconds="0"),
    ],
    "webhook order": [
        configured(MUTATING, "2", hook("a"), hook("b", "bb", reinvocationPolicy="IfNeeded")),
        configured(MUTATING, "1", hook("c", reinvocationPolicy="IfNeeded")),
        wait(2),
        post(MAPS, config_map("one")),
        post(MAPS, config_map("two"), dryRun="All"),
        ASKED,
        *gone(MUTATING, "1", "2"),
        configured(
            MUTATING,
            "idle",
            hook("allow", reinvocationPolicy="IfNeeded"),
            hook("patch-empty", reinvocationPolicy="IfNeeded"),
            hook("patches", reinvocationPolicy="Never"),
        ),
        configured(VALIDATING, "last", hook("warn")),
        wait(2),
        post(MAPS, config_map("three")),
        merge(f"{MAPS}/three", {"data": {"more": "1"}}),
        ASKED,
        *gone(MUTATING, "idle"),
        configured(VALIDATING, "more", hook("deny-message"), hook("deny-code"), hook("500")),
        *gone(VALIDATING, "last"),
        *gone(VALIDATING, "more"),
        configured(VALIDATING, "beta", hook("answer-beta", admissionReviewVersions=["v2", "v1beta1", "v1"])),
        wait(2),
        post(MAPS, config_map("four")),
        ASKED,
        *gone(VALIDATING, "beta"),
    ],
    "webhook configurations": [
        configured(VALIDATING, "x", hook("allow", **fields))
        for fields in (
            {"name": "short"},
            {"sideEffects": "Some"},
            {"sideEffects": "Unknown"},
            {"sideEffects": None},
            {"admissionReviewVersions": ["v3"]},
            {"admissionReviewVersions": []},
            {"admissionReviewVersions": ["v1", "v1"]},
            {"admissionReviewVersions": ["V1"]},
            {"timeoutSeconds": 0},
            {"timeoutSeconds": 31},
            {"failurePolicy": "Perhaps"},
            {"matchPolicy": "Near"},
            {"clientConfig": {}},
            {"clientConfig": {"url": "http://x"}},
            {"clientConfig": {"url": "https://x/?q=1"}},
            {"clientConfig": {"url": "https://u@x/#f"}},
            {"clientConfig": {"url": "https://x", "caBundle": "bm9uc2Vuc2U="}},
            {"clientConfig": {"url": "https://x", "service": {"name": "a", "namespace": "b"}}},
            {"clientConfig": {"service": {"name": "", "namespace": "b", "port": 0, "path": "x"}}},
            {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/a//b?c"}}},
            {"rules": [rule(operations=["READ"])]},
            {"rules": [rule(operations=[])]},
            {"rules": [rule(operations=["*", "CREATE"])]},
            {"rules": [rule(apiGroups=[])]},
            {"rules": [rule(apiGroups=["*", "apps"])]},
            {"rules": [rule(apiVersions=[""])]},
            {"rules": [rule("")]},
            {"rules": [rule("*", "pods")]},
            {"rules": [rule("*/*", "pods")]},
            {"rules": [rule("pods/*", "pods/exec")]},
            {"rules": [rule("*/scale", "deployments/scale")]},
            {"rules": [rule("a/b/c")]},
            {"rules": [rule(scope="Some")]},
            {"rules": [{"operations": ["CREATE"]}]},
            {"rules": []},
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            {"objectSelector": {"matchLabels": {"a b": "c"}}},
            {
                "name": "short",
                "rules": [rule(scope="Some")],
                "failurePolicy": "No",
                "matchPolicy": "No",
                "sideEffects": "No",
                "timeoutSeconds": 99,
                "namespaceSelector": {"matchLabels": {"a b": "c"}},
                "clientConfig": {},
                "matchConditions": [{"name": "", "expression": ""}],
                "admissionReviewVersions": [],
            },
            {"matchConditions": [{"name": "", "expression": ""}]},
            {"matchConditions": [{"name": "a b", "expression": "1"}]},
            {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "x"}]},
            {"matchConditions": [{"name": "a", "expression": "params.x == 1"}]},
            {"matchConditions": [{"name": "a", "expression": "namespaceObject.x == 1"}]},
            {"matchConditions": [{"name": f"a{n}", "expression": "true"} for n in range(65)]},
            {"reinvocationPolicy": "Never"},
            {},
        )
    ]
    + [
        configured(VALIDATING, "x2", hook("allow"), hook("allow")),
        configured(MUTATING, "x", hook("allow", reinvocationPolicy="Sometimes")),
        configured(MUTATING, "x", hook("allow", sideEffects="Some", failurePolicy="No")),
        configured(MUTATING, "x", hook("allow")),
        *gone(MUTATING, "x"),
        *gone(VALIDATING, "x"),
    ],
}
