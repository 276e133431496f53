"""Answers that kube-apiserver 1.33 gives, one row each, where the two once differed."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest

from tests.cluster.api_world import MERGE, World, config_map, pod
from trainshed.kube.meta.objects import Object

NS = "/api/v1/namespaces/default"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIC = "application/strategic-merge-patch+json"
HTTP_PORT = {"containerPort": 80, "hostPort": 8080}


def two_of(port: Object) -> list[Object]:
    return [{"name": name, "image": "i:1", "ports": [port]} for name in ("a", "b")]


def ingress(path: Object) -> Object:
    return {"metadata": {"name": "i"}, "spec": {"rules": [{"http": {"paths": [path]}}]}}


BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
PATHS = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("path", "body", "causes"),
    [
        (
            f"{NS}/pods",
            pod("p", containers=two_of(HTTP_PORT)),
            [("spec.containers[1].ports[0].hostPort", 'Duplicate value: "TCP//8080"')],
        ),
        (
            f"{NS}/pods",
            pod("p", securityContext={"seccompProfile": {"type": "X"}}),
            [
                (
                    "spec.securityContext.seccompProfile.type",
                    'Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"',
                )
            ],
        ),
        (
            f"{NS}/services",
            {
                "metadata": {"name": "s"},
                "spec": {
                    "ipFamilies": ["IPv4", "IPv6"],
                    "ipFamilyPolicy": "RequireDualStack",
                    "ports": [{"port": 80}],
                },
            },
            [
                (
                    "spec.ipFamilyPolicy",
                    'Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
                ),
                ("spec.ipFamilies[1]", 'Invalid value: "IPv6": not configured on this cluster'),
            ],
        ),
        (
            f"{NS}/pods",
            pod("p", os={"name": "plan9"}),
            [("spec.os", 'Unsupported value: "plan9": supported values: "linux", "windows"')],
        ),
        (
            INGRESSES,
            ingress({"path": "/", "backend": BACKEND}),
            [(f"{PATHS}.pathType", "Required value: pathType must be specified")],
        ),
        (
            INGRESSES,
            ingress({"path": "/", "pathType": "Prefix", "backend": {}}),
            [(f"{PATHS}.backend", 'Invalid value: "": resource or service backend is required')],
        ),
        (
            INGRESSES,
            ingress({"path": "x", "pathType": "Exact", "backend": BACKEND}),
            [(f"{PATHS}.path", 'Invalid value: "x": must be an absolute path')],
        ),
    ],
)
async def test_refused(world: World, path: str, body: Object, causes: list[tuple[str, str]]) -> None:
    error = await world.refused(422, "POST", path, body)
    assert [(cause["field"], cause["message"]) for cause in error["details"]["causes"]] == causes


async def test_taken(world: World) -> None:
    made = await world.ok("POST", f"{NS}/pods", pod("p", terminationGracePeriodSeconds=-1))
    assert made["spec"]["terminationGracePeriodSeconds"] == 1
    other = two_of(HTTP_PORT)
    other[1]["ports"] = [{**HTTP_PORT, "protocol": "UDP"}]
    await world.ok("POST", f"{NS}/pods", pod("q", containers=other))
    await world.ok("POST", INGRESSES, ingress({"pathType": "ImplementationSpecific", "backend": BACKEND}))


async def test_a_runtime_class_has_to_exist(world: World) -> None:
    error = await world.refused(403, "POST", f"{NS}/pods", pod("p", runtimeClassName="kata"))
    assert error["message"] == 'pods "p" is forbidden: pod rejected: RuntimeClass "kata" not found'
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    await world.ok("POST", classes, {"metadata": {"name": "kata"}, "handler": "kata"})
    made = await world.ok("POST", f"{NS}/pods", pod("p", runtimeClassName="kata"))
    assert "overhead" not in made["spec"]


async def test_a_runtime_class_adds_what_it_costs_and_where_it_runs(world: World) -> None:
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"memory": "100Mi"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    }
    await world.ok("POST", "/apis/node.k8s.io/v1/runtimeclasses", kata)
    said = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    spec = (await world.ok("POST", f"{NS}/pods", pod("p", runtimeClassName="kata", **said)))["spec"]
    assert spec["overhead"] == {"memory": "100Mi"}
    assert spec["nodeSelector"] == {"disk": "ssd", "vm": "yes"}
    assert [t["key"] for t in spec["tolerations"]][:2] == ["gpu", "vm"]
    await world.ok("POST", f"{NS}/pods", pod("q", runtimeClassName="kata", overhead={"memory": "100Mi"}))
    for fields, why in (
        (
            {"runtimeClassName": "kata", "overhead": {"memory": "1Mi"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"memory": "1Mi"}},
            "Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ):
        error = await world.refused(403, "POST", f"{NS}/pods", pod("r", **fields))
        assert error["message"] == f'pods "r" is forbidden: pod rejected: {why}'
    other = pod("r", runtimeClassName="kata", nodeSelector={"vm": "no"})
    error = await world.refused(403, "POST", f"{NS}/pods", other)
    assert error["message"].endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"
    )


async def test_a_put_names_its_object(world: World) -> None:
    await world.ok("POST", f"{NS}/configmaps", config_map("a"))
    error = await world.refused(400, "PUT", f"{NS}/configmaps/a", {"data": {"k": "v"}})
    assert error["message"] == (
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    )
    body = config_map("a")
    body["metadata"]["uid"] = "other"
    error = await world.refused(409, "PUT", f"{NS}/configmaps/a", body)
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in error["message"]


def deployment(name: str) -> Object:
    container = {"name": "main", "image": "i:1", "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


async def test_a_template_gets_no_defaults_of_pods(world: World) -> None:
    """Requests follow limits, and services are in the environment, when a pod is made of it."""
    made = await world.ok("POST", DEPLOYMENTS, deployment("d"))
    spec = made["spec"]["template"]["spec"]
    assert "enableServiceLinks" not in spec
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    made = await world.ok("POST", f"{NS}/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert made["spec"]["enableServiceLinks"] is True
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


async def test_a_strategic_merge_puts_new_items_first(world: World) -> None:
    await world.ok("POST", DEPLOYMENTS, deployment("d"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s:1"}]}}}}
    made = await world.ok("PATCH", f"{DEPLOYMENTS}/d", patch, content_type=STRATEGIC)
    assert [c["name"] for c in made["spec"]["template"]["spec"]["containers"]] == ["sidecar", "main"]


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
async def test_an_object_leaves_a_selection_as_it_was(world: World, accept: str) -> None:
    made = await world.ok("POST", f"{NS}/configmaps", config_map("a", {"x": "y"}))
    since = made["metadata"]["resourceVersion"]
    change = {"metadata": {"labels": {"x": "z"}}}
    left = await world.ok("PATCH", f"{NS}/configmaps/a", change, content_type=MERGE)
    lines = world.lines(
        f"{NS}/configmaps", accept=accept, resourceVersion=since, labelSelector="x=y", includeObject="Object"
    )
    async with lines:
        event: Any = await lines.next()
    shown = event["object"]["rows"][0]["object"] if "Table" in accept else event["object"]
    assert event["type"] == "DELETED"
    assert shown["metadata"]["labels"] == {"x": "y"}
    assert shown["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ],
)
async def test_a_review_has_no_table(world: World, accept: str) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert (await world.refused(406, "POST", path, review, accept=accept))["reason"] == "NotAcceptable"
    answer = await world.raw("POST", path, review, accept=f"{accept}, application/json")
    assert answer.status == 201


async def test_a_scale_has_its_own_table(world: World) -> None:
    """Recorded: Name, Desired, Available and Age, of a read and of a write."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await world.ok("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    shown = await world.ok("GET", f"{DEPLOYMENTS}/d/scale", accept=table, includeObject="Object")
    assert [column["name"] for column in shown["columnDefinitions"]] == [
        "Name",
        "Desired",
        "Available",
        "Age",
    ]
    (row,) = shown["rows"]
    assert (row["cells"][:3], row["object"]["kind"]) == (["d", 2, 0], "Scale")
    change = {"spec": {"replicas": 3}}
    written = await world.ok(
        "PATCH", f"{DEPLOYMENTS}/d/scale", change, content_type="application/merge-patch+json", accept=table
    )
    assert written["rows"][0]["cells"][:3] == ["d", 3, 0]
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert (await world.ok("GET", f"{DEPLOYMENTS}/d/scale", accept=partial))[
        "kind"
    ] == "PartialObjectMetadata"
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment"}
    error = await world.refused(400, "PUT", f"{DEPLOYMENTS}/d/scale", wrong)
    assert error["message"] == (
        'Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale):'
        " unknown conversion"
    )


