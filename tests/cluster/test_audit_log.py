"""The audit log: which events a request leaves."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import MERGE, World, config_map, pod
from trainshed.client.asgi import AsgiTransport
from trainshed.cluster.apiserver import audit as auditlog
from trainshed.cluster.apiserver.audit import AuditLog
from trainshed.kube.meta.objects import Object
from trainshed.kube.policy import audit
from trainshed.kube.wire.request import Request

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


class Log:
    """A log that a world writes, as the events in it."""

    def __init__(self, world: World, path: Path, *rules: Object, **fields: Any) -> None:
        self.path = path
        document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **fields}
        self.writes = world.api.audit_log = AuditLog(audit.read(document), path, lambda: world.now)

    def events(self) -> list[Object]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    async def written(self, count: int) -> list[Object]:
        """Return the events once there are so many: an answer may arrive before it is written down."""
        async with asyncio.timeout(10):
            while len(self.events()) < count:
                await asyncio.sleep(0.01)
        return self.events()


@pytest.fixture
def path(tmp_path: Path, world: World) -> Iterator[Path]:
    yield tmp_path / "audit.log"
    if world.api.audit_log is not None:
        world.api.audit_log.close()
        world.api.audit_log = None


async def test_metadata_of_a_request(world: World, path: Path) -> None:
    log = Log(world, path, {"level": "Metadata"})
    answer = await world.raw("POST", MAPS, config_map("m", a="1"), dryRun="All")
    received, complete = await log.written(2)
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert {key: value for key, value in complete.items() if key not in ("auditID", "annotations")} == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": f"{MAPS}?dryRun=All",
        "verb": "create",
        "user": {"username": "tester", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "tester/1",
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2027-01-15T08:00:00.000000Z",
        "stageTimestamp": "2027-01-15T08:00:00.000000Z",
        "responseStatus": {"metadata": {}, "code": 201},
    }
    assert complete["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert received["auditID"] == complete["auditID"] == answer.headers["audit-id"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_objects_of_requests_and_answers(world: World, path: Path) -> None:
    rules = [{"level": "None", "verbs": ["list"]}, {"level": "Request", "verbs": ["patch"]}]
    log = Log(
        world,
        path,
        *rules,
        {"level": "RequestResponse"},
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )
    await world.ok("POST", MAPS, config_map("m", a="1"))
    await world.ok("PATCH", f"{MAPS}/m", {"data": {"b": "2"}}, content_type=MERGE)
    await world.ok("GET", MAPS)
    await world.refused(404, "GET", f"{MAPS}/none")
    created, patched, missing = await log.written(3)
    assert created["requestObject"]["data"] == created["responseObject"]["data"] == {"a": "1"}
    assert "managedFields" not in created["responseObject"]["metadata"]
    assert patched["requestObject"] == {"data": {"b": "2"}} and "responseObject" not in patched
    assert missing["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "kind": "configmaps"},
        "code": 404,
    }


async def test_a_watch_is_written_when_it_starts_and_when_it_ends(world: World, path: Path) -> None:
    log = Log(world, path, {"level": "None", "verbs": ["create"]}, {"level": "Metadata"})
    async with world.lines(MAPS) as lines:
        await world.ok("POST", MAPS, config_map("m"))
        await lines.next()
        assert [event["stage"] for event in log.events()] == ["RequestReceived", "ResponseStarted"]
    stages = [event["stage"] for event in await log.written(3)]
    assert stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


async def test_who_is_refused_is_written(world: World, path: Path) -> None:
    log = Log(world, path, {"level": "Metadata"}, omitStages=["RequestReceived"])
    nobody = AsgiTransport(world.api, "carl", [], user_agent="carl/1")
    answer = await nobody.request(Request("GET", MAPS))
    await nobody.close()
    assert answer.status == 403
    event = (await log.written(1))[0]
    assert event["user"]["username"] == "carl"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["responseStatus"]["reason"] == "Forbidden"


async def test_pod_security_and_policies_tell_the_log(world: World, path: Path) -> None:
    labels = {"pod-security.kubernetes.io/audit": "restricted"}
    await world.ok(
        "PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": labels}}, content_type=MERGE
    )
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "false", "message": "no pods"}],
    }
    await world.ok("POST", f"{HOOKS}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": ["Audit"]}
    body = {"metadata": {"name": "b"}, "spec": binding}
    await world.ok("POST", f"{HOOKS}/validatingadmissionpolicybindings", body)
    log = Log(world, path, {"level": "Metadata"}, omitStages=["RequestReceived"])
    await world.ok("POST", "/api/v1/namespaces/default/pods", pod("p"))
    said = (await log.written(1))[0]["annotations"]
    assert said["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    violations = said["pod-security.kubernetes.io/audit-violations"]
    assert violations.startswith('would violate PodSecurity "restricted:latest": ')
    assert json.loads(said["validation.policy.admission.k8s.io/validation_failure"]) == [
        {"message": "no pods", "policy": "p", "binding": "b", "validationActions": ["Audit"]}
    ]


async def test_a_long_log_makes_room(world: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditlog, "MAX_BYTES", 2_000)
    log = Log(world, path, {"level": "Metadata"})
    for _ in range(20):
        await world.ok("GET", MAPS)
    await log.written(1)
    older = path.with_name("audit.log.1")
    assert path.stat().st_size <= 2_000 and older.stat().st_size <= 2_000
    assert all(json.loads(line) for line in older.read_text().splitlines())


async def test_a_full_disk_stops_nobody(world: World, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Log(world, Path("/dev/full"), {"level": "Metadata"})
    for _ in range(3):
        await world.ok("GET", MAPS)
    assert [record.message for record in caplog.records if "audit" in record.message] == [
        "cannot write the audit log /dev/full: No space left on device"
    ]
