"""The operator converges in a bad world and however old its caches are; `test_operator_sweep.py` has single faults.

Virtual time on a model of the API server. `tests/cluster/test_operator.py` runs on the real one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.api import FakeApi
from tests.fakes.operator_world import World, now
from tests.fakes.scenarios import SCENARIOS, SHAPES, Shape
from tests.fakes.training import (
    JOBS,
    PODS,
    FlakyTransport,
    LaggingTransport,
    conditions,
    make_job,
)
from tests.fakes.virtual_time import run_virtual
from trainshed.client.transport import Response
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta import resources
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.times import instant
from trainshed.kube.wire.request import Request
from trainshed.operator.metrics import OBJECT_COUNTERS

ALL = ["job-master-0", "job-worker-0", "job-worker-1"]


def test_a_job_runs_to_its_end() -> None:
    async def main() -> None:
        world = World()
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job())
        await world.until("all running", lambda: ("Running", "True") in conditions(world.job))
        assert world.names("pods") == world.names("services") == ALL
        pod = world.api.objects[f"{PODS}/job-worker-0"]
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "PyTorchJob",
            world.job["metadata"]["uid"],
            True,
        )
        await world.until_succeeded()
        assert conditions(world.job) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
        assert world.operator is not None
        assert world.operator.metrics.jobs("successful", "ns", "pytorch") == 1
        await world.close()

    run_virtual(main())


def test_pods_services_and_groups_are_counted_once() -> None:
    """A worker is replaced, and a service is refused and made later."""

    class Refusing(FakeApi):
        refusals = 1

        async def request(self, request: Request) -> Response:
            if request.method == "POST" and request.path.endswith("/services") and self.refusals:
                self.refusals -= 1
                error = ApiError(403, "Forbidden", "exceeded quota")
                return Response(403, {}, msgspec.json.encode(error.status()))
            return await super().request(request)

    async def main() -> None:
        options = OperatorOptions(gang_scheduler="scheduler-plugins-scheduler")
        world = World(options=options, seconds=60.0, failures={"job-worker-0": 1})
        refusing = Refusing(now)
        refusing.objects, refusing.log = world.api.objects, world.api.log
        world.api = world.kubelet._api = refusing
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job(cleanPodPolicy="All"))
        await world.until("success and clean-up", lambda: _over(world))
        assert world.operator is not None
        found = {name: world.operator.metrics.objects(name) for name in OBJECT_COUNTERS}
        assert found == {
            "created_pods": 4,
            "deleted_pods": 4,
            "failed_pods": 1,
            "succeeded_service_creation": 3,
            "failed_service_creation": 1,
            "created_pod_groups": 1,
            "deleted_pod_groups": 1,
        }
        await world.close()

    def _over(world: World) -> bool:
        left = [*world.names("pods"), *world.names("services"), *world.names("podgroups")]
        return ("Succeeded", "True") in conditions(world.job) and not left

    run_virtual(main())


RESTART = next(scenario for scenario in SCENARIOS if scenario.name == "restart")
"""Its last pod fails once, and all pods are cleaned up in the end."""
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def world_of(shape: Shape, seconds: float, failures: dict[str, int]) -> World:
    options = OperatorOptions(gang_scheduler=shape.gang)
    return World(shape.kind, options, seconds=seconds, failures=failures, endless=shape.endless)


def run_with(shape: Shape, lag: dict[str, float]) -> tuple[dict[str, int], dict[str, int], dict[str, float]]:
    """Return how often each pod ran, what was told of creations and deletions, and what was counted."""

    async def main() -> tuple[dict[str, int], dict[str, int], dict[str, float]]:
        world = world_of(shape, 120.0, {shape.pods[-1]: 1})
        lags = {world.kind.plural if name == "jobs" else name: seconds for name, seconds in lag.items()}
        await world.start(LaggingTransport(world.api, lags))
        await world.api.put(world.path, **shape.job(RESTART.policy, **RESTART.run_policy))
        await world.until("success and clean-up", lambda: RESTART.over(world), 3000)
        await asyncio.sleep(300)
        events = {
            f"{event['reason']}: {event['message']}": event["count"]
            for path, event in world.api.objects.items()
            if "/events/" in path and event["reason"].startswith("Successful")
        }
        assert world.operator is not None
        counted = {
            word: world.operator.metrics.jobs(word, "ns", world.kind.framework)
            for word in ("created", "restarted", "successful")
        }
        runs = dict(Counter(world.kubelet.runs))
        await world.close()
        return runs, events, counted

    return run_virtual(main())


@pytest.mark.parametrize(
    "lag",
    [
        {"pods": 7.0},
        {"services": 7.0},
        {"jobs": 7.0},
        {"pods": 3.0, "jobs": 11.0},
        {"pods": 11.0, "services": 2.0, "jobs": 3.0},
    ],
    ids=lambda lag: "+".join(lag),
)
@EACH_SHAPE
def test_stale_caches_cause_no_duplicates(lag: dict[str, float], shape: Shape) -> None:
    """Each watch shows the world seconds late, and differently late: no pod twice, no event twice."""
    runs, events, counted = run_with(shape, lag)
    assert runs == RESTART.expected_runs(shape)
    assert events == run_with(shape, {})[1]
    assert counted == {"created": 1, "restarted": 1, "successful": 1}


@settings(max_examples=15)
@EACH_SHAPE
@given(seed=st.integers(0, 2**32))
def test_converges_in_a_bad_world(seed: int, shape: Shape) -> None:
    """Lost requests and answers, server errors, lagging caches, broken and compacted watches, kills: at random.

    In the end the job has succeeded, its pods are gone, and each ran as often as it should.
    """

    async def main() -> None:
        choose = random.Random(seed)
        last, other = shape.pods[-1], shape.pods[-2]
        world = world_of(shape, choose.choice([30.0, 200.0]), {last: 1, other: 2})
        await world.start(FlakyTransport(world.api, choose))
        await world.api.put(world.path, **shape.job(RESTART.policy, **RESTART.run_policy))
        for _ in range(choose.randrange(12)):
            await asyncio.sleep(choose.uniform(0, 20))
            match choose.randrange(3):
                case 0:
                    await world.kill()
                    await world.start(FlakyTransport(world.api, choose))
                case 1:
                    await world.api.drop_streams(cleanly=choose.random() < 0.5)
                case 2:
                    world.api.compact()
                    await world.api.drop_streams()
        await world.until("success and clean-up", lambda: RESTART.over(world), 5000)
        await asyncio.sleep(300)
        assert RESTART.over(world), "and it stays so"
        # A pod that is missing, or has failed, when the job is seen to have succeeded is not made any more.
        most = {name: 1 + {last: 1, other: 2}.get(name, 0) for name in shape.pods}
        runs = Counter(world.kubelet.runs)
        assert runs.keys() <= most.keys() and all(runs[name] <= most[name] for name in most), runs
        await world.close()

    run_virtual(main())


@EACH_SHAPE
def test_a_finished_job_from_an_old_list_is_not_run_again(shape: Shape) -> None:
    """A new process lists the job before it succeeded and the pods after they were cleaned up."""

    async def main() -> None:
        world = world_of(shape, 60.0, {})
        await world.start()
        await world.api.put(world.path, **shape.job("OnFailure", cleanPodPolicy="All"))
        await world.until("running", lambda: ("Running", "True") in conditions(world.job))
        old = world.job
        await world.until_succeeded()
        await world.until("clean-up", lambda: not world.names("pods") and not world.names("podgroups"))
        await world.kill()
        created = len(world.api.created)

        class OldJobs(LaggingTransport):
            """The list of jobs is from back then, and the watch shows nothing for a minute."""

            def __init__(self) -> None:
                super().__init__(world.api, {world.kind.plural: 60.0})
                self.request = self._request

            async def _request(self, request: Request) -> Any:
                current = world.job
                if request.method == "GET" and request.path.endswith(f"/{world.kind.plural}"):
                    world.api.objects[world.path] = old
                    try:
                        return await world.api.request(request)
                    finally:
                        world.api.objects[world.path] = current
                return await world.api.request(request)

        await world.start(OldJobs())
        await asyncio.sleep(200)
        again = [entry for entry in world.api.created[created:] if entry[0] != "events"]
        assert again == [], "a finished training must not start again"
        await world.close()

    run_virtual(main())


def test_a_pod_that_has_taken_the_name_of_a_deleted_one_is_not_hit() -> None:
    """The plan is from before the restart: it deletes the old pod by name, and the name is taken again."""

    async def main() -> None:
        world = World(seconds=10_000.0)
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job())
        await world.until("running", lambda: ("Running", "True") in conditions(world.job))
        gone = Delete(resource=resources.PODS, name="job-worker-0", namespace="ns", uid="of-the-one-before")
        plan = Plan(actions=(gone,))
        assert world.operator is not None
        executor = world.operator.reconcilers["pytorchjob-controller"].executor
        await executor.execute(world.job, plan)
        pod = world.api.objects[f"{PODS}/job-worker-0"]
        assert "deletionTimestamp" not in pod["metadata"]
        await world.close()

    run_virtual(main())


def test_a_deletion_that_is_refused_although_nothing_has_changed_is_tried_again() -> None:
    """A conflict with nothing in its place: no event would come that brings the job back."""

    class Contended(FakeApi):
        refusals = 0

        async def request(self, request: Request) -> Response:
            if request.method == "DELETE" and request.path.endswith("/pytorchjobs/job") and not self.refusals:
                self.refusals += 1
                error = ApiError(409, "Conflict", "Operation cannot be fulfilled")
                return Response(409, {}, msgspec.json.encode(error.status()))
            return await super().request(request)

    async def main() -> None:
        world = World()
        contended = Contended(now)
        contended.objects, contended.log = world.api.objects, world.api.log
        world.api = world.kubelet._api = contended
        await world.start()
        await contended.put(f"{JOBS}/job", **make_job(ttlSecondsAfterFinished=5))
        await world.until(
            "the job is deleted after its time to live", lambda: not world.job and contended.refusals == 1
        )
        await world.close()

    run_virtual(main())


def test_a_foreign_pod_is_reported_and_left_alone() -> None:
    async def main() -> None:
        world = World()
        foreign = await world.api.put(f"{PODS}/job-master-0", status={"phase": "Running"})
        world.kubelet.run = None  # type: ignore[assignment]
        world._kubelet_task.cancel()
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job())
        message = 'pods "job-master-0" already exists and is not controlled by PyTorchJob "job"'

        def reported() -> bool:
            return any(
                o.get("message") == f"Error creating: {message}" and o["type"] == "Warning"
                for o in world.api.objects.values()
            )

        await world.until("a warning", reported)
        assert conditions(world.job) == [("Created", "True")], (
            "the job has a beginning although a pod is refused"
        )
        assert world.job["status"]["startTime"]
        assert world.api.objects[f"{PODS}/job-master-0"] == foreign
        await world.api.remove(f"{PODS}/job-master-0")
        await world.until("recovery", lambda: world.names("pods") == ALL)
        await world.close()

    run_virtual(main())


def test_a_service_without_an_owner_is_reported_and_left_alone() -> None:
    """With the labels of the job's own, even."""

    async def main() -> None:
        world = World()
        await world.start()
        labels = {
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/job-name": "job",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0",
        }
        path = "/api/v1/namespaces/ns/services/job-worker-0"
        orphan = await world.api.put(path, metadata={"labels": labels})
        await world.api.put(f"{JOBS}/job", **make_job())
        message = 'services "job-worker-0" already exists and is not controlled by PyTorchJob "job"'

        def reported() -> bool:
            return any(
                o.get("reason") == "FailedCreateService" and o["message"] == f"Error creating: {message}"
                for o in world.api.objects.values()
            )

        await world.until("a warning", reported)
        assert world.api.objects[path] == orphan
        await world.close()

    run_virtual(main())


