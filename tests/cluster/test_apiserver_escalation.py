"""Nobody grants what they do not hold, by whatever request they write roles and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from tests.cluster.api_world import MERGE, World
from trainshed.client.asgi import AsgiTransport
from trainshed.kube.meta.objects import Object

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MINE = f"{RBAC}/namespaces/default"
GROUP = "rbac.authorization.k8s.io"
APPLY = "application/apply-patch+yaml"
WRITE = ["create", "update", "patch", "get"]
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "get"]}
MESSAGE = (
    'user "mallory" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently'
    " held:\n"
)

Attempt: TypeAlias = Callable[[World, str, Object], Coroutine[Any, Any, Object]]


def role(name: str, *rules: Object, **extra: Any) -> Object:
    return {"metadata": {"name": name}, "rules": list(rules), **extra}


def binding(name: str, kind: str, role_name: str, user: str = "mallory") -> Object:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [{"kind": "User", "name": user}],
    }


@pytest.fixture
async def mallory(world: World) -> AsyncIterator[World]:
    """A user who may write roles and bindings everywhere, and read pods."""
    writes = {
        "apiGroups": [GROUP],
        "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        "verbs": WRITE,
    }
    await world.ok("POST", f"{RBAC}/clusterroles", role("writer", writes, READ_PODS))
    await world.ok("POST", f"{RBAC}/clusterrolebindings", binding("writer", "ClusterRole", "writer"))
    user = World.__new__(World)
    user.transport = AsgiTransport(world.api, "mallory", ["devs"])
    yield user
    await user.transport.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{MINE}/rolebindings", binding("b", "ClusterRole", "cluster-admin")),
        (f"{RBAC}/clusterrolebindings", binding("b", "ClusterRole", "cluster-admin")),
    ],
)
async def test_nobody_binds_themselves_to_cluster_admin(mallory: World, path: str, body: Object) -> None:
    error = await mallory.refused(403, "POST", path, body)
    plural = path.rpartition("/")[2]
    assert error["reason"] == "Forbidden"
    assert error["message"] == (
        f'{plural}.{GROUP} "b" is forbidden: {MESSAGE}'
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )


@pytest.mark.parametrize("where", [MINE + "/roles", RBAC + "/clusterroles"])
async def test_no_request_puts_rules_in_a_role_that_its_writer_lacks(
    world: World, mallory: World, where: str
) -> None:
    shown = '{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get"]}'
    await mallory.ok("POST", where, role("r", READ_PODS))
    typed = {"apiVersion": f"{GROUP}/v1", "kind": "Role" if "namespaces" in where else "ClusterRole"}
    append = [{"op": "add", "path": "/rules/-", "value": SECRETS}]
    attempts: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", where, role("n", SECRETS), {}),
        ("PUT", f"{where}/r", role("r", SECRETS), {}),
        ("PUT", f"{where}/n", role("n", SECRETS), {}),
        ("PATCH", f"{where}/r", {"rules": [SECRETS]}, {"content_type": MERGE}),
        ("PATCH", f"{where}/r", append, {"content_type": "application/json-patch+json"}),
        (
            "PATCH",
            f"{where}/r",
            {"rules": [SECRETS]},
            {"content_type": "application/strategic-merge-patch+json"},
        ),
        (
            "PATCH",
            f"{where}/r",
            {**typed, **role("r", SECRETS)},
            {"content_type": APPLY, "fieldManager": "m", "force": "true"},
        ),
        (
            "PATCH",
            f"{where}/n",
            {**typed, **role("n", SECRETS)},
            {"content_type": APPLY, "fieldManager": "m"},
        ),
        ("POST", where, role("n", SECRETS), {"dryRun": "All"}),
    ]
    for method, path, body, options in attempts:
        error = await mallory.refused(403, method, path, body, **options)
        assert error["message"].endswith(MESSAGE + shown), (method, options)
    assert (await world.ok("GET", f"{where}/r"))["rules"] == [READ_PODS]
    await world.refused(404, "GET", f"{where}/n")


async def test_what_does_not_grant_more_is_allowed(mallory: World, world: World) -> None:
    await world.ok("POST", f"{MINE}/roles", role("secrets", SECRETS))
    finalizers = {"metadata": {"finalizers": ["x.dev/y"]}}
    await mallory.ok("PATCH", f"{MINE}/roles/secrets", finalizers, content_type=MERGE)
    await mallory.ok("POST", f"{MINE}/roles", role("pods", READ_PODS))
    await mallory.ok("POST", f"{MINE}/rolebindings", binding("pods", "Role", "pods", "bob"))
    one = {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["get"]}
    await mallory.ok("POST", f"{MINE}/roles", role("one", one))
    labels = {"metadata": {"labels": {"a": "b"}}}
    await mallory.refused(403, "PATCH", f"{MINE}/roles/secrets", labels, content_type=MERGE)
    await mallory.refused(403, "POST", f"{MINE}/rolebindings", binding("s", "Role", "secrets"))
    error = await mallory.refused(404, "POST", f"{MINE}/rolebindings", binding("s", "Role", "nope"))
    assert error["message"] == f'rolebindings.{GROUP} "nope" not found'


async def test_escalate_and_bind_are_verbs(mallory: World, world: World) -> None:
    may = [
        {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]},
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["edit"], "verbs": ["bind"]},
    ]
    await world.ok("POST", f"{MINE}/roles", role("may", *may))
    await world.ok("POST", f"{MINE}/rolebindings", binding("may", "Role", "may"))
    await mallory.ok("POST", f"{MINE}/roles", role("secrets", SECRETS))
    await mallory.ok("POST", f"{MINE}/rolebindings", binding("edit", "ClusterRole", "edit"))
    await mallory.refused(403, "POST", f"{MINE}/rolebindings", binding("admin", "ClusterRole", "admin"))
    await mallory.refused(403, "POST", f"{RBAC}/clusterroles", role("secrets", SECRETS))
    await mallory.refused(403, "POST", f"{RBAC}/clusterrolebindings", binding("e", "ClusterRole", "edit"))


async def test_a_role_that_collects_others(mallory: World, world: World) -> None:
    """Its rules are those that it collects; to have one made needs everything that it could ever collect."""
    collects = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
    labelled = role("part", SECRETS)
    labelled["metadata"]["labels"] = {"x": "y"}
    await world.ok("POST", f"{RBAC}/clusterroles", labelled)
    await world.ok("POST", f"{RBAC}/clusterroles", role("sum", aggregationRule=collects))
    error = await mallory.refused(403, "POST", f"{MINE}/rolebindings", binding("b", "ClusterRole", "sum"))
    assert error["message"].endswith('{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get"]}')
    error = await mallory.refused(403, "POST", f"{RBAC}/clusterroles", role("mine", aggregationRule=collects))
    assert error["message"] == (
        f'clusterroles.{GROUP} "mine" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    )
    await mallory.refused(
        403, "PATCH", f"{RBAC}/clusterroles/sum", {"aggregationRule": None}, content_type=MERGE
    )


async def test_the_admin_of_a_namespace_hands_out_what_admins_have(world: World) -> None:
    await world.ok("POST", f"{MINE}/rolebindings", binding("a", "ClusterRole", "admin", "ann"))
    admin = World.__new__(World)
    admin.transport = AsgiTransport(world.api, "ann")
    for name in ("view", "edit", "admin"):
        await admin.ok("POST", f"{MINE}/rolebindings", binding(name, "ClusterRole", name, "bob"))
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await admin.refused(403, "POST", f"{MINE}/roles", role("all", everything))
    await admin.transport.close()


async def test_a_cluster_admin_by_binding_grants_everything(world: World) -> None:
    await world.ok(
        "POST", f"{RBAC}/clusterrolebindings", binding("r", "ClusterRole", "cluster-admin", "root")
    )
    root = World.__new__(World)
    root.transport = AsgiTransport(world.api, "root")
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    paths = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await root.ok("POST", f"{RBAC}/clusterroles", role("all", everything, paths))
    await root.ok("POST", f"{MINE}/rolebindings", binding("b", "ClusterRole", "cluster-admin", "bob"))
    await root.transport.close()
