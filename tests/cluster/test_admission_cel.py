"""ValidatingAdmissionPolicies on the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import World, config_map, open_world
from trainshed.kube.meta.objects import Object

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def enforce(world: World, *validations: Object, binding: Object | None = None, **spec: Any) -> None:
    policy = {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations), **spec}
    await world.ok(
        "POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": policy}
    )
    bound = {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}
    await world.ok(
        "POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}
    )


async def test_a_policy_denies_with_its_message(world: World) -> None:
    await enforce(
        world,
        {
            "expression": "size(object.data) <= variables.most",
            "messageExpression": "'at most ' + string(variables.most)",
        },
        variables=[{"name": "most", "expression": "1"}],
    )
    await world.ok("POST", MAPS, config_map("good", a="1"))
    refused = await world.refused(422, "POST", MAPS, config_map("bad", a="1", b="2"))
    assert refused["reason"] == "Invalid"
    assert refused["message"] == (
        "configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: at most 1"
    )


async def test_reasons_changes_and_deletions(world: World) -> None:
    await world.ok("POST", MAPS, config_map("m", a="1"))
    await enforce(
        world,
        {"expression": "request.operation != 'DELETE'", "reason": "Forbidden"},
        {
            "expression": "request.operation != 'UPDATE' || object.data == oldObject.data",
            "message": "data stays",
        },
    )
    change = {"data": {"a": "2"}}
    refused = await world.refused(
        422, "PATCH", f"{MAPS}/m", change, content_type="application/merge-patch+json"
    )
    assert refused["message"].endswith("denied request: data stays")
    kept = await world.refused(403, "DELETE", f"{MAPS}/m")
    assert kept["message"].endswith("failed expression: request.operation != 'DELETE'")


async def test_a_warning_only_warns_and_conditions_leave_requests_out(world: World) -> None:
    await enforce(
        world,
        {"expression": "false", "message": "never"},
        binding={"validationActions": ["Warn", "Audit"]},
        matchConditions=[{"name": "marked", "expression": "object.metadata.name.startsWith('x')"}],
    )
    marked = await world.raw("POST", MAPS, config_map("x"))
    assert marked.status == 201
    assert any(
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never" in t
        for t in marked.warnings
    )
    assert not (await world.raw("POST", MAPS, config_map("y"))).warnings


async def test_parameters(world: World) -> None:
    await world.ok("POST", MAPS, config_map("limits", most="1"))
    await enforce(
        world,
        {"expression": "size(object.data) <= int(params.data.most)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
    )
    await world.ok("POST", MAPS, config_map("one", a="1"))
    await world.refused(422, "POST", MAPS, config_map("two", a="1", b="2"))


async def test_an_expression_that_fails_denies_unless_failures_are_ignored(world: World) -> None:
    await enforce(world, {"expression": "object.data.nothing == '1'"})
    refused = await world.refused(422, "POST", MAPS, config_map("m"))
    assert "resulted in error" in refused["message"]
    ignore = {"spec": {"failurePolicy": "Ignore"}}
    path = f"{GROUP}/validatingadmissionpolicies/p"
    await world.ok("PATCH", path, ignore, content_type="application/merge-patch+json")
    await world.ok("POST", MAPS, config_map("m"))


async def test_wrong_policies_are_refused(world: World) -> None:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "object.x ="}]}
    refused = await world.refused(
        422, "POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
    )
    assert refused["details"]["causes"][0]["field"] == "spec.validations[0].expression"
    both = {"policyName": "p", "validationActions": ["Deny", "Warn"]}
    await world.refused(
        422, "POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": both}
    )


async def test_expressions_ask_the_authorizer(world: World) -> None:
    may = "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"
    may += " && authorizer.requestResource.check('delete').allowed()"
    other = "authorizer.serviceAccount('default', 'nobody').path('/nope').check('get').allowed()"
    rule = {"expression": other, "messageExpression": "'may not, ' + request.userInfo.username"}
    await enforce(world, rule, matchConditions=[{"name": "may", "expression": may}])
    refused = await world.refused(422, "POST", MAPS, config_map("bad"))
    assert refused["message"].endswith(": may not, tester")


async def test_what_no_expression_is_or_does_not_fit_is_refused(world: World) -> None:
    at = f"{GROUP}/validatingadmissionpolicies"
    spec: Any = {
        "matchConstraints": {"resourceRules": [RULE]},
        "variables": [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.c"}],
        "validations": [
            {"expression": "variables.a"},
            {"expression": "1 +"},
            {"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"},
            {"expression": "int('x') == 1"},
            {"expression": "params.x == 1"},
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
    }
    refused = await world.refused(422, "POST", at, {"metadata": {"name": "p"}, "spec": spec})
    said = {cause["field"]: cause["message"].partition("\n")[0] for cause in refused["details"]["causes"]}
    assert said == {
        "spec.variables[1].expression": (
            "Invalid value: \"variables.c\": compilation failed: ERROR: <input>:1:10: undefined field 'c'"
        ),
        "spec.validations[0].expression": 'Invalid value: "variables.a": must evaluate to bool but got int',
        "spec.validations[1].expression": (
            "Invalid value: \"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' "
            "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
            "BYTES, IDENTIFIER}"
        ),
        "spec.validations[2].messageExpression": (
            "Invalid value: \"authorizer.path('/').check('get').reason()\": compilation failed: "
            "ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')"
        ),
        "spec.validations[3].expression": (
            "Internal error: program instantiation failed: type conversion error from 'string' to 'int'"
        ),
        "spec.validations[4].expression": (
            'Invalid value: "params.x == 1": compilation failed: '
            "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"
        ),
        "spec.auditAnnotations[0].valueExpression": (
            'Invalid value: "1": must evaluate to one of [string null_type] but got int'
        ),
    }


async def test_a_policy_says_what_does_not_fit_the_kinds_it_is_about(world: World) -> None:
    rule = {**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}
    spec = {
        "matchConstraints": {
            "resourceRules": [
                rule,
                {**RULE, "resources": ["pods", "pods/log"]},
                {**RULE, "resources": ["pods"]},
            ]
        },
        "variables": [{"name": "v", "expression": "object.spec.nope"}],
        "validations": [
            {"expression": "object.spec.replicas <= 5"},
            {"expression": "variables.v == 1"},
            {"expression": "object.metadata.name == 1", "messageExpression": "string(object.spec.replicas)"},
            {"expression": "object.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')"},
        ],
    }
    at = f"{GROUP}/validatingadmissionpolicies"
    made = await world.ok("POST", at, {"metadata": {"name": "p"}, "spec": spec})
    assert made["status"] == {}  # the types are looked at next
    made = await world.ok("GET", f"{at}/p")
    undefined = (
        "ERROR: <input>:1:12: undefined field 'replicas'\n | object.spec.replicas <= 5\n | ...........^\n"
    )
    assert made["status"]["observedGeneration"] == 1
    said = {one["fieldRef"]: one["warning"] for one in made["status"]["typeChecking"]["expressionWarnings"]}
    assert said.pop("spec.validations[0].expression") == f"/v1, Kind=Pod: {undefined}\n"
    both = said.pop("spec.validations[2].expression")
    assert (
        both.startswith("/v1, Kind=Pod: ERROR: <input>:1:22: found no matching overload")
        and "\n\napps/v1, Kind=" in both
    )
    assert list(said) == ["spec.validations[2].messageExpression"]
    made["spec"]["validations"] = [{"expression": "object.metadata.name != ''"}]
    changed = await world.ok("PUT", f"{at}/p", made)
    assert (changed["metadata"]["generation"], changed["status"]) == (
        2,
        {"observedGeneration": 2, "typeChecking": {}},
    )
