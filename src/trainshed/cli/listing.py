"""`trainshed list`: the training jobs of every kind, in one table."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Literal

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from trainshed.cli.console import note, out, user_errors
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.kube.meta.duration import elapsed
from trainshed.sdk import jobs
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.jobs import Summary, summary_of


def list_jobs(
    namespace: Namespace = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of every namespace.")
    ] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")] = "text",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List training jobs, of all kinds."""

    async def found() -> list[Summary]:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            home = None if all_namespaces else client.namespace
            listed = [summary_of(job) for job in await jobs.list_jobs(client, home)]
            if not listed and output == "text":
                note(
                    "no training jobs"
                    + ("" if home is None else f" in namespace {escape(home)} (-A lists all)")
                )
            return listed

    with user_errors():
        listed = asyncio.run(found())
        if output == "json":
            out.out(json.dumps(msgspec.to_builtins(listed), indent=2), highlight=False)
        elif listed:
            out.print(_table(listed, all_namespaces, time.time()))


def _table(listed: list[Summary], all_namespaces: bool, now: float) -> Table:
    titles = ("NAMESPACE",) if all_namespaces else ()
    table = Table(*titles, "KIND", "NAME", "STATE", "REPLICAS", "TOOK", "AGE", box=None, pad_edge=False)
    for job in listed:
        replicas = ", ".join(f"{kind} {count}" for kind, count in job.replicas.items())
        took = "" if job.seconds(now) is None else elapsed(job.seconds(now) or 0.0)
        row = (job.kind, job.name, job.state, replicas, took, elapsed(max(now - job.created, 0.0)))
        table.add_row(*map(escape, (job.namespace, *row) if all_namespaces else row))
    return table
