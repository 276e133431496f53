"""`trainshed check`: what would happen to manifests, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer
from rich.markup import escape

from trainshed.cli.cluster import ensure_up
from trainshed.cli.console import err, out, user_errors, warn
from trainshed.cli.options import Context, Files, Kubeconfig, Namespace
from trainshed.kube.meta.objects import Object
from trainshed.sdk import manifests
from trainshed.sdk.check import Verdict, examine
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import REFUSED


def check(
    files: Files, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Say what would become of manifests, changing nothing.

    Names what the server refuses, and which fields the local node cannot honour. Exit code 1 when an object
    would be refused.
    """
    target = Target(kubeconfig, context, namespace)
    with user_errors():
        objects = manifests.load(files, warn)
        if target.is_local:
            ensure_up()
        verdicts = asyncio.run(_examine(target, objects))
        for verdict in verdicts:
            _print(verdict)
        for verdict in verdicts:
            for field in verdict.not_honoured:
                out.print(f"[yellow]![/] {escape(field.path)}: {escape(field.why)}")
        if not all(verdict.accepted for verdict in verdicts):
            raise typer.Exit(REFUSED)


async def _examine(target: Target, objects: Sequence[Object]) -> list[Verdict]:
    async with connected(target) as client:
        return await examine(client, objects, local=target.is_local)


def _print(verdict: Verdict) -> None:
    name = escape(f"{verdict.kind} {verdict.name}")
    if verdict.refusal is None:
        out.print(f"[green]✓[/] {name}: valid")
        return
    err.print(f"[red]✗[/] {name}: {escape(verdict.refusal.message)}")
    if verdict.refusal.hint:
        err.print(f"  [cyan]{escape(verdict.refusal.hint)}[/]")
