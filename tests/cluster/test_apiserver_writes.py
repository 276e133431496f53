"""Creates, updates, patches, deletes and what admission makes of them, by raw requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import MERGE, START, World, config_map, open_world, pod
from trainshed.cluster.apiserver.core import Admission
from trainshed.cluster.apiserver.eventttl import EVENT_SECONDS, sweep
from trainshed.cluster.store import StoreError
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object

NS = "/api/v1/namespaces/default"
CMS = f"{NS}/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"


def job(name: str) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template}}


def deployment(name: str) -> Object:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


async def test_create_fills_in_what_the_server_owns(world: World) -> None:
    body = config_map("a", k="v")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    made = await world.ok("POST", CMS, body, content_type=None)
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert metadata["uid"] not in ("mine", "")
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert metadata["namespace"] == "default"
    assert "selfLink" not in metadata
    assert metadata["managedFields"][0]["manager"] == "tester"
    error = await world.refused(409, "POST", CMS, config_map("a"))
    assert (error["reason"], error["message"]) == ("AlreadyExists", 'configmaps "a" already exists')
    assert error["details"] == {"name": "a", "kind": "configmaps"}


async def test_create_refusals(world: World) -> None:
    other = config_map("a")
    other["metadata"]["namespace"] = "elsewhere"
    error = await world.refused(400, "POST", CMS, other)
    assert "does not match the namespace sent on the request" in error["message"]
    error = await world.refused(404, "POST", "/api/v1/namespaces/nope/configmaps", config_map("a"))
    assert error["message"] == 'namespaces "nope" not found'
    error = await world.refused(422, "POST", CMS, {"metadata": {}})
    assert "name or generateName is required" in error["message"]
    error = await world.refused(400, "POST", CMS, {"kind": "Pod", "metadata": {"name": "a"}})
    assert error["reason"] == "BadRequest"
    await world.refused(400, "POST", CMS, b"{")
    await world.refused(415, "POST", CMS, b"x", content_type="text/plain")
    await world.refused(413, "POST", CMS, config_map("a", k="x" * 3_200_000))
    await world.refused(406, "GET", CMS, accept="text/html")
    await world.refused(422, "POST", CMS, config_map("a"), dryRun="Some")
    await world.refused(405, "PUT", CMS, config_map("a"))


async def test_dry_runs_change_nothing(world: World) -> None:
    before = world.store.revision
    made = await world.ok("POST", CMS, config_map("a"), dryRun="All")
    assert "resourceVersion" not in made["metadata"]
    assert made["metadata"]["uid"]
    assert world.store.revision == before
    held = await world.ok("POST", CMS, config_map("a"))
    await world.refused(409, "POST", CMS, config_map("a"), dryRun="All")
    patched = await world.ok("PATCH", f"{CMS}/a", {"data": {"x": "y"}}, content_type=MERGE, dryRun="All")
    assert patched["data"] == {"x": "y"}
    await world.ok("DELETE", f"{CMS}/a", dryRun="All")
    assert await world.ok("GET", f"{CMS}/a") == held


async def test_updates(world: World) -> None:
    """Row 149 and the rules of PUT."""
    made = await world.ok("POST", CMS, config_map("a", k="1"))
    results = await asyncio.gather(
        *(world.raw("PUT", f"{CMS}/a", {**made, "data": {"k": str(i)}}) for i in (2, 3))
    )
    assert sorted(r.status for r in results) == [200, 409]
    await world.refused(404, "PUT", f"{CMS}/b", config_map("b"))
    await world.refused(400, "PUT", f"{CMS}/a", config_map("b"))
    unconditional = await world.ok("PUT", f"{CMS}/a", config_map("a", k="4"))
    again = await world.ok("PUT", f"{CMS}/a", config_map("a", k="4"))
    assert again["metadata"]["resourceVersion"] == unconditional["metadata"]["resourceVersion"]
    changed = {**unconditional, "metadata": {**unconditional["metadata"], "uid": "other"}}
    error = await world.refused(409, "PUT", f"{CMS}/a", changed)
    assert "Precondition failed: UID in precondition: other" in error["message"]
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}
    assert (await world.raw("PUT", f"{leases}/l", lease)).status == 201, "a Lease is created by PUT"
    error = await world.refused(422, "PUT", f"{leases}/l", lease)
    assert "must be specified for an update" in error["message"]


async def test_status_is_isolated_and_generation_counts(world: World) -> None:
    body = {**deployment("d"), "status": {"replicas": 9}}
    made = await world.ok("POST", DEPLOYMENTS, body)
    assert made["metadata"]["generation"] == 1
    assert not made.get("status")
    path = f"{DEPLOYMENTS}/d"
    change = {"spec": {"replicas": 3}, "status": {"replicas": 2}}
    held = await world.ok("PATCH", f"{path}/status", change, content_type=MERGE)
    assert (held["spec"]["replicas"], held["status"]["replicas"]) == (1, 2)
    assert held["metadata"]["generation"] == 1
    change["status"]["replicas"] = 7
    held = await world.ok("PATCH", path, change, content_type=MERGE)
    assert (held["spec"]["replicas"], held["status"]["replicas"]) == (3, 2)
    assert held["metadata"]["generation"] == 2
    labelled = await world.ok("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    assert labelled["metadata"]["generation"] == 2
    assert (await world.ok("GET", f"{path}/status"))["spec"]["replicas"] == 3


async def test_patches(world: World) -> None:
    made = await world.ok("POST", CMS, config_map("a", k="1"))
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "2"}}
    await world.refused(409, "PATCH", f"{CMS}/a", stale, content_type=MERGE)
    await world.refused(404, "PATCH", f"{CMS}/b", {}, content_type=MERGE)
    await world.refused(400, "PATCH", f"{CMS}/a", {"metadata": {"name": "b"}}, content_type=MERGE)
    await world.refused(400, "PATCH", f"{CMS}/a", b"[", content_type=MERGE)
    await world.refused(415, "PATCH", f"{CMS}/a", {}, content_type="application/json")
    await world.refused(400, "PATCH", f"{CMS}/a", {}, content_type="application/json-patch+json")
    await world.refused(422, "PATCH", f"{CMS}/a", {}, content_type=MERGE, force="true")
    test = [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]
    error = await world.refused(422, "PATCH", f"{CMS}/a", test, content_type="application/json-patch+json")
    assert error["reason"] == "Invalid"
    # The training SDK sends back whole objects whose times end in +00:00.
    whole = json.loads(json.dumps(made))
    whole["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00+00:00"
    whole["data"]["k"] = "3"
    assert (await world.ok("PATCH", f"{CMS}/a", whole, content_type=MERGE))["data"] == {"k": "3"}
    many = [world.ok("PATCH", f"{CMS}/a", {"data": {f"x{i}": "y"}}, content_type=MERGE) for i in range(4)]
    await asyncio.gather(*many)
    assert len((await world.ok("GET", f"{CMS}/a"))["data"]) == 5, "patches without a version are retried"


async def test_server_side_apply(world: World) -> None:
    def applied(**data: str) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

    await world.refused(422, "PATCH", f"{CMS}/a", applied(x="1"), content_type=APPLY)
    options = {"content_type": APPLY, "fieldManager": "one"}
    response = await world.raw("PATCH", f"{CMS}/a", applied(x="1", y="1"), **options)
    assert response.status == 201
    same = await world.ok("PATCH", f"{CMS}/a", applied(x="1", y="1"), **options)
    assert same == json.loads(response.body), "nothing changed, nothing written"
    world.now += 60
    assert await world.ok("PATCH", f"{CMS}/a", applied(x="1", y="1"), **options) == same
    error = await world.refused(
        409, "PATCH", f"{CMS}/a", applied(x="2"), content_type=APPLY, fieldManager="two"
    )
    assert error["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]
    forced = {"content_type": APPLY, "fieldManager": "two", "force": "true"}
    await world.ok("PATCH", f"{CMS}/a", applied(x="2"), **forced)
    held = await world.ok("PATCH", f"{CMS}/a", applied(), **options)
    assert held["data"] == {"x": "2"}, "y had one owner, who dropped it"
    managed = {**applied(), "metadata": {"name": "a", "managedFields": []}}
    await world.refused(400, "PATCH", f"{CMS}/a", managed, **options)
    untyped = {"metadata": {"name": "a"}}
    await world.refused(400, "PATCH", f"{CMS}/a", untyped, **options)


async def test_deletes(world: World) -> None:
    made = await world.ok("POST", CMS, config_map("a"))
    wrong = {"preconditions": {"uid": "other"}}
    error = await world.refused(409, "DELETE", f"{CMS}/a", wrong)
    assert error["reason"] == "Conflict"
    await world.refused(422, "DELETE", f"{CMS}/a", {"propagationPolicy": "Sideways"})
    status = await world.ok("DELETE", f"{CMS}/a")
    assert status["status"] == "Success"
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    await world.refused(404, "DELETE", f"{CMS}/a")
    await world.ok("POST", f"{NS}/pods", pod("p"))
    gone = await world.ok("DELETE", f"{NS}/pods/p", {})
    assert gone["kind"] == "Pod", "some kinds answer with the object even when it is gone"
    await world.refused(404, "GET", f"{NS}/pods/p")
    for i in range(3):
        await world.ok("POST", CMS, config_map(f"c{i}", {"x": "y"}))
    deleted = await world.ok("DELETE", CMS, labelSelector="x=y")
    assert [i["metadata"]["name"] for i in deleted["items"]] == ["c0", "c1", "c2"]
    assert not (await world.ok("GET", CMS, labelSelector="x=y"))["items"]


async def test_kinds_that_do_nothing_here_say_so(world: World) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy = {"metadata": {"name": "a"}, "spec": {"podSelector": {}}}
    response = await world.raw("POST", path, policy)
    assert [t for t in response.warnings if "stores networkpolicies and does nothing" in t]
    response = await world.raw("POST", CMS, config_map("plain"))
    assert not response.warnings
    outside = {"selector": {"a": "b"}, "ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    response = await world.raw("POST", f"{NS}/services", {"metadata": {"name": "web"}, "spec": outside})
    assert [t for t in response.warnings if "spec.externalIPs: " in t]


async def test_propagation_policies_become_finalizers(world: World) -> None:
    """Row 115: Jobs orphan their pods unless told otherwise, and say so."""
    await world.ok("POST", JOBS, job("a"))
    response = await world.raw("DELETE", f"{JOBS}/a")
    assert any("child pods are preserved by default" in text for text in response.warnings)
    assert json.loads(response.body)["metadata"]["finalizers"] == ["orphan"]
    await world.ok("POST", JOBS, job("b"))
    response = await world.raw("DELETE", f"{JOBS}/b", {"propagationPolicy": "Background"})
    assert not response.warnings
    await world.refused(404, "GET", f"{JOBS}/b")
    await world.ok("POST", CMS, config_map("c"))
    held = await world.ok("DELETE", f"{CMS}/c", propagationPolicy="Foreground")
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await world.ok("DELETE", f"{CMS}/c")
    assert again["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
    more = {"metadata": {"finalizers": ["foregroundDeletion", "example.com/late"]}}
    error = await world.refused(422, "PATCH", f"{CMS}/c", more, content_type=MERGE)
    assert "no new finalizers can be added" in error["message"]


async def test_pod_grace(world: World) -> None:
    await world.ok("POST", f"{NS}/pods", pod("p", terminationGracePeriodSeconds=20))
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await world.ok("POST", f"{NS}/pods/p/binding", target)
    bound = await world.ok("GET", f"{NS}/pods/p")
    assert bound["spec"]["nodeName"] == "n"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    first = await world.ok("DELETE", f"{NS}/pods/p")
    assert first["metadata"]["deletionGracePeriodSeconds"] == 20
    assert first["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    assert first["metadata"]["generation"] == 2
    shorter = await world.ok("DELETE", f"{NS}/pods/p", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await world.ok("DELETE", f"{NS}/pods/p", {"gracePeriodSeconds": 50})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await world.ok("DELETE", f"{NS}/pods/p", {"gracePeriodSeconds": 0})
    await world.refused(404, "GET", f"{NS}/pods/p")


async def test_pods_need_an_account_and_get_a_priority(world: World) -> None:
    error = await world.refused(403, "POST", f"{NS}/pods", pod("p", serviceAccountName="nobody"))
    assert 'serviceaccount "nobody" not found' in error["message"]
    error = await world.refused(403, "POST", f"{NS}/pods", pod("p", priorityClassName="nope"))
    assert "no PriorityClass with name nope was found" in error["message"]
    made = await world.ok("POST", f"{NS}/pods", pod("p", priorityClassName="system-node-critical"))
    assert made["spec"]["priority"] == 2000001000
    for given, computed, spec in ((5, 2000001000, {"priorityClassName": "system-node-critical"}), (7, 0, {})):
        error = await world.refused(403, "POST", f"{NS}/pods", pod("q", priority=given, **spec))
        words = f"({given}) must not be provided in pod spec; priority admission controller computed {computed} from"
        assert words in error["message"], "as recorded with kube-apiserver 1.33"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    await world.ok(
        "PATCH",
        f"{NS}/serviceaccounts/default",
        {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "hub"}]},
        content_type=MERGE,
    )
    plain = await world.ok("POST", f"{NS}/pods", pod("q"))
    assert plain["spec"]["imagePullSecrets"] == [{"name": "hub"}], "where the pod names none itself"
    own = await world.ok("POST", f"{NS}/pods", pod("r", imagePullSecrets=[{"name": "own"}]))
    assert own["spec"]["imagePullSecrets"] == [{"name": "own"}]
    assert "volumes" not in plain["spec"]
    assert "automountServiceAccountToken" not in plain["spec"]


async def test_a_pod_waits_for_the_default_account_of_a_new_namespace(world: World) -> None:
    await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    creating = asyncio.ensure_future(world.ok("POST", "/api/v1/namespaces/new/pods", pod("p")))
    await asyncio.sleep(0)
    await world.ok("POST", "/api/v1/namespaces/new/serviceaccounts", {"metadata": {"name": "default"}})
    made = await asyncio.wait_for(creating, 5)
    assert made["spec"]["serviceAccountName"] == "default"


async def test_claims_and_services(world: World) -> None:
    claim: Object = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = await world.ok("POST", f"{NS}/persistentvolumeclaims", claim)
    assert made["spec"]["storageClassName"] == "standard"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    claim["metadata"]["name"], claim["spec"]["storageClassName"] = "d", ""
    made = await world.ok("POST", f"{NS}/persistentvolumeclaims", claim)
    assert made["spec"]["storageClassName"] == ""

    def service(name: str, **spec: Any) -> Object:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}

    many = [world.ok("POST", f"{NS}/services", service(f"s{i}")) for i in range(20)]
    addresses = [made["spec"]["clusterIP"] for made in await asyncio.gather(*many)]
    assert len(set(addresses)) == 20
    error = await world.refused(422, "POST", f"{NS}/services", service("t", clusterIP=addresses[0]))
    assert "already allocated" in error["message"]
    await world.refused(422, "POST", f"{NS}/services", service("t", clusterIP="1.2.3.4"))
    headless = await world.ok("POST", f"{NS}/services", service("h", clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]
    replaced = service("s0", selector={"a": "b"})
    held = await world.ok("PUT", f"{NS}/services/s0", replaced)
    assert held["spec"]["clusterIP"] == addresses[0], "a PUT that does not name the address keeps it"


async def test_ephemeral_containers(world: World) -> None:
    """Row 132: kubectl debug."""
    await world.ok("POST", f"{NS}/pods", pod("p"))
    extra = {"name": "dbg", "image": "b", "targetContainerName": "c"}
    change = {"spec": {"ephemeralContainers": [extra]}, "metadata": {"name": "p"}}
    strategic = "application/strategic-merge-patch+json"
    held = await world.ok("PATCH", f"{NS}/pods/p/ephemeralcontainers", change, content_type=strategic)
    assert held["spec"]["ephemeralContainers"][0]["name"] == "dbg"
    assert len(held["spec"]["containers"]) == 1


async def test_custom_admission(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def check(obj: Object, old: Object | None, operation: str) -> Admission:
        seen.append((operation, old is None))
        bad = [Cause("FieldValueInvalid", "no bad data", "data.bad")] if "bad" in obj.get("data", {}) else []
        return Admission(causes=bad, warnings=["it goes"] if operation == "DELETE" else [])

    async with open_world(tmp_path, admission={"configmaps": check}) as world:
        await world.ok("POST", CMS, config_map("a"))
        error = await world.refused(422, "PATCH", f"{CMS}/a", {"data": {"bad": "1"}}, content_type=MERGE)
        assert error["details"]["causes"][0]["field"] == "data.bad"
        await world.ok("POST", CMS, config_map("b"))
        for path in (f"{CMS}/a", CMS):
            response = await world.raw("DELETE", path)
            assert list(response.warnings) == ['299 - "it goes"']
    assert [operation for operation, _ in seen] == ["CREATE", "UPDATE", "CREATE", "DELETE", "DELETE"]
    assert [new for _, new in seen[:2]] == [True, False]


async def test_a_store_that_cannot_write_is_a_500_that_says_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: object) -> None:
        raise StoreError("the disk is full", "free some space")

    monkeypatch.setattr(world.store, "create", fail)
    error = await world.refused(500, "POST", CMS, config_map("a"))
    assert (error["reason"], error["message"]) == (
        "InternalError",
        "Internal error occurred: the disk is full; free some space",
    )


async def test_events_expire_an_hour_after_they_last_happened(world: World) -> None:
    def event(name: str, last: str) -> Object:
        return {
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "R",
            "message": "m",
            "type": "Normal",
            "firstTimestamp": "2027-01-15T07:00:00Z",
            "lastTimestamp": last,
        }

    await world.ok("POST", f"{NS}/events", event("old", "2027-01-15T07:30:00Z"))
    await world.ok("POST", f"{NS}/events", event("new", "2027-01-15T08:00:00Z"))
    await sweep(world.api.core, START + EVENT_SECONDS - 1)
    left = await world.ok("GET", f"{NS}/events")
    assert [e["metadata"]["name"] for e in left["items"]] == ["new"]


async def test_events_in_their_newer_shape(world: World) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R",
        "note": "n",
        "type": "Normal",
        "action": "A",
        "reportingController": "c",
        "reportingInstance": "c-1",
    }
    made = await world.ok("POST", path, event)
    assert (made["apiVersion"], made["regarding"]["name"]) == ("events.k8s.io/v1", "p")
    core = await world.ok("GET", f"{NS}/events/e")
    assert (core["apiVersion"], core["involvedObject"]["name"], core["message"]) == ("v1", "p", "n")
    async with world.lines(path) as lines:
        assert (await lines.next())["object"]["note"] == "n"


async def test_what_a_json_patch_copies_is_held_to_where_it_lands(world: World) -> None:
    await world.ok("POST", "/api/v1/namespaces/default/pods", pod("p", nodeSelector={"a": "b"}))
    for source, target, code in (
        ("/spec/containers", "/metadata/labels", 422),
        ("/spec/nodeSelector", "/metadata/labels", 200),
    ):
        patch = [{"op": "copy", "from": source, "path": target}]
        answer = await world.raw(
            "PATCH",
            "/api/v1/namespaces/default/pods/p",
            json.dumps(patch).encode(),
            content_type="application/json-patch+json",
        )
        assert answer.status == code, answer.body
    assert json.loads(answer.body)["metadata"]["labels"] == {"a": "b"}
