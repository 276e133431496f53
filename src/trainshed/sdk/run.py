"""`run` as a plan of steps: what is applied, which finished jobs are replaced, which jobs are to be followed.

    plan (reads and dry runs only) ──► replace what is finished ──► apply ──► the jobs

Nothing is changed before everything was found to be acceptable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trainshed.api.registry import is_of_our_groups
from trainshed.client.client import Client
from trainshed.jobs.engine.constants import LABEL_JOB_NAME
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, controller_uid, name_of, namespace_of, section, uid_of
from trainshed.kube.meta.pods import is_finished
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.sdk import state as jobstate
from trainshed.sdk.apply import Applied, Placed, apply_one, try_all
from trainshed.sdk.errors import UserError
from trainshed.sdk.gone import GONE_SECONDS, wait_gone


class RunPlan(msgspec.Struct, frozen=True):
    """What a run would do; a dry run accepted every object in it. With `replace`, jobs that run make way, too."""

    placed: tuple[Placed, ...]
    replace: bool = False

    @property
    def replaced(self) -> list[Placed]:
        """The jobs of an earlier run that make way, so that they train again: they are over, or being deleted."""
        return [p for p in self.placed if _makes_way(p, self.replace)]

    @property
    def running(self) -> list[Placed]:
        """The jobs of an earlier run that go on."""
        jobs = [p for p in self.placed if p.before is not None and jobstate.is_training_job(p.obj)]
        return [p for p in jobs if not _makes_way(p, self.replace)]


async def plan_run(client: Client, objects: Sequence[Object], *, replace: bool = False) -> RunPlan:
    """Return what a run of these objects would do, changing nothing.

    Raises:
        ApiError: what the server refuses, with the field path.
        UserError: no training job among them, one without replicas, or a kind that the server does not have.
    """
    for obj in objects:
        jobstate.require_replicas(obj)
    placed = await try_all(client, objects, client.namespace)  # what is wrong with them comes first
    if not any(is_of_our_groups(obj) for obj in objects):
        raise UserError(
            "there is no training job to follow, so nothing was applied",
            "kubectl apply -f applies objects of any kind",
        )
    return RunPlan(tuple(placed), replace)


async def carry_out(
    client: Client,
    plan: RunPlan,
    replacing: Callable[[Placed], None] = lambda placed: None,
) -> list[Applied]:
    """Replace what is finished, apply everything in order; `replacing` is told each job before it is deleted.

    Raises:
        ApiError: the server refuses now what it accepted when tried.
        UserError: a finished job does not go.
    """
    over = plan.replaced
    for placed in over:
        replacing(placed)
        assert placed.before is not None
        name, namespace = name_of(placed.obj), namespace_of(placed.obj)
        try:
            await delete_job(client, placed.resource, placed.before)
        except ApiError as error:
            if error.code != 404:  # one that was going may be gone
                raise
        await wait_gone(client, placed.resource, name, namespace, gone_seconds(placed.before))
    return [
        await apply_one(client, msgspec.structs.replace(placed, before=None) if placed in over else placed)
        for placed in plan.placed
    ]


async def delete_job(client: Client, resource: Resource, job: Object) -> None:
    """Have the job deleted with its pods; those of one that is over end at once. ApiError 404 when it is gone."""
    await client.delete(
        resource, name_of(job), namespace_of(job), propagation_policy="Foreground", uid=uid_of(job)
    )
    if jobstate.is_finished(job):
        await end_leftovers(client, job)


def gone_seconds(job: Object) -> float:
    """Return how long a job may take to go once it is deleted."""
    return GONE_SECONDS + jobstate.grace_seconds(job)


async def end_leftovers(client: Client, job: Object) -> None:
    """Have the pods of a job that is over end at once: nobody waits for what they still do.

    With a second of grace the node still says when they are gone; without, their names would be free before that. That
    is no matter where no container of the job's own has started: such a pod waits for the others in its init container,
    whose shell would take the second.
    """
    selector = f"{LABEL_JOB_NAME}={name_of(job)}"
    for pod in (await client.list(PODS, namespace_of(job), label_selector=selector)).items:
        if controller_uid(pod) != uid_of(job) or is_finished(pod):
            continue
        try:
            await client.delete(
                PODS,
                name_of(pod),
                namespace_of(pod),
                grace_period_seconds=1 if jobstate.started_instances(pod) else 0,
                uid=uid_of(pod),
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def _makes_way(placed: Placed, replace: bool) -> bool:
    before = placed.before
    return (
        before is not None
        and jobstate.is_training_job(placed.obj)
        and (replace or jobstate.is_finished(before) or is_going(before))
    )


def is_going(obj: Object) -> bool:
    """Return whether the object is being deleted."""
    return bool(section(obj, "metadata").get("deletionTimestamp"))
