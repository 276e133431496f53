"""Who may ask the API server what: certificates, tokens, roles."""

from __future__ import annotations

import json

import pytest

from tests.cluster.api_world import ADMIN_TOKEN, World, config_map, pod
from tests.cluster.test_apiserver_protocol import AUTHN, CMS, NS, call
from trainshed.client.asgi import AsgiTransport
from trainshed.kube.meta.objects import Object

TOKEN = f"{NS}/serviceaccounts/default/token"


async def test_who_is_who(world: World) -> None:
    """Row 130."""
    for path, status in (
        ("/api/v1/pods", 403),
        ("/api", 403),
        ("/metrics", 403),
        ("/version", 200),
        ("/version/", 200),
        ("/healthz", 200),
        ("/livez/ping", 200),
        ("/readyz", 200),
    ):
        assert (await call(world, path)).status == status, path
    denied = json.loads((await call(world, "/api/v1/pods")).body)["message"]
    assert denied == (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""'
        " at the cluster scope"
    )
    assert (await call(world, "/api/v1/pods", token="unknown")).status == 401
    assert (await call(world, "/api/v1/pods", headers={"authorization": "Basic eDp5"})).status == 401
    assert (await call(world, "/api/v1/pods", token=ADMIN_TOKEN)).status == 200


async def test_a_web_page_is_let_in_nowhere(world: World) -> None:
    """A browser sends cookies and an Origin, never our token, and shows a page nothing without its CORS headers."""
    page = {"origin": "https://evil.example", "cookie": f"token={ADMIN_TOKEN}"}
    preflight = {
        **page,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    for method, path, headers in (
        ("GET", "/api/v1/secrets", page),
        ("GET", "/version", page),
        ("POST", CMS, {**page, "content-type": "text/plain"}),
        ("OPTIONS", CMS, preflight),
    ):
        reply = await call(
            world, path, method=method, headers=headers, body=b"{}" if method == "POST" else b""
        )
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]
        assert reply.status in (401, 403, 405) or path == "/version"


async def test_a_network_client_cannot_name_itself(world: World) -> None:
    """Only the scope names a user; headers that look like it do nothing."""
    for headers in (
        {"trainshed.user": "root"},
        {"x-remote-user": "root", "x-remote-group": "system:masters"},
        {"impersonate-user": "root", "impersonate-group": "system:masters"},
    ):
        assert (await call(world, "/api/v1/secrets", headers=headers)).status == 403