async def test_what_rows_of_a_table_carry_is_checked(world: World) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    error = await world.refused(400, "GET", f"{NS}/configmaps", accept=table, includeObject="X")
    assert error["message"] == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "X": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )
    await world.ok("GET", f"{NS}/configmaps", includeObject="X")  # no table, no rows


async def test_a_service_gives_up_what_its_new_type_does_not_need(world: World) -> None:
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}
    made = (await world.ok("POST", f"{NS}/services", {"metadata": {"name": "s"}, "spec": spec}))["spec"]
    assert made["ports"][0]["nodePort"] and made["externalTrafficPolicy"] == "Cluster"

    async def become(**change: object) -> Object:
        answer = await world.ok("PATCH", f"{NS}/services/s", {"spec": change}, content_type=MERGE)
        found: Object = answer["spec"]
        return found

    cluster = await become(type="ClusterIP")
    assert "nodePort" not in cluster["ports"][0] and "externalTrafficPolicy" not in cluster
    assert cluster["clusterIP"] == made["clusterIP"]
    balanced = await become(type="LoadBalancer")
    assert balanced["allocateLoadBalancerNodePorts"] is True
    outside = await become(type="ExternalName", externalName="a.b")
    assert outside == {
        "type": "ExternalName",
        "externalName": "a.b",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
    }
    back = await become(type="ClusterIP", externalName=None)
    assert back["clusterIP"] and back["ipFamilies"] == ["IPv4"]


