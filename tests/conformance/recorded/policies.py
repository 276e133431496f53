"""Sequences about ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    NS,
    Step,
    config_map,
    delete,
    deployment,
    merge,
    post,
    wait,
)
from trainshed.kube.meta.objects import Object

MAPS = f"{NS}/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


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


def probed(*validations: Object, **spec: Any) -> Step:
    return post(POLICIES, policy("probe", *validations, **spec), dryRun="All")


POLICING: dict[str, list[Step]] = {
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
}