async def test_service_account_tokens(world: World) -> None:
    path = f"{NS}/serviceaccounts/default/token"
    issued = (await world.ok("POST", path, {"spec": {"expirationSeconds": 600}}))["status"]
    assert issued["expirationTimestamp"] == "2027-01-15T08:10:00Z"
    token = issued["token"]
    review = await call(
        world,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        method="POST",
        body=b"{}",
        token=token,
    )
    user = json.loads(review.body)["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    good = await world.ok("POST", reviews, {"spec": {"token": token}})
    assert good["status"]["authenticated"] is True
    other = await world.ok("POST", reviews, {"spec": {"token": token, "audiences": ["vault"]}})
    assert other["status"].get("authenticated") is None
    both = await world.ok(
        "POST", reviews, {"spec": {"token": token, "audiences": ["vault", *good["status"]["audiences"]]}}
    )
    assert both["status"]["audiences"] == good["status"]["audiences"], (
        "those that it is for, of those asked for"
    )
    head, claims, signature = token.split(".")
    forged = f"{head}.{claims}.{'A' * len(signature)}"
    assert (await call(world, "/version", token=forged)).status == 401
    assert (await call(world, CMS, token=token)).status == 403
    world.now += 601
    assert (await call(world, "/version", token=token)).status == 401, "expired"
    await world.refused(422, "POST", path, {"spec": {"expirationSeconds": 10}})
    await world.refused(404, "POST", f"{NS}/serviceaccounts/nope/token", {})


async def test_a_token_bound_to_a_pod_dies_with_it(world: World) -> None:
    made = await world.ok("POST", f"{NS}/pods", pod("p"))
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"]}
    path = f"{NS}/serviceaccounts/default/token"
    issued = await world.ok("POST", path, {"spec": {"boundObjectRef": bound}})
    token = issued["status"]["token"]
    assert (await call(world, "/version", token=token)).status == 200
    await world.refused(409, "POST", path, {"spec": {"boundObjectRef": {**bound, "uid": "x"}}})
    await world.ok("DELETE", f"{NS}/pods/p")
    assert (await call(world, "/version", token=token)).status == 401


SECRET = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [("Secret", f"{NS}/secrets", SECRET), ("Node", "/api/v1/nodes", {"metadata": {"name": "s"}})],
)
async def test_a_token_bound_to_something_else_dies_with_it(
    world: World, kind: str, path: str, body: Object
) -> None:
    await world.ok("POST", path, body)
    bound = {"apiVersion": "v1", "kind": kind, "name": "s"}
    issued = await world.ok("POST", TOKEN, {"spec": {"boundObjectRef": bound}})
    token = issued["status"]["token"]
    review = await world.ok("POST", f"{AUTHN}/tokenreviews", {"spec": {"token": token}})
    extra = review["status"]["user"]["extra"]
    assert extra.get("authentication.kubernetes.io/node-name") == (["s"] if kind == "Node" else None)
    await world.ok("DELETE", f"{path}/s")
    assert (await call(world, "/version", token=token)).status == 401
    await world.ok("POST", path, body)
    assert (await call(world, "/version", token=token)).status == 401, "another one of that name"


async def test_the_token_of_a_pod_names_its_node(world: World) -> None:
    node = await world.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    await world.ok("POST", f"{NS}/pods", pod("p", nodeName="n"))
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    token = (await world.ok("POST", TOKEN, {"spec": {"boundObjectRef": bound}}))["status"]["token"]
    await world.ok("DELETE", "/api/v1/nodes/n")
    review = await world.ok("POST", f"{AUTHN}/tokenreviews", {"spec": {"token": token}})
    extra = review["status"]["user"]["extra"]
    assert extra["authentication.kubernetes.io/node-uid"] == [node["metadata"]["uid"]]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]


@pytest.mark.parametrize(
    ("account", "reference", "status", "message"),
    [
        ("default", {}, 400, "cannot bind token to object of type /, Kind="),
        ("default", {"kind": "Secret"}, 400, "Name parameter required."),
        ("default", {"kind": "Secret", "name": "x"}, 404, 'secrets "x" not found'),
        (
            "default",
            {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "other",
            {"kind": "Pod", "name": "p"},
            400,
            'cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.',
        ),
        (
            "default",
            {"kind": "Pod", "name": "p", "uid": "z"},
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (z) does not match the'
            " UID in record. The object might have been deleted and then recreated",
        ),
    ],
)
async def test_what_a_token_cannot_be_bound_to(
    world: World, account: str, reference: Object, status: int, message: str
) -> None:
    await world.ok("POST", f"{NS}/pods", pod("p"))
    await world.ok("POST", f"{NS}/serviceaccounts", {"metadata": {"name": "other"}})
    path = f"{NS}/serviceaccounts/{account}/token"
    error = await world.refused(status, "POST", path, {"spec": {"boundObjectRef": reference}})
    assert error["message"] == message


async def test_roles_take_effect_at_once(world: World) -> None:
    limited = World.__new__(World)
    limited.transport = AsgiTransport(world.api, "alice", ["devs"])
    await limited.refused(403, "GET", CMS)
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    await world.ok("POST", f"{roles}/roles", {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "Group", "name": "devs"}],
    }
    await world.ok("POST", f"{roles}/rolebindings", binding)
    await limited.ok("GET", CMS)
    await limited.refused(403, "GET", "/api/v1/configmaps")
    await limited.refused(403, "POST", CMS, config_map("a"))
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    question = {"namespace": "default", "verb": "list", "resource": "configmaps"}
    answer = await limited.ok("POST", access, {"spec": {"resourceAttributes": question}})
    assert answer["status"]["allowed"] is True
    listing = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await limited.ok("POST", listing, {"spec": {"namespace": "default"}}))["status"]
    assert {"resources": ["configmaps"], "apiGroups": [""], "verbs": ["list"]} in status["resourceRules"]
    other = {"user": "bob", "resourceAttributes": question}
    answer = await world.ok("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": other})
    assert answer["status"]["allowed"] is False
    await world.ok("DELETE", f"{roles}/rolebindings/r")
    await limited.refused(403, "GET", CMS)
    await limited.transport.close()


