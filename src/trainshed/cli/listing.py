"""`trainshed list`: the training jobs of every kind, in one table."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import typer
from rich.markup import escape

from trainshed.cli.console import note, out, user_errors
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.kube.meta.duration import elapsed, human
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
            out.out("\n".join(rows(listed, all_namespaces, time.time())), highlight=False)


def rows(listed: Sequence[Summary], all_namespaces: bool, now: float) -> list[str]:
    """Return the table as lines, as long as they need to be: names are there to be read, copied and searched for."""
    table = [("NAMESPACE", "KIND", "NAME", "STATE", "REPLICAS", "TOOK", "AGE")]
    for job in listed:
        replicas = ", ".join(f"{kind} {count}" for kind, count in job.replicas.items())
        took = "" if job.seconds(now) is None else elapsed(job.seconds(now) or 0.0)
        age = human(max(now - job.created, 0.0))
        table.append((job.namespace, job.kind, job.name, job.state, replicas, took, age))
    widths = [max(map(len, column)) for column in zip(*table)]
    first = 0 if all_namespaces else 1
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row[first:], widths[first:])).rstrip()
        for row in table
    ]