async def test_who_signs_tokens_can_be_looked_up(world: World) -> None:
    found = await world.ok("GET", "/.well-known/openid-configuration")
    assert found["jwks_uri"] == f"{found['issuer']}/openid/v1/jwks"
    answer = await world.raw("GET", "/openid/v1/jwks")
    assert answer.headers["content-type"] == "application/jwk-set+json"
    request = {"spec": {"expirationSeconds": 600, "audiences": ["vault"]}}
    await world.ok("POST", f"{NS}/serviceaccounts", {"metadata": {"name": "robot"}})
    token = (await world.ok("POST", f"{NS}/serviceaccounts/robot/token", request))["status"]["token"]
    keys = jwt.PyJWKSet.from_json(answer.body.decode())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}  # the clock is the test's
    claims = jwt.decode(token, key, audience="vault", issuer=found["issuer"], options=options)
    assert claims["sub"] == "system:serviceaccount:default:robot"


async def test_metrics_of_requests_and_objects(world: World) -> None:
    await world.ok("POST", f"{NS}/configmaps", config_map("a"))
    await world.refused(409, "POST", f"{NS}/configmaps", config_map("a"))
    await world.ok("GET", f"{NS}/configmaps")
    for number in range(3):
        await world.refused(422, "POST", f"{NS}/configmaps", config_map("b"), dryRun=f"x{number}")
    answer = await world.raw("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    for code, scope, verb in (
        ("201", "namespace", "POST"),
        ("409", "namespace", "POST"),
        ("200", "namespace", "LIST"),
    ):
        labels = (
            f'code="{code}",component="apiserver",dry_run="",group="",resource="configmaps",scope="{scope}"'
        )
        assert f'apiserver_request_total{{{labels},subresource="",verb="{verb}",version="v1"}} 1.0' in lines
    assert [line.rpartition(" ")[2] for line in lines if 'dry_run="invalid"' in line] == ["3.0"]
    assert 'apiserver_storage_objects{resource="configmaps"} 1.0' in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


async def test_component_statuses(world: World) -> None:
    listed = await world.ok("GET", "/api/v1/componentstatuses")
    names = [item["metadata"]["name"] for item in listed["items"]]
    assert (listed["kind"], names) == ("ComponentStatusList", ["controller-manager", "etcd-0", "scheduler"])
    answer = await world.raw(
        "GET", "/api/v1/componentstatuses", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    cells = [row["cells"] for row in json.loads(answer.body)["rows"]]
    assert cells[0] == ["controller-manager", "Healthy", "ok", ""]
    assert answer.warnings == ('299 - "v1 ComponentStatus is deprecated in v1.19+"',)
    one = await world.ok("GET", "/api/v1/componentstatuses/scheduler")
    assert one["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    await world.refused(404, "GET", "/api/v1/componentstatuses/other")
    await world.refused(405, "POST", "/api/v1/componentstatuses", {"metadata": {"name": "x"}})