def test_a_deadline_is_kept_while_a_pod_is_refused() -> None:
    """The pauses between attempts grow up to 30 s, and the deadline lies in one of them."""

    async def main() -> None:
        world = World(seconds=3600.0)
        await world.api.put(f"{PODS}/job-worker-0", status={"phase": "Running"})
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job(activeDeadlineSeconds=80))
        await world.until("a start", lambda: bool((world.job.get("status") or {}).get("startTime")))
        await world.until("Failed", lambda: ("Failed", "True") in conditions(world.job))
        status = world.job["status"]
        assert instant(status["completionTime"]) - instant(status["startTime"]) == timedelta(seconds=80)
        await world.close()

    run_virtual(main())


def test_nothing_is_tried_again_in_a_namespace_that_is_being_deleted() -> None:
    class Ending(FakeApi):
        async def request(self, request: Request) -> Response:
            if request.method == "POST":
                self.calls.append((request.method, request.path))
                cause = Cause(
                    "NamespaceTerminating", "namespace ns is being terminated", "metadata.namespace"
                )
                error = ApiError(403, "Forbidden", "because it is being terminated", causes=[cause])
                return Response(403, {}, msgspec.json.encode(error.status()))
            return await super().request(request)

    async def main() -> None:
        world = World()
        ending = Ending()
        ending.objects, ending.log = world.api.objects, world.api.log
        await ending.put(f"{JOBS}/job", **make_job())
        world.api = ending
        await world.start()
        await world.until("a status", lambda: bool(conditions(world.job)))
        await asyncio.sleep(120)
        posts = [path for method, path in ending.calls if method == "POST"]
        assert len(posts) <= 2, posts
        assert not any("/events" in path for path in posts), "there is nobody to tell"
        await world.close()

    run_virtual(main())


