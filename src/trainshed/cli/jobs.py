"""Commands about training jobs: run, follow, suspend, resume, delete."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from trainshed.cli.console import err, note, out, user_errors
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.cli.view import LiveView, PlainView
from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource
from trainshed.sdk import apply as applying
from trainshed.sdk import manifests
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import REFUSED, UserError
from trainshed.sdk.follow import Follower, Outcome
from trainshed.sdk.summary import failure_lines, success_lines

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Manifest files or directories; - is standard input.", show_default=False
    ),
]
JobName = Annotated[
    str, typer.Argument(metavar="NAME", help="The job: NAME, or KIND/NAME such as pytorchjob/mnist.")
]


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
        objects = manifests.load(files)
        if target.is_local:
            from trainshed.cli.cluster import ensure_up
            from trainshed.cluster.images.directories import ImageRegistry
            from trainshed.sdk.images import register_beside

            paths = ensure_up()
            for name in register_beside(files, ImageRegistry(paths.images_file)):
                note(f"image {escape(name)} stands for directories of this machine (images.yaml)")
        raise typer.Exit(asyncio.run(_run(target, objects, detach)))


async def _run(target: Target, objects: list[Object], detach: bool) -> int:
    async with connected(target) as client:
        return await apply_and_follow(client, objects, detach=detach)


async def apply_and_follow(client: Client, objects: list[Object], *, detach: bool) -> int:
    """Apply the objects and, unless `detach`, follow their jobs to the end; return the exit code.

    Raises:
        ApiError, UserError: something is refused. Then nothing was applied.
    """
    if not any(jobstate.is_of_training(obj) for obj in objects):
        await applying.try_all(client, objects, client.namespace)  # what is wrong with them comes first
        raise UserError(
            "there is no training job to follow, so nothing was applied",
            "kubectl apply -f applies objects of any kind",
        )
    for obj in objects:
        jobstate.require_replicas(obj)
    await _remove_finished(client, objects)
    applied = await applying.apply_all(client, objects, client.namespace)
    for each in applied:
        note(f"{each.resource.group_resource}/{escape(each.obj['metadata']['name'])} {each.change}")
    jobs = [each for each in applied if jobstate.is_training_job(each.obj)]
    if detach:
        for job in jobs:
            note(_how_to_go_on(job.resource, job.obj))
        return 0
    results = [await _follow(client, job.resource, job.obj) for job in jobs]
    return max(results, default=0)


async def _remove_finished(client: Client, objects: list[Object]) -> None:
    """Delete jobs of an earlier run that are over, so that `run` trains again."""
    kinds = applying.Kinds(client)
    for obj in objects:
        if not jobstate.is_training_job(obj):
            continue
        resource = await kinds.resource(obj)
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace") or client.namespace
        try:
            existing = await client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        if jobstate.is_finished(existing):
            # A dry run first: a manifest that the server refuses must not cost the finished job.
            await client.apply(
                resource,
                {**obj, "metadata": {**obj["metadata"], "namespace": namespace}},
                field_manager=applying.FIELD_MANAGER,
                dry_run=True,
                field_validation="Strict",
            )
            note(f"{resource.group_resource}/{escape(name)} of an earlier run is finished: replacing it")
            await client.delete(resource, name, namespace, propagation_policy="Foreground")
            await _wait_gone(client, resource, name, namespace)


async def _wait_gone(client: Client, resource: Resource, name: str, namespace: str) -> None:
    try:
        async with asyncio.timeout(60):
            while True:
                await client.get(resource, name, namespace)
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise UserError(f"{resource.group_resource}/{name} is still being deleted after 60 s") from error
    except ApiError as error:
        if error.code != 404:
            raise


async def _follow(client: Client, resource: Resource, job: Object) -> int:
    """Follow the job on the terminal; return the exit code. The first Ctrl-C detaches."""
    live = out.is_terminal
    with LiveView(out) if live else PlainView(out, err) as view:
        following = asyncio.create_task(Follower(client, resource, job, view).run())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, following.cancel)
        try:
            outcome = await following
        except asyncio.CancelledError:
            outcome = None
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    if outcome is None:
        note(
            f"\ndetached: {job['kind']} {escape(job['metadata']['name'])} goes on\n"
            + _how_to_go_on(resource, job)
        )
        return 0
    return await _report(client, outcome, job)


async def _report(client: Client, outcome: Outcome, job: Object) -> int:
    if outcome.job is None:
        note(f"{job['kind']} {escape(job['metadata']['name'])} was deleted")
        return REFUSED
    if jobstate.condition(outcome.job, "Succeeded"):
        for line in await success_lines(client, outcome):
            out.print(escape(line))
        return 0
    for line in failure_lines(outcome):
        err.print(escape(line))
    return REFUSED


def _how_to_go_on(resource: Resource, job: Object) -> str:
    metadata = job["metadata"]
    target = f"{resource.plural.removesuffix('s')}/{metadata['name']} -n {metadata['namespace']}"
    return "\n".join(
        f"  {verb:<8} trainshed {verb} {target}" for verb in ("follow", "suspend", "resume", "delete")
    )


def follow(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Follow a job: its conditions, replicas, logs and progress. Exit code as of run."""

    async def main() -> int:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            resource, job = await _find(client, name)
            return await _follow(client, resource, job)

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
            resource, job = await _find(client, name)
            if jobstate.is_finished(job):
                raise UserError(f"{job['kind']} {job['metadata']['name']} is finished already")
            patch = {"spec": {"runPolicy": {"suspend": value}}}
            await client.patch(resource, job["metadata"]["name"], job["metadata"]["namespace"], patch)
            note(
                f"{resource.group_resource}/{escape(job['metadata']['name'])} {'suspended' if value else 'resumed'}"
            )

    with user_errors():
        asyncio.run(main())


def delete(
    name: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Delete a job and its pods. Claims and what lies on them stay."""

    async def main() -> None:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            resource, job = await _find(client, name)
            metadata = job["metadata"]
            await client.delete(
                resource, metadata["name"], metadata["namespace"], propagation_policy="Foreground"
            )
            note(f"{resource.group_resource}/{escape(metadata['name'])} deleted")

    with user_errors():
        asyncio.run(main())


async def _find(client: Client, name: str) -> tuple[Resource, Object]:
    """Return the job that `NAME` or `KIND/NAME` means."""
    kind, _, bare = name.rpartition("/")
    document = msgspec.json.decode(await client.raw_get("/apis/kubeflow.org/v1", accept="application/json"))
    served = [
        Resource("kubeflow.org", "v1", r["name"], r["kind"], r["namespaced"])
        for r in document["resources"]
        if "/" not in r["name"]
    ]
    wanted = kind.lower().partition(".")[0]
    candidates = [r for r in served if not kind or wanted in (r.plural, r.kind.lower())]
    if not candidates:
        raise UserError(f'no job kind "{kind}"', "one of: " + ", ".join(r.kind for r in served))
    for resource in candidates:
        try:
            return resource, await client.get(resource, bare)
        except ApiError as error:
            if error.code != 404:
                raise
    plurals = ",".join(resource.plural for resource in candidates)
    raise UserError(
        f'no job "{bare}" in namespace {client.namespace}', f"kubectl get {plurals} -A lists them"
    )


def is_interactive() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
