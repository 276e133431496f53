"""Suspend and resume: the three scenarios that every kind passes, and what lies between."""

from __future__ import annotations

from tests.unit.jobs_builders import NOW, make_job
from tests.unit.jobs_world import World
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time


def conditions(world: World) -> list[tuple[str, str, str, str]]:
    assert world.job is not None
    listed = world.job.get("status", {}).get("conditions", [])
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in listed]


def set_suspend(world: World, value: bool) -> None:
    assert world.job is not None
    world.excuse_all()
    world.job["spec"]["runPolicy"]["suspend"] = value


def status(world: World) -> Object:
    assert world.job is not None
    return dict(world.job.get("status", {}))


CREATED = ("Created", "True", "PyTorchJobCreated", "PyTorchJob train is created.")
SUSPENDED = ("Suspended", "True", "PyTorchJobSuspended", "PyTorchJob train is suspended.")
RESUMED = ("Suspended", "False", "PyTorchJobResumed", "PyTorchJob train is resumed.")
RUNNING = ("Running", "True", "PyTorchJobRunning", "PyTorchJob train is running.")


def running_world(**policy: str) -> World:
    world = World(make_job(master=1, workers=1, suspend=False, **policy), NOW)
    world.settle()
    for name in list(world.pods):
        world.start(name)
    world.settle()
    assert conditions(world) == [CREATED, RUNNING]
    return world


def test_s1_created_suspended() -> None:
    world = World(make_job(master=1, workers=1, suspend=True), NOW)
    world.settle()
    assert (world.pods, world.services) == ({}, {})
    assert conditions(world) == [CREATED, SUSPENDED]
    assert "startTime" not in status(world)


def test_s2_suspended_while_running_and_resumed() -> None:
    world = running_world()
    world.now += 5
    set_suspend(world, True)
    plan = world.reconcile()
    assert [e.reason for e in plan.events] == ["PyTorchJobSuspended"]
    for name in list(world.pods):
        world.reap(name)
    world.settle()
    assert (world.pods, world.services) == ({}, {})
    assert [replica.get("active") for replica in status(world)["replicaStatuses"].values()] == [None, None]
    assert status(world)["startTime"] == format_time(NOW)
    assert conditions(world) == [
        CREATED,
        ("Running", "False", "PyTorchJobSuspended", "PyTorchJob train is suspended."),
        SUSPENDED,
    ]
    assert not world.reconcile().events, "said once"

    world.now += 5
    set_suspend(world, False)
    plan = world.reconcile()
    assert [e.reason for e in plan.events] == ["PyTorchJobResumed"]
    assert not plan.actions, "pods are created when the resumption is written"
    world.settle()
    assert set(world.pods) == set(world.services) == {"train-master-0", "train-worker-0"}
    assert status(world)["startTime"] == format_time(NOW + 10)
    for name in list(world.pods):
        world.start(name)
    world.settle()
    assert conditions(world) == [CREATED, RESUMED, RUNNING]


def test_s3_managed_by_another_controller() -> None:
    job = make_job(master=1, workers=1, suspend=True, managedBy="kueue.x-k8s.io/multikueue")
    world = World(job, NOW)
    for suspend in (True, False):
        set_suspend(world, suspend)
        world.settle()
        assert (world.pods, world.services, status(world)) == ({}, {}, {})


def test_a_resumed_job_waits_for_the_pods_of_its_previous_run() -> None:
    """Else a pod that is still going holds the slot and counts as failed, which under Never fails the job."""
    world = running_world()
    assert world.job is not None
    for replica in world.job["spec"]["pytorchReplicaSpecs"].values():
        replica["restartPolicy"] = "Never"
    set_suspend(world, True)
    world.reconcile()
    set_suspend(world, False)
    world.settle()
    assert conditions(world)[-1] == SUSPENDED, "resumed too early"
    world.reap("train-worker-0")
    world.settle()
    assert "train-worker-0" not in world.pods, "started while the old master was going"
    world.reap("train-master-0")
    world.settle()
    assert set(world.pods) == {"train-master-0", "train-worker-0"}
    assert conditions(world)[-1] == RESUMED


def test_a_resume_that_finds_pods_alive_finishes_the_suspension_first() -> None:
    """The view may show pods as they were before the suspension deleted them."""
    world = running_world()
    set_suspend(world, True)
    before = world.observe()
    world.reconcile()
    set_suspend(world, False)
    for pod in before.owned[PODS]:
        world.pods[pod["metadata"]["name"]] = pod
    world.reconcile()
    assert conditions(world)[-1] == SUSPENDED
    assert all(world.is_terminating(name) for name in world.pods)


def test_suspended_by_a_user_while_restarting_keeps_what_was() -> None:
    world = running_world()
    world.end("train-worker-0", 137)
    world.reconcile()
    set_suspend(world, True)
    world.reconcile()
    assert [c[0] for c in conditions(world)] == ["Created", "Restarting", "Suspended"]
