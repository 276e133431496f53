"""Tekton's kinds on the real API server, with a kubelet that plays pods: definitions, controllers, garbage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster
from tests.unit.notebook_builder import compiled
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.controllers.tekton.part import Tekton
from trainshed.cluster.images.directories import ImageRegistry
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS, PERSISTENTVOLUMECLAIMS, PODS, Resource
from trainshed.pipelines.emit import local
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import Block, Pipeline, Step
from trainshed.pipelines.notebook.settings import Settings
from trainshed.sdk.pipelineruns.follow import Follower, Quiet
from trainshed.tekton import conditions
from trainshed.tekton.crds import crds
from trainshed.tekton.resources import PIPELINERUNS, TASKRUNS

SECONDS = 30.0
STEP = {"name": "main", "image": "busybox", "script": "true"}


class TektonWorld:
    """A cluster in which Tekton's controllers run; `restart` kills them and starts others."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        client = Client(AsgiTransport(self.world.api, "system:tekton", ["system:masters"]))
        shared = SharedInformers(client)
        part = Tekton(client, shared, ImageRegistry(self.folder / "images.json"))

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(shared.run())
                group.create_task(part.run())

        self._running = asyncio.create_task(run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def create(self, spec: Any, name: str = "run", version: str = "v1") -> Object:
        resource = (
            PIPELINERUNS
            if version == "v1"
            else type(PIPELINERUNS)("tekton.dev", version, "pipelineruns", "PipelineRun")
        )
        run = {
            "apiVersion": f"tekton.dev/{version}",
            "kind": "PipelineRun",
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self.world.client.create(resource, run, namespace="default")

    async def over(self, name: str = "run") -> Object:
        def ended() -> Object | None:
            run = self.world.stored(PIPELINERUNS, name)
            return run if run is not None and conditions.is_done(run) else None

        found = await self.world.until(f"{name} is over", ended)
        assert isinstance(found, dict)
        return found


@pytest.fixture
async def tekton(tmp_path: Path) -> AsyncIterator[TektonWorld]:
    async with cluster(tmp_path) as world:
        world.kubelet.exits = lambda pod: "Succeeded"
        made = TektonWorld(world, tmp_path)
        made.start()  # before the definitions are there, as in the control plane
        for crd in crds():
            await world.client.create(CRDS, crd)
        yield made
        await made.stop()


def tasks(*names: str) -> list[Any]:
    made: list[Any] = []
    for name in names:
        made.append(
            {
                "name": name,
                "taskSpec": {"steps": [STEP]},
                **({"runAfter": [made[-1]["name"]]} if made else {}),
            }
        )
    return made


async def test_a_pipeline_runs_and_everything_goes_with_its_run(tekton: TektonWorld) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
    pipeline = {"tasks": tasks("a", "b"), "workspaces": [{"name": "w"}]}
    await tekton.create(
        {"pipelineSpec": pipeline, "workspaces": [{"name": "w", "volumeClaimTemplate": template}]}
    )
    run = await tekton.over()
    assert conditions.reason(run) == "Succeeded"
    world = tekton.world
    assert [p["metadata"]["name"] for p in world.all(PODS)] == ["run-a-pod", "run-b-pod"]
    assert len(world.all(PERSISTENTVOLUMECLAIMS)) == 1
    await world.client.delete(PIPELINERUNS, "run", "default")
    await world.until(
        "all is gone",
        lambda: not (world.all(TASKRUNS) or world.all(PODS) or world.all(PERSISTENTVOLUMECLAIMS)),
    )


async def test_a_pod_that_the_api_refuses_fails_its_task(tekton: TektonWorld) -> None:
    template = {"nodeSelector": {"type": "no label at all"}}
    await tekton.create({"pipelineSpec": {"tasks": tasks("a")}, "taskRunTemplate": {"podTemplate": template}})
    run = await tekton.over()
    assert conditions.reason(run) == "Failed"
    (child,) = tekton.world.all(TASKRUNS)
    assert conditions.reason(child) == "PodCreationFailed"
    assert 'failed to create task run pod "run-a"' in child["status"]["conditions"][0]["message"]


async def test_who_follows_a_run_that_is_deleted_is_told(tekton: TektonWorld) -> None:
    steps = tuple(Step(name, (Block("pass"),)) for name in ("a", "b"))
    pipeline = Pipeline(Settings(name="run"), (), steps)
    client = tekton.world.client
    tekton.world.kubelet.exits = lambda pod: ""
    made = await tekton.create({"pipelineSpec": {"tasks": tasks("a", "b")}})
    following = asyncio.create_task(Follower(client, pipeline, made, Quiet(None)).run())
    await tekton.world.until("a pod runs", lambda: bool(tekton.world.all(PODS)))
    await client.delete(PIPELINERUNS, "run", "default")
    async with asyncio.timeout(SECONDS):
        ended = await following
    assert (ended.succeeded, ended.reason, ended.message) == (False, "Deleted", "the run was deleted")


async def test_a_table_has_tektons_columns_and_both_versions_are_served(tekton: TektonWorld) -> None:
    await tekton.create({"pipelineSpec": {"tasks": tasks("a")}}, version="v1beta1")
    await tekton.over()
    path = "/apis/tekton.dev/v1/namespaces/default/pipelineruns"
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = json.loads(await tekton.world.client.raw_get(path, accept=accept))
    names = [c["name"] for c in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Succeeded", "Reason", "StartTime", "CompletionTime"]
    assert table["rows"][0]["cells"][:3] == ["run", "True", "Succeeded"]


async def test_v1beta1_is_stored_as_v1_and_shown_as_either(tekton: TektonWorld) -> None:
    step = {"name": "main", "image": "busybox", "script": "true", "resources": {"requests": {"cpu": "1m"}}}
    old = Resource("tekton.dev", "v1beta1", "pipelineruns", "PipelineRun")
    spec = {"timeout": "5m", "pipelineSpec": {"tasks": [{"name": "a", "taskSpec": {"steps": [step]}}]}}
    await tekton.create({**spec, "serviceAccountName": "default"}, version="v1beta1")
    run = await tekton.over()
    assert run["apiVersion"] == "tekton.dev/v1"
    assert run["spec"]["taskRunTemplate"] == {"serviceAccountName": "default"}
    assert run["spec"]["timeouts"] == {"pipeline": "5m"}
    assert run["spec"]["pipelineSpec"]["tasks"][0]["taskSpec"]["steps"][0]["computeResources"]
    (pod,) = tekton.world.all(PODS)
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1m"}}
    shown = await tekton.world.client.get(old, "run", "default")
    assert shown["apiVersion"] == "tekton.dev/v1beta1"
    assert shown["spec"]["serviceAccountName"] == "default"
    assert shown["spec"]["pipelineSpec"]["tasks"][0]["taskSpec"]["steps"][0]["resources"]
    patched = await tekton.world.client.patch(old, "run", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["generation"] == 1, "nothing of the spec has changed"
    stored = tekton.world.stored(PIPELINERUNS, "run")
    assert stored is not None
    assert stored["spec"] == run["spec"]


@pytest.mark.parametrize(("asked", "expected", "steps"), [(None, 4, 50), (6, 6, 8)])
async def test_steps_that_wait_for_none_run_four_at_a_time_unless_asked(
    asked: int | None, expected: int, steps: int, tekton: TektonWorld
) -> None:
    """A kernel is a pod that has not ended: counted in every state that the store went through."""
    notebook = compiled(*((f"step:s{i}", f"x{i} = {i}") for i in range(steps)))
    (run,) = local.emit(notebook.checked(), Options(run_name="run", at_once=asked))
    run["spec"]["workspaces"] = [{"name": "data", "emptyDir": {}}]  # nothing here makes volumes
    world, kubelet = tekton.world, tekton.world.kubelet
    kubelet.exits = lambda pod: ""
    watch = world.store.watch("/core/pods/", world.store.revision)
    await world.client.create(PIPELINERUNS, run, namespace="default")
    for ended in range(0, steps, expected):
        there = min(ended + expected, steps)
        await world.until(f"{there} steps were started", lambda there=there: len(kubelet.started) >= there)
        for name in kubelet.started[ended:there]:
            pod = world.stored(PODS, name)
            assert pod is not None
            await kubelet.report(pod, "Succeeded")
    assert conditions.reason(await tekton.over()) == "Succeeded"
    running: set[str] = set()
    most = 0
    for event in watch.drain():
        pod = event.stored.obj
        over = event.type == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed")
        (running.discard if over else running.add)(pod["metadata"]["name"])
        most = max(most, len(running))
    watch.close()
    assert (most, running) == (expected, set())
    assert sorted(kubelet.started) == sorted(f"run-s{i}-pod" for i in range(steps))


def chained(*names: str, **options: Any) -> Object:
    """Return a run of a notebook's steps one after another."""
    cells = [(f"step:{n}" + (f" prev:{p}" if p else ""), f"{n} = 1") for p, n in zip(("", *names), names)]
    (run,) = local.emit(compiled(*cells).checked(), Options(run_name="run", **options))
    run["spec"]["workspaces"] = [{"name": "data", "emptyDir": {}}]  # nothing here makes volumes
    return run


def has_its_turn(pod: Object | None) -> bool:
    return pod is not None and pod["metadata"]["annotations"].get("tekton.dev/ready") == "READY"


async def test_prepared_pods_have_their_turn_once_and_in_order_whatever_dies(tekton: TektonWorld) -> None:
    """The controllers die at every turn, two pods before theirs; told from every state that the store went through."""
    names = ("a", "b", "c", "d", "e", "f")
    world, kubelet = tekton.world, tekton.world.kubelet
    kubelet.exits = lambda pod: ""
    watch = world.store.watch("/core/pods/", world.store.revision)
    await world.client.create(PIPELINERUNS, chained(*names), namespace="default")

    async def running(name: str, *, turn: bool) -> Object:
        def found() -> Object | None:
            pod = world.stored(PODS, f"run-{name}-pod")
            there = pod is not None and pod["status"].get("phase") == "Running" and has_its_turn(pod) == turn
            return pod if there else None

        pod = await world.until(f"{name} {'has its turn' if turn else 'waits'}", found)
        assert isinstance(pod, dict)
        return pod

    for name in names:
        pod = await running(name, turn=True)
        if name in ("a", "d"):
            early = [await running(other, turn=False) for other in ("bcd" if name == "a" else "ef")]
            await kubelet.report(early[0], "Failed", code=137)
        await tekton.stop()
        tekton.start()
        await kubelet.report(pod, "Succeeded")
    run = await tekton.over()
    assert conditions.reason(run) == "Succeeded"
    assert [c["pipelineTaskName"] for c in run["status"]["childReferences"]] == list(names)
    unfinished: set[str] = set()
    turns: list[tuple[str, str]] = []
    most = 0
    for event in watch.drain():
        pod = event.stored.obj
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        over = event.type == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed")
        (unfinished.discard if over else unfinished.add)(uid)
        most = max(most, len(unfinished))
        if has_its_turn(pod) and (name, uid) not in turns:
            turns.append((name, uid))
    watch.close()
    assert (most, unfinished) == (4, set())
    assert [name for name, _ in turns] == [f"run-{name}-pod" for name in names]
    assert sorted(kubelet.started) == sorted([*(f"run-{n}-pod" for n in names), "run-b-pod", "run-e-pod"])


async def test_after_a_failure_nothing_is_left_of_what_was_prepared(tekton: TektonWorld) -> None:
    world, kubelet = tekton.world, tekton.world.kubelet
    kubelet.exits = lambda pod: ""
    await world.client.create(PIPELINERUNS, chained("a", "b", "c"), namespace="default")
    await world.until("the others wait", lambda: len(kubelet.started) == 3)
    await tekton.stop()
    pod = world.stored(PODS, "run-a-pod")
    assert pod is not None
    await kubelet.report(pod, "Failed", code=1)
    tekton.start()
    run = await tekton.over()
    assert conditions.reason(run) == "Failed"
    assert {s["name"]: s["reason"] for s in run["status"]["skippedTasks"]} == dict.fromkeys(
        ("b", "c"), "PipelineRun was stopping"
    )
    await world.until("only the first is left", lambda: len(world.all(TASKRUNS)) == len(world.all(PODS)) == 1)
    assert [c["name"] for c in run["status"]["childReferences"]] == ["run-a"]


async def test_controllers_that_are_killed_at_any_time_make_nothing_twice(tekton: TektonWorld) -> None:
    names = ("a", "b", "c", "d")
    await tekton.create({"pipelineSpec": {"tasks": tasks(*names)}})
    for name in names[:3]:
        await tekton.world.until(
            f"{name} is made", lambda name=name: tekton.world.stored(TASKRUNS, f"run-{name}")
        )
        await tekton.stop()
        tekton.start()
    await tekton.over()
    assert sorted(tekton.world.kubelet.started) == [f"run-{name}-pod" for name in names]
