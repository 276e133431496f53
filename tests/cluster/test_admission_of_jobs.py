"""The embedded cluster refuses and warns of jobs as the operator's webhook does on a real one, word for word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cluster.api_world import MERGE, World, open_world
from tests.fakes.job_rules import CASES
from tests.fakes.training import make_job
from trainshed.api.replicated import JobKind
from trainshed.api.v1.pytorch import NPROC_DEPRECATED, PYTORCHJOB
from trainshed.cli.controlplane import admission
from trainshed.client.client import Client
from trainshed.client.transport import Response
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS
from trainshed.operator.install import embedded_options
from trainshed.operator.objects import crds
from trainshed.operator.webhook import review

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
EARLIER = {
    "1 the name is a label": "BadRequest Invalid",
    "2 there are replicas": "Invalid",
    "4 there is a container": "Invalid",
}
"""Rules whose jobs the schema, or the rules of every object's name, may refuse before the kind's own are asked."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path, admission=admission()) as world:
        for definition in crds():
            await Client(world.transport).create(CRDS, definition)
        yield world


def job(name: str = "job", workers: int = 2, **elastic: Any) -> Object:
    out = make_job(master=False, workers=workers)
    out["metadata"] = {"name": name, "namespace": "default"}
    if elastic:
        out["spec"]["elasticPolicy"] = elastic
    return out


def warnings_of(response: Response) -> list[str]:
    """Return the texts of the Warning headers."""
    return [text.removeprefix('299 - "')[:-1].replace('\\"', '"') for text in response.warnings]


def said_by_the_webhook(
    obj: Object, old: Object | None = None, kind: JobKind = PYTORCHJOB
) -> tuple[list[str], str]:
    """Return the warnings and the refusal of the webhook."""
    request = {
        "uid": "1",
        "operation": "CREATE" if old is None else "UPDATE",
        "object": obj,
        "oldObject": old,
    }
    answer = review(kind, msgspec.json.encode({"request": request}), embedded_options())["response"]
    return answer.get("warnings", []), answer.get("status", {}).get("message", "")


@pytest.mark.parametrize(
    "obj",
    [
        job(),
        job(nProcPerNode=2),
        job("a" * 60),
        job("a" * 60, nProcPerNode=2),
        job(workers=0, nProcPerNode=2),
        job("Not.A.Label", nProcPerNode=2),
    ],
    ids=["valid", "deprecated", "long name", "both", "refused", "refused and deprecated"],
)
async def test_a_create_is_answered_as_by_the_webhook(world: World, obj: Object) -> None:
    warnings, refusal = said_by_the_webhook(obj)
    response = await world.raw("POST", JOBS, obj)
    if (
        obj["metadata"]["name"] != "Not.A.Label"
    ):  # refused by the rules of every object's name, before our own
        assert warnings_of(response) == warnings
        assert response.status == (403 if refusal else 201), response.body
    if response.status == 403:
        message = msgspec.json.decode(response.body)["message"]
        assert message.endswith(f"denied the request: {refusal}")


async def test_every_rule_of_every_kind_is_answered_as_by_the_webhook(world: World) -> None:
    """What is refused, what is let in, and the warnings of both."""
    stored: dict[str, str] = {}
    asked = 0
    for kind, rule in sorted(CASES, key=lambda case: case[1].update):
        job, old, _ = rule.case(kind)
        path = f"/apis/kubeflow.org/v1/namespaces/default/{kind.plural}"
        if old is None:
            response = await world.raw("POST", path, job, dryRun="All")
        else:
            if kind.name not in stored:
                made = await world.ok("POST", path, old)
                stored[kind.name] = made["metadata"]["resourceVersion"]
            job["metadata"]["resourceVersion"] = stored[kind.name]
            response = await world.raw("PUT", f"{path}/train", job, dryRun="All")
        answer = msgspec.json.decode(response.body)
        where = f"{kind.name}: {rule.name}: {response.status} {answer.get('message')}"
        if answer.get("reason") in EARLIER.get(rule.name, "").split():
            continue
        asked += 1
        warnings, refusal = said_by_the_webhook(job, old, kind)
        assert warnings_of(response) == warnings, where
        assert response.status == (403 if refusal else 200 if old else 201), where
        if refusal:
            assert answer["message"] == (
                f'admission webhook "validator.{kind.singular}.training-operator.kubeflow.org" '
                f"denied the request: {refusal}"
            ), where
    assert len(stored) == 7 and asked >= 120


async def test_scale_is_not_asked_about(world: World) -> None:
    """As on Kubernetes: the rules name the plural, so `kubectl scale --replicas=0` gets through."""
    assert (await world.raw("POST", JOBS, job(minReplicas=1))).status == 201
    for replicas in (0, 3):
        scale = {"spec": {"replicas": replicas}}
        response = await world.raw("PATCH", f"{JOBS}/job/scale", scale, content_type=MERGE)
        assert response.status == 200, response.body
    response = await world.raw(
        "PATCH",
        f"{JOBS}/job",
        {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 0}}}},
        content_type=MERGE,
    )
    assert response.status == 403


async def test_an_update_warns_and_a_write_of_the_status_does_not(world: World) -> None:
    """Only the resource itself is registered with the webhook, so the operator's own writes are told nothing."""
    assert (await world.raw("POST", JOBS, job(minReplicas=1))).status == 201
    change = {"spec": {"elasticPolicy": {"nProcPerNode": 2}}}
    response = await world.raw("PATCH", f"{JOBS}/job", change, content_type=MERGE)
    assert (response.status, warnings_of(response)) == (200, [NPROC_DEPRECATED])
    status = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    response = await world.raw("PATCH", f"{JOBS}/job/status", status, content_type=MERGE)
    assert (response.status, warnings_of(response)) == (200, [])
