"""Quotas, limit ranges, Pod Security and disruption budgets on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import World as ApiWorld
from tests.cluster.api_world import config_map, open_world, pod
from tests.cluster.control_world import World, cluster, make_pod
from trainshed.cluster.controllers.quotas import QuotaController
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, uid_of
from trainshed.kube.meta.resources import (
    LIMITRANGES,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    RESOURCEQUOTAS,
)
from trainshed.kube.wire.request import Request

PODS_PATH = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
SECURITY = "pod-security.kubernetes.io/"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with open_world(tmp_path) as world:
        yield world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


def made(resource: Any, name: str, spec: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def quota(api: ApiWorld, **hard: str) -> None:
    body = made(RESOURCEQUOTAS, "q", {"hard": {name.replace("_", "."): v for name, v in hard.items()}})
    await api.ok("POST", "/api/v1/namespaces/default/resourcequotas", body)


async def used(api: ApiWorld) -> Object:
    found = await api.ok("GET", "/api/v1/namespaces/default/resourcequotas/q")
    return dict((found.get("status") or {}).get("used") or {})


async def test_a_quota_is_charged_before_anything_is_stored(api: ApiWorld) -> None:
    await quota(api, configmaps="2")
    await api.ok("POST", MAPS, config_map("a"))
    await api.ok("POST", MAPS, config_map("dry"), dryRun="All")
    assert await used(api) == {"configmaps": "1"}
    await api.ok("POST", MAPS, config_map("b"))
    refused = await api.refused(403, "POST", MAPS, config_map("c"))
    assert refused["message"] == (
        'configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited:'
        " configmaps=2"
    )
    await api.refused(403, "POST", MAPS, config_map("c"), dryRun="All")
    assert await used(api) == {"configmaps": "2"}


async def test_a_refused_object_costs_nothing(api: ApiWorld) -> None:
    await quota(api, configmaps="2")
    await api.ok("POST", MAPS, config_map("a"))
    await api.refused(409, "POST", MAPS, config_map("a"))
    assert await used(api) == {"configmaps": "1"}


async def test_of_many_at_once_only_as_many_as_fit_are_made(api: ApiWorld) -> None:
    await quota(api, configmaps="5")
    answers = await asyncio.gather(*(api.raw("POST", MAPS, config_map(f"m{i}")) for i in range(12)))
    statuses = sorted(answer.status for answer in answers)
    assert statuses.count(201) == 5 and set(statuses) <= {201, 403, 409}
    assert await used(api) == {"configmaps": "5"}


async def test_nobody_is_refused_for_what_does_not_stay(api: ApiWorld) -> None:
    """Names that are taken are charged and given back while others ask, and the controller counts in between."""
    controller = QuotaController(api.client, api.api.core, now=lambda: api.now)
    chance = random.Random("quotas")

    async def counting(key: str) -> None:
        with contextlib.suppress(ApiError):
            await controller.reconcile(key)

    for number in range(20):
        here = f"/api/v1/namespaces/n{number}"
        await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": f"n{number}"}})
        room, wanted = chance.randint(1, 5), chance.choices("abcdef", k=chance.randint(2, 16))
        for name, hard in (("q", room), ("r", room + chance.randint(0, 1))):
            body = {"metadata": {"name": name}, "spec": {"hard": {"configmaps": str(hard)}}}
            await api.ok("POST", f"{here}/resourcequotas", body)
        key = keys.of(RESOURCEQUOTAS, f"n{number}", "q")
        asking = [api.raw("POST", f"{here}/configmaps", {"metadata": {"name": name}}) for name in wanted]
        counted = [counting(key) for _ in wanted if chance.random() < 0.5]
        statuses = [
            answer.status for answer in (await asyncio.gather(*asking, *counted))[: len(wanted)] if answer
        ]
        made = statuses.count(201)
        assert set(statuses) <= {201, 403, 409}, (number, statuses)
        assert made == min(room, len(set(wanted))), (number, room, wanted, statuses)
        await counting(key)
        found = await api.ok("GET", f"{here}/resourcequotas/q")
        assert found["status"]["used"] == {"configmaps": str(made)}
        assert not api.api.core.charges.of(uid_of(found))


async def test_a_quota_that_refuses_leaves_the_others_as_they_were(api: ApiWorld) -> None:
    await quota(api, configmaps="2")
    body = made(RESOURCEQUOTAS, "r", {"hard": {"configmaps": "1"}})
    await api.ok("POST", "/api/v1/namespaces/default/resourcequotas", body)
    answers = await asyncio.gather(*(api.raw("POST", MAPS, config_map(f"m{i}")) for i in range(6)))
    assert sorted(answer.status for answer in answers) == [201, *[403] * 5]
    assert await used(api) == {"configmaps": "1"}


async def test_a_quota_of_cpu_wants_to_be_told(api: ApiWorld) -> None:
    await quota(api, requests_cpu="1")
    refused = await api.refused(403, "POST", PODS_PATH, pod("p"))
    assert refused["message"] == ('pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c')


async def test_the_controller_gives_back_what_a_finished_pod_held(world: World) -> None:
    def says(pods: str) -> bool:
        status = (world.stored(RESOURCEQUOTAS, "q") or {}).get("status") or {}
        return bool((status.get("used") or {}).get("pods") == pods)

    one, two = made_pod("one"), made_pod("two")
    await world.client.create(PODS, one)
    await world.client.create(RESOURCEQUOTAS, made(RESOURCEQUOTAS, "q", {"hard": {"pods": "1"}}))
    with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
        await world.client.create(PODS, two)
    await world.until("one pod counted", lambda: says("1"))
    running = await world.until("the pod runs", lambda: runs(world, "one"))
    await world.kubelet.report(running, "Succeeded")
    await world.until("a finished pod not counted", lambda: says("0"))
    await world.client.create(PODS, two)
    assert says("1")
    await world.client.delete(PODS, "two", "default", grace_period_seconds=0)
    await world.until("a deleted pod not counted", lambda: says("0"))


def made_pod(name: str) -> Object:
    out = make_pod(name)
    out["metadata"]["namespace"] = "default"
    return out


def runs(world: World, name: str) -> Object | None:
    found = world.stored(PODS, name) or {}
    return found if (found.get("status") or {}).get("phase") == "Running" else None


async def test_limit_ranges_give_and_refuse(api: ApiWorld) -> None:
    limits = [
        {
            "type": "Container",
            "default": {"memory": "1Gi"},
            "defaultRequest": {"memory": "512Mi"},
            "max": {"memory": "2Gi"},
        }
    ]
    await api.ok("POST", "/api/v1/namespaces/default/limitranges", made(LIMITRANGES, "r", {"limits": limits}))
    given = await api.ok("POST", PODS_PATH, pod("p"))
    assert given["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "1Gi"},
        "requests": {"memory": "512Mi"},
    }
    assert given["status"]["qosClass"] == "Burstable"
    big = pod("big")
    big["spec"]["containers"][0]["resources"] = {"limits": {"memory": "3Gi"}}
    refused = await api.refused(403, "POST", PODS_PATH, big)
    assert refused["message"] == (
        'pods "big" is forbidden: maximum memory usage per Container is 2Gi, but limit is 3Gi'
    )


async def test_pod_security_refuses_warns_and_looks_at_what_is_there(api: ApiWorld) -> None:
    bad = pod("bad", hostNetwork=True)
    await api.ok("POST", PODS_PATH, pod("early", hostNetwork=True))
    labels = {"metadata": {"labels": {f"{SECURITY}enforce": "baseline", f"{SECURITY}warn": "restricted"}}}
    answer = await api.raw(
        "PATCH", "/api/v1/namespaces/default", labels, content_type="application/merge-patch+json"
    )
    assert answer.status == 200
    assert any("early: host namespaces" in text for text in answer.warnings)
    refused = await api.refused(403, "POST", PODS_PATH, bad)
    assert refused["message"] == (
        'pods "bad" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    )
    fine = await api.raw("POST", PODS_PATH, pod("fine"))
    assert fine.status == 201
    assert any(
        'would violate PodSecurity \\"restricted:latest\\": allowPrivilegeEscalation' in t
        for t in fine.warnings
    )
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployed = await api.raw(
        "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec}
    )
    assert deployed.status == 201 and any("would violate PodSecurity" in t for t in deployed.warnings)
    wrong = {"metadata": {"labels": {f"{SECURITY}enforce": "strict"}}}
    told = await api.refused(
        422, "PATCH", "/api/v1/namespaces/default", wrong, content_type="application/merge-patch+json"
    )
    assert "must be one of privileged, baseline, restricted" in told["message"]


async def test_evictions_keep_to_a_budget(world: World) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": make_pod("x")["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await world.client.create(REPLICASETS, made(REPLICASETS, "web", spec))
    budget = made(
        PODDISRUPTIONBUDGETS, "b", {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    )
    await world.client.create(PODDISRUPTIONBUDGETS, budget)

    def allowed() -> int:
        status = (world.stored(PODDISRUPTIONBUDGETS, "b") or {}).get("status") or {}
        return int(status.get("disruptionsAllowed") or 0)

    await world.until("one disruption allowed", lambda: allowed() == 1)
    world.kubelet.ready = lambda pod: False
    names = [found["metadata"]["name"] for found in world.all(PODS)]

    transport = world.client.transport

    headers: list[str] = []

    async def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/default/pods/{name}/eviction"
        request = Request("POST", path, body=json.dumps(body).encode(), content_type="application/json")
        response = await transport.request(request)
        headers.extend(response.headers)
        return response.status

    codes = await asyncio.gather(*map(evict, names))
    assert sorted(codes) == [201, 429, 429]
    assert "retry-after" not in headers, "kubectl drain would be silent for that long"
    await world.until("a pod in place of the evicted one", lambda: len(world.all(PODS)) == 3)
    assert allowed() == 0, "the new pod is not ready"