async def test_the_edit_role_reads_and_writes_but_grants_nothing(world: World) -> None:
    binding = {
        "metadata": {"name": "e"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "ed"}],
    }
    await world.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    editor = World.__new__(World)
    editor.transport = AsgiTransport(world.api, "ed")
    await editor.ok("POST", CMS, config_map("a"))
    await editor.ok("GET", f"{CMS}/a")
    await editor.refused(403, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {})
    await editor.refused(403, "GET", "/api/v1/nodes")
    await editor.transport.close()


@pytest.mark.parametrize("name", ["x", "x:", ":x", "", "x:y:z"])
async def test_a_name_that_only_begins_like_that_of_a_service_account(world: World, name: str) -> None:
    """It is a user's, as upstream has it."""
    user = f"system:serviceaccount:{name}"
    denied = await call(world, CMS, headers={"impersonate-user": user})
    assert denied.status == 403 and 'resource \\"users\\"' in denied.body.decode()
    asked = await call(
        world,
        f"{AUTHN}/selfsubjectreviews",
        method="POST",
        body=b"{}",
        headers={"impersonate-user": user, "content-type": "application/json"},
        token=ADMIN_TOKEN,
    )
    assert json.loads(asked.body)["status"]["userInfo"] == {
        "username": user,
        "groups": ["system:authenticated"],
    }


async def test_a_uid_and_extras_are_impersonated_by_those_who_may(world: World) -> None:
    account = "system:serviceaccount:default:default"
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": "acts"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "acts"}
    bound = {"metadata": {"name": "acts"}, "roleRef": reference, "subjects": [subject]}
    await world.ok("POST", f"{rbac}/clusterrolebindings", bound)
    issued = await world.ok("POST", f"{NS}/serviceaccounts/default/token", {"spec": {}})
    token = issued["status"]["token"]
    for header, kind, resource in (
        ({"impersonate-uid": "5"}, "uids", "uids"),
        ({"impersonate-extra-example.com%2fproject": "5"}, "userextras", "userextras/example.com/project"),
    ):
        denied = await call(world, CMS, headers={"impersonate-user": "jane", **header}, token=token)
        assert denied.status == 403
        assert json.loads(denied.body)["message"] == (
            f'{kind}.authentication.k8s.io "5" is forbidden: User "{account}" cannot impersonate resource '
            f'"{resource}" in API group "authentication.k8s.io" at the cluster scope'
        )
        assert (await call(world, CMS, headers=header, token=token)).status == 400, "nobody has them"
    asked = await call(
        world,
        f"{AUTHN}/selfsubjectreviews",
        method="POST",
        body=b"{}",
        headers={
            "impersonate-user": "jane",
            "impersonate-uid": "5",
            "impersonate-extra-example.com%2fproject": "shed",
            "content-type": "application/json",
        },
        token=ADMIN_TOKEN,
    )
    assert json.loads(asked.body)["status"]["userInfo"] == {
        "username": "jane",
        "uid": "5",
        "groups": ["system:authenticated"],
        "extra": {"example.com/project": ["shed"]},
    }
