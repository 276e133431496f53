"""Commands about training jobs: run, follow, suspend, resume, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from rich.markup import escape

from trainshed.cli import runinput
from trainshed.cli.cluster import ensure_up
from trainshed.cli.console import note, user_errors
from trainshed.cli.following import follow_all, how_to_go_on
from trainshed.cli.options import Context, Filenames, JobName, JobNames, Kubeconfig, Namespace, files_of
from trainshed.cli.runinput import Asked, RunCommand
from trainshed.cli.watching import run_again
from trainshed.client.client import Client
from trainshed.kube.meta.objects import Object
from trainshed.sdk import jobs, local
from trainshed.sdk import run as running
from trainshed.sdk import state as jobstate
from trainshed.sdk.apply import Applied, Placed
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.images import register_beside
from trainshed.sdk.jobs import Found


def run(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifest files or directories; - is standard input. Or a Python script and, after --, its arguments.",
            show_default=False,
        ),
    ] = None,
    filename: Filenames = None,
    namespace: Namespace = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Apply and return; do not follow.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete jobs of these names first, also such that still run.")
    ] = False,
    adapt: Annotated[
        bool,
        typer.Option(
            "--adapt",
            help="Leave out or scale down what cannot be had here, make missing claims, and show the difference;"
            " --adapt=print prints the result instead.",
        ),
    ] = False,
    cpu: Annotated[bool, typer.Option("--cpu", help="Like --adapt, and ask for no devices at all.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="How many workers train.")
    ] = None,
    nproc: Annotated[
        int | None,
        typer.Option("--nproc", min=1, metavar="N", help="Of a script: processes in each pod, by torchrun."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Of a script: kind of the job; PyTorchJob.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Run again whenever a file is saved.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be applied, and apply nothing.")
    ] = False,
    output: Annotated[
        Literal["yaml", "json"], typer.Option("--output", "-o", help="How --dry-run prints.")
    ] = "yaml",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run manifests or a script, and follow the jobs to their end.

    Starts the local cluster when it is not up. A job of an earlier run that is finished is replaced; one that runs goes
    on, unless --replace is given. A script becomes a PyTorchJob of so many workers, the first of them the master.
    Exit code 0: succeeded; 1: refused or failed. Ctrl-C detaches: the job goes on.
    """
    target = Target(kubeconfig, context, namespace)
    paths = files_of(files, filename)
    asked = Asked(adapt=adapt, cpu=cpu, workers=workers, nproc=nproc, kind=kind)
    with user_errors():
        if watch:
            raise typer.Exit(run_again(runinput.again(), runinput.watched(paths)))
        objects = runinput.read(paths, asked)
        if target.is_local and not dry_run:
            state = ensure_up().paths
            for name in register_beside(runinput.sources(paths), local.images(state)):
                note(f"image {escape(name)} stands for directories of this machine (images.yaml)")
        objects = asyncio.run(runinput.adapted(target, paths, objects, asked))
        if dry_run:
            runinput.print_objects(objects, output)
            return
        raise typer.Exit(asyncio.run(_run(target, objects, detach=detach, replace=replace)))


run.command_class = RunCommand  # type: ignore[attr-defined]


async def _run(target: Target, objects: Sequence[Object], *, detach: bool, replace: bool) -> int:
    async with connected(target) as client:
        plan = await running.plan_run(client, objects, replace=replace)
        applied = await running.carry_out(client, plan, _say_replaced)
        before = {placed.name for placed in plan.running}
        for each in applied:
            note(escape(_said_of(each, each.name in before)))
        found = [Found(each.resource, each.obj) for each in applied if jobstate.is_training_job(each.obj)]
        if detach:
            for job in found:
                note(how_to_go_on(job, target))
            return 0
        return await follow_all(client, target, found)


def _say_replaced(old: Placed) -> None:
    assert old.before is not None
    if running.is_going(old.before):
        note(f"{escape(old.name)} of an earlier run is being deleted: waiting until it is gone")
    elif jobstate.is_finished(old.before):
        note(f"{escape(old.name)} of an earlier run is finished: replacing it")
    else:
        note(f"{escape(old.name)} of an earlier run is still running: ending its pods and replacing it")


def _said_of(each: Applied, runs_already: bool) -> str:
    said = f"{each.name} {each.change}"
    if not runs_already:
        return said
    if each.change == "unchanged":
        return f"{said}: it runs already (--replace starts it anew)"
    return f"{said}: it runs already, and its pods stay as they are (--replace starts it anew)"


def follow(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Follow a job: its conditions, replicas, logs and progress. Exit code as of run."""
    target = Target(kubeconfig, context, namespace)

    async def main() -> int:
        async with connected(target) as client:
            return await follow_all(client, target, [await jobs.find(client, name)])

    with user_errors():
        raise typer.Exit(asyncio.run(main()))


def suspend(
    names: JobNames, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Suspend jobs: their pods are deleted, the jobs stay. `trainshed resume` undoes it."""
    _set_suspend(Target(kubeconfig, context, namespace), names, True)


def resume(
    names: JobNames, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Resume suspended jobs: their pods are created again."""
    _set_suspend(Target(kubeconfig, context, namespace), names, False)


def _set_suspend(target: Target, names: list[str], value: bool) -> None:
    async def main() -> None:
        async with connected(target) as client:
            for job in [await jobs.find(client, name) for name in names]:
                await jobs.set_suspend(client, job, value)
                note(f"{escape(job.name)} {'suspended' if value else 'resumed'}")

    with user_errors():
        asyncio.run(main())


def delete(
    names: JobNames, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Delete jobs and their pods, and wait until they are gone. Claims and what lies on them stay."""

    async def main() -> None:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            found = [await jobs.find(client, name) for name in dict.fromkeys(names)]
            await asyncio.gather(*(_gone(client, job) for job in found))

    with user_errors():
        asyncio.run(main())


async def _gone(client: Client, job: Found) -> None:
    if not jobstate.is_finished(job.obj) and await jobs.pods_of(client, job.obj):
        most = jobstate.grace_seconds(job.obj)
        note(f"{escape(job.name)}: ending its pods, which may take {most} s")
    await jobs.delete(client, job, wait=True)
    note(f"{escape(job.name)} deleted")
