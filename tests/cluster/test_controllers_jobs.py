"""Controllers of batch/v1 on the real API server: Jobs through crashes, limits and policies, CronJobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster, conditions
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import (
    CRONJOBS,
    JOBS,
    PODS,
    Resource,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


async def until_job(world: World, condition: str) -> Object:
    """Wait until the condition of the Job is true; return the Job."""

    def job() -> Object | None:
        found = world.stored(JOBS, "job")
        return found if condition in conditions(found) else None

    found: Object = await world.until(f"the Job is {condition}", job)
    return found


def make_job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def test_a_job_completes(world: World) -> None:
    world.kubelet.exits = lambda pod: "Succeeded"
    await world.client.create(JOBS, make_job(completions=5, parallelism=2))
    job = await until_job(world, "Complete")
    assert job["status"]["succeeded"] == 5
    assert "active" not in job["status"] and "failed" not in job["status"]
    assert job["status"]["uncountedTerminatedPods"] == {}
    assert conditions(job) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert job["status"]["completionTime"] and job["status"]["startTime"]
    pods = world.all(PODS)
    assert len(pods) == len(world.kubelet.started) == 5
    assert not any(pod["metadata"].get("finalizers") for pod in pods)
    await world.settle()


@pytest.mark.parametrize("lag", [{"pods": 0.3}, {"jobs": 0.3}, {"jobs": 0.2, "pods": 0.3}])
async def test_a_job_with_old_mirrors_runs_nothing_twice(world: World, lag: dict[str, float]) -> None:
    await world.stop()
    world.lag = lag
    await world.start()
    world.kubelet.exits = lambda pod: "Succeeded"
    await world.client.create(JOBS, make_job(completions=4, parallelism=2))
    await until_job(world, "Complete")
    assert len(world.kubelet.started) == 4
    assert (world.stored(JOBS, "job") or {})["status"]["succeeded"] == 4


async def test_an_indexed_job_runs_every_index_once_through_crashes(world: World) -> None:
    world.kubelet.exits = lambda pod: "Succeeded"
    await world.client.create(JOBS, make_job(completions=6, parallelism=3, completionMode="Indexed"))
    for count in range(1, 6):
        await world.until(f"{count} pods", lambda c=count: len(world.kubelet.started) >= c)
        await world.stop()
        await world.start()
    await until_job(world, "Complete")
    indexes = [
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in world.all(PODS)
    ]
    assert sorted(indexes) == list("012345")
    job = world.stored(JOBS, "job")
    assert job is not None and job["status"]["completedIndexes"] == "0-5"
    (pod,) = [
        p
        for p in world.all(PODS)
        if p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "4"
    ]
    assert pod["spec"]["hostname"] == "job-4"
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


async def test_a_failing_job_ends_at_its_backoff_limit(world: World) -> None:
    world.kubelet.exits = lambda pod: "Failed"
    await world.client.create(JOBS, make_job(backoffLimit=0))
    job = await until_job(world, "Failed")
    assert conditions(job) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert job["status"]["failed"] == 1
    assert len(world.kubelet.started) == 1


async def test_a_deadline_ends_running_pods(world: World) -> None:
    await world.client.create(JOBS, make_job(activeDeadlineSeconds=1, parallelism=2, completions=2))
    job = await until_job(world, "Failed")
    assert conditions(job)["Failed"] == "DeadlineExceeded"
    await world.until("no pods", lambda: not world.all(PODS))


async def test_suspend_takes_pods_away_without_counting_them(world: World) -> None:
    await world.client.create(JOBS, make_job(parallelism=2, completions=2))
    await world.until("two running", lambda: sum(map(is_ready, world.all(PODS))) == 2)
    await world.client.patch(JOBS, "job", "default", {"spec": {"suspend": True}})
    await world.until("no pods", lambda: not world.all(PODS))
    await world.settle()
    job = world.stored(JOBS, "job")
    assert conditions(job) == {"Suspended": "JobSuspended"}
    assert job is not None and job["status"]["startTime"] and "failed" not in job["status"]
    world.kubelet.exits = lambda pod: "Succeeded"
    await world.client.patch(JOBS, "job", "default", {"spec": {"suspend": False}})
    await until_job(world, "Complete")


async def test_a_finished_job_expires_with_its_pods(world: World) -> None:
    world.kubelet.exits = lambda pod: "Succeeded"
    await world.client.create(JOBS, make_job(ttlSecondsAfterFinished=0))
    await world.until("the job ran", lambda: world.kubelet.started)
    await world.until("all gone", lambda: not world.all(JOBS) and not world.all(PODS))


async def test_pods_of_a_job_deleted_with_the_default_policy_stay_and_can_be_deleted(world: World) -> None:
    await world.client.create(JOBS, make_job())
    await world.until("running", lambda: any(map(is_ready, world.all(PODS))))
    await world.client.delete(JOBS, "job", "default")
    await world.until("no job", lambda: not world.all(JOBS))
    await world.until("untracked", lambda: not world.all(PODS)[0]["metadata"].get("finalizers"))
    (pod,) = world.all(PODS)
    await world.client.delete(PODS, pod["metadata"]["name"], "default")
    await world.until("no pod", lambda: not world.all(PODS))


def exits_with(world: World, codes: dict[str, int]) -> None:
    """Let pods of these completion indexes fail with these codes, and the others succeed."""
    index = "batch.kubernetes.io/job-completion-index"
    world.kubelet.codes = lambda pod: codes.get(pod["metadata"]["annotations"][index], 0)


async def test_a_pod_failure_policy_fails_the_job_at_once(world: World) -> None:
    rules = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    exits_with(world, {"0": 42, "1": -1})
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "podFailurePolicy": rules}
    await world.client.create(JOBS, make_job(**spec))
    job = await until_job(world, "Failed")
    assert conditions(job)["Failed"] == "PodFailurePolicy"
    assert (
        "failed with exit code 42 matching FailJob rule at index 0"
        in job["status"]["conditions"][0]["message"]
    )
    assert job["status"]["failed"] >= 1


async def test_a_job_goes_on_without_an_index_that_is_given_up(world: World) -> None:
    exits_with(world, {"1": 1})
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0}
    await world.client.create(JOBS, make_job(**spec))
    job = await until_job(world, "Failed")
    assert conditions(job)["Failed"] == "FailedIndexes"
    assert (job["status"]["completedIndexes"], job["status"]["failedIndexes"]) == ("0,2", "1")
    assert (job["status"]["succeeded"], job["status"]["failed"]) == (2, 1)


async def test_the_first_rank_decides_where_a_success_policy_says_so(world: World) -> None:
    exits_with(world, {"1": -1})
    policy = {"rules": [{"succeededIndexes": "0"}]}
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "successPolicy": policy}
    await world.client.create(JOBS, make_job(**spec))
    job = await until_job(world, "Complete")
    assert conditions(job)["Complete"] == "SuccessPolicy"


async def test_a_cron_job_makes_a_job_each_time_and_forgets_old_ones(world: World) -> None:
    world.kubelet.exits = lambda pod: "Succeeded"
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": "@every 1s",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": make_job()["spec"]},
        },
    }
    await world.client.create(CRONJOBS, cron_job)
    await world.until("a job that succeeded", lambda: conditions_of(world, JOBS))

    def status() -> Object:
        return (world.stored(CRONJOBS, "tick") or {})["status"]

    await world.until("its end in the status", lambda: status().get("lastSuccessfulTime"))
    await world.client.patch(CRONJOBS, "tick", "default", {"spec": {"suspend": True}})
    await world.client.delete(CRONJOBS, "tick", "default", propagation_policy="Background")
    await world.until("its jobs gone", lambda: not world.all(JOBS))


def conditions_of(world: World, resource: Resource) -> list[str]:
    """Return the types of true conditions of all objects."""
    return [
        condition["type"]
        for obj in world.all(resource)
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition["status"] == "True" and condition["type"] == "Complete"
    ]
