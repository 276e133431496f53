"""Commands about training jobs: run, follow, suspend, resume, delete."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from trainshed.cli.cluster import ensure_up
from trainshed.cli.console import err, note, out, user_errors, warn
from trainshed.cli.options import Context, Files, JobName, Kubeconfig, Namespace
from trainshed.cli.view import LiveView, PlainView
from trainshed.client.client import Client
from trainshed.kube.meta.objects import Object, name_of, namespace_of
from trainshed.sdk import jobs, local, manifests
from trainshed.sdk import run as running
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import REFUSED
from trainshed.sdk.follow import Follower, Outcome
from trainshed.sdk.images import register_beside
from trainshed.sdk.jobs import Found
from trainshed.sdk.summary import failure_of, success_of


def run(
    files: Files,
    namespace: Namespace = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Apply and return; do not follow.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Apply manifests and follow their training job to its end.

    Starts the local cluster when it is not up. Exit code 0: succeeded; 1: refused or failed. Ctrl-C detaches:
    the job goes on.
    """
    target = Target(kubeconfig, context, namespace)
    with user_errors():
        objects = manifests.load(files, warn)
        if target.is_local:
            paths = ensure_up().paths
            for name in register_beside(files, local.images(paths)):
                note(f"image {escape(name)} stands for directories of this machine (images.yaml)")
        raise typer.Exit(asyncio.run(_run(target, objects, detach)))


async def _run(target: Target, objects: Sequence[Object], detach: bool) -> int:
    async with connected(target) as client:
        plan = await running.plan_run(client, objects)
        applied = await running.carry_out(
            client, plan, lambda old: note(f"{escape(old.name)} of an earlier run is finished: replacing it")
        )
        for each in applied:
            note(f"{escape(each.name)} {each.change}")
        found = [Found(each.resource, each.obj) for each in applied if jobstate.is_training_job(each.obj)]
        if detach:
            for job in found:
                note(_how_to_go_on(job))
            return 0
        return max([await _follow(client, job) for job in found], default=0)


async def _follow(client: Client, job: Found) -> int:
    """Follow the job on the terminal; return the exit code. The first Ctrl-C detaches."""
    live = out.is_terminal
    with LiveView(out) if live else PlainView(out, err) as view:
        following = asyncio.create_task(Follower(client, job.resource, job.obj, view).run())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, following.cancel)
        try:
            outcome = await following
        except asyncio.CancelledError:
            outcome, view.detached = None, True
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    if outcome is None:
        note(f"\ndetached: {job.obj['kind']} {escape(name_of(job.obj))} goes on\n" + _how_to_go_on(job))
        return 0
    return await _report(client, outcome, job.obj)


async def _report(client: Client, outcome: Outcome, job: Object) -> int:
    if outcome.job is None:
        note(f"{job['kind']} {escape(name_of(job))} was deleted")
        return REFUSED
    if jobstate.condition(outcome.job, "Succeeded"):
        for line in (await success_of(client, outcome)).lines():
            out.out(line, highlight=False)
        return 0
    for line in failure_of(outcome).lines():
        err.out(line, highlight=False)
    return REFUSED


def _how_to_go_on(job: Found) -> str:
    target = f"{job.resource.plural.removesuffix('s')}/{name_of(job.obj)} -n {namespace_of(job.obj)}"
    return "\n".join(
        f"  {verb:<8} trainshed {verb} {target}" for verb in ("follow", "suspend", "resume", "delete")
    )


def follow(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Follow a job: its conditions, replicas, logs and progress. Exit code as of run."""

    async def main() -> int:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            return await _follow(client, await jobs.find(client, name))

    with user_errors():
        raise typer.Exit(asyncio.run(main()))


def suspend(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Suspend a job: its pods are deleted, the job stays. `trainshed resume` undoes it."""
    _set_suspend(Target(kubeconfig, context, namespace), name, True)


def resume(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Resume a suspended job: its pods are created again."""
    _set_suspend(Target(kubeconfig, context, namespace), name, False)


def _set_suspend(target: Target, name: str, value: bool) -> None:
    async def main() -> None:
        async with connected(target) as client:
            job = await jobs.find(client, name)
            await jobs.set_suspend(client, job, value)
            note(f"{escape(job.name)} {'suspended' if value else 'resumed'}")

    with user_errors():
        asyncio.run(main())


def delete(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Delete a job and its pods, and wait until they are gone. Claims and what lies on them stay."""

    async def main() -> None:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            job = await jobs.find(client, name)
            await jobs.delete(client, job, wait=True)
            note(f"{escape(job.name)} deleted")

    with user_errors():
        asyncio.run(main())
