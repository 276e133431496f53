"""What a shell is offered when it asks: names of jobs and replicas, as the cluster has them now, and of steps."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from trainshed.client.client import Client
    from trainshed.pipelines.ir import Pipeline

_SECONDS = 5.0
"""How long a shell may be kept waiting."""

Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]


def completion(shell: Shell) -> None:
    """Print the script that completes words in a shell.

    Those are commands, options, and the names of jobs, replicas and steps. bash: source <(trainshed completion bash).
    zsh: the same, after compinit. fish: trainshed completion fish | source.
    """
    from typer._completion_shared import get_completion_script  # it has no public name

    typer.echo(get_completion_script(prog_name="trainshed", complete_var="_TRAINSHED_COMPLETE", shell=shell))


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the jobs that begin so; with their kind once a `/` was typed."""
    from trainshed.kube.meta.objects import name_of
    from trainshed.sdk import jobs

    async def names(client: Client) -> list[str]:
        found = await jobs.list_jobs(client, client.namespace)
        qualified = "/" in incomplete
        return [
            f"{job.resource.kind.lower()}/{name_of(job.obj)}" if qualified else name_of(job.obj)
            for job in found
        ]

    return _asked(ctx, names, incomplete)


def complete_image(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the images of the store that begin so."""
    from trainshed.cluster.images.store.store import ImageStore
    from trainshed.cluster.paths import StatePaths

    try:
        names = [name.familiar for name in ImageStore(StatePaths.default().image_store).all()]
    except Exception:  # as in `_asked`
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_step(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the steps, of the notebook that was named before, that begin so."""
    pipeline = _notebook(ctx)
    return [] if pipeline is None else [s.name for s in pipeline.steps if s.name.startswith(incomplete)]


def complete_parameter(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the parameters, of the notebook that was named before, that begin so, as `NAME=`."""
    pipeline = _notebook(ctx)
    names = [] if pipeline is None else [f"{p.name}=" for p in pipeline.parameters]
    return [name for name in names if name.startswith(incomplete)]


def _notebook(ctx: typer.Context) -> Pipeline | None:
    """Return the pipeline of the notebook that was named before; a Python file is not run for the press of a key."""
    from pathlib import Path

    from trainshed.sdk import notebook as notebooks

    # Behind an option whose value is asked for, what was named is not yet told from other words.
    words = map(str, (ctx.params.get("notebook"), *ctx.args))
    found = next((Path(word) for word in words if word.endswith(".ipynb")), None)
    try:
        return notebooks.load(found).pipeline if found is not None else None
    except Exception:  # as in `_asked`
        return None


def complete_replica(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the replicas of the job that was named before, as far as they begin so."""
    from trainshed.sdk import jobs
    from trainshed.sdk import state as jobstate

    async def names(client: Client) -> list[str]:
        job = await jobs.find(client, str(ctx.params.get("name")))
        return [jobstate.replica_name(pod) for pod in await jobs.pods_of(client, job.obj)]

    return _asked(ctx, names, incomplete)


def _asked(ctx: typer.Context, names: Callable[[Client], Awaitable[list[str]]], incomplete: str) -> list[str]:
    from trainshed.sdk.connection import Target, connected

    async def ask() -> list[str]:
        options: dict[str, Any] = {
            name: ctx.params.get(name) for name in ("kubeconfig", "context", "namespace")
        }
        async with asyncio.timeout(_SECONDS), connected(Target(**options)) as client:
            return await names(client)

    try:
        found = asyncio.run(ask())
    except (
        Exception
    ):  # a shell in the middle of a line is no place for messages: there is just nothing to offer
        return []
    return sorted({name for name in found if name.startswith(incomplete)})


def main() -> None:
    """Complete the words after `kubectl trainshed`, as kubectl asks its plugins: offers, then what else to offer.

    Installed as `kubectl_complete-trainshed`. Protocol: kubectl, pkg/cmd/plugin.
    """
    words = sys.argv[1:]
    asked = {
        "_TRAINSHED_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("trainshed", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "trainshed.cli.main"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout.rstrip("\n") + ("\n" if done.stdout.strip() else "") + ":0\n")