def test_an_outage_only_pauses() -> None:
    async def main() -> None:
        world = World(seconds=30.0)
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job())
        await world.until("running", lambda: ("Running", "True") in conditions(world.job))
        world.api.fail_requests = 10**9
        await world.api.drop_streams()
        await asyncio.sleep(600)
        assert ("Succeeded", "True") not in conditions(world.job)
        world.api.fail_requests = 0
        loop = asyncio.get_running_loop()
        back = loop.time()
        await world.until_succeeded()
        assert loop.time() - back < 10, "soon after the API is back"
        assert Counter(world.kubelet.runs) == dict.fromkeys(ALL, 1)
        await world.close()

    run_virtual(main())


def test_deadline_is_kept_by_a_timer() -> None:
    """Nothing happens in the cluster when the deadline passes: only the requeue can notice."""

    async def main() -> None:
        world = World(seconds=10_000.0)
        await world.start()
        await world.api.put(f"{JOBS}/job", **make_job(activeDeadlineSeconds=100))
        await world.until("running", lambda: ("Running", "True") in conditions(world.job))
        loop = asyncio.get_running_loop()
        start = loop.time()
        await world.until("failure", lambda: ("Failed", "True") in conditions(world.job))
        assert 95 < loop.time() - start < 105
        await world.until("pods gone", lambda: not world.names("pods"))
        await world.close()

    run_virtual(main())
