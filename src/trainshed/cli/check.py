"""`trainshed check`: what would happen to manifests, without changing anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.markup import escape

from trainshed.cli.console import err, note, out, user_errors, warn
from trainshed.cli.options import Context, Files, Kubeconfig, Namespace
from trainshed.cluster.images.directories import Image
from trainshed.findings import Severity
from trainshed.kube.meta.objects import Object
from trainshed.sdk import images, manifests
from trainshed.sdk.check import Verdict, examine, examine_offline
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import REFUSED

_MARKS = {Severity.ERROR: "[red]✗[/]", Severity.WARNING: "[yellow]![/]", Severity.INFO: "[cyan]·[/]"}


def check(
    files: Files,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no cluster.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")] = "text",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what would become of manifests, changing nothing.

    Names what the server refuses, and foresees what keeps pods from starting or has no effect: a line for each
    finding, with the remedy. What comes in the same files counts as there. Without a running cluster the kinds are
    checked here, as with --offline. Exit code 0: nothing is in the way; 1: an object would be refused, or its pods
    could not start as things are.
    """
    target = Target(kubeconfig, context, namespace)
    with user_errors():
        objects = manifests.load(files, warn)
        verdicts = _verdicts(target, files, objects, offline)
        if output == "json":
            print_json(verdicts)
        else:
            for verdict in verdicts:
                print_verdict(verdict)
        if not all(verdict.can_start for verdict in verdicts):
            raise typer.Exit(REFUSED)


def _verdicts(target: Target, files: list[str], objects: Sequence[Object], offline: bool) -> list[Verdict]:
    known = images.known(files, target.paths.images_file) if target.is_local else None
    if not offline and target.is_local and not _is_up(target):
        note("no cluster runs: checked without one (trainshed up starts it)")
        offline = True
    if not offline:
        return asyncio.run(_examine(target, objects, known))
    from trainshed.sdk.foresight.gather import of_machine
    from trainshed.sdk.foresight.world import World
    from trainshed.sdk.local import kept_gang

    namespace = target.namespace or "default"
    if known is None:
        return examine_offline(objects, World(namespace=namespace))
    return examine_offline(objects, of_machine(namespace, known, kept_gang(target.paths)))


def _is_up(target: Target) -> bool:
    from trainshed.sdk import local

    return Path(target.paths.root).is_dir() and local.running(target.paths) is not None


async def _examine(
    target: Target, objects: Sequence[Object], known: dict[str, Image] | None
) -> list[Verdict]:
    async with connected(target) as client:
        return await examine(client, objects, local=target.is_local, images=known)


def print_json(verdicts: Sequence[Verdict]) -> None:
    """Print the verdicts as a list."""
    listed = [
        {
            "kind": verdict.kind,
            "namespace": verdict.namespace,
            "name": verdict.name,
            "accepted": verdict.accepted,
            "canStart": verdict.can_start,
            "refusal": verdict.refusal and verdict.refusal.message,
            "causes": verdict.causes,
            "warnings": verdict.warnings,
            "findings": [
                {k: v for k, v in msgspec.to_builtins(each).items() if k not in ("kind", "name")}
                for each in verdict.findings
            ],
        }
        for verdict in verdicts
    ]
    out.out(json.dumps(listed, indent=2, ensure_ascii=False), highlight=False)


def print_verdict(verdict: Verdict) -> None:
    """Print a verdict: a line, and one for each finding."""
    name = escape(f"{verdict.kind} {verdict.name}")
    if verdict.refusal is not None:
        _print_refusal(name, verdict)
        return
    if verdict.can_start:
        out.print(f"[green]✓[/] {name}: valid")
    else:
        out.print(f"[red]✗[/] {name}: valid, but it cannot start as things are")
    for warning in verdict.warnings:
        out.print(f"[yellow]![/] {name}: {escape(warning)}")
    for finding in verdict.findings:
        out.print(f"{_MARKS[finding.severity]} {escape(finding.text)} [dim]{finding.code}[/]")


def _print_refusal(name: str, verdict: Verdict) -> None:
    assert verdict.refusal is not None
    if len(verdict.causes) < 2 and not any("did you mean" in cause for cause in verdict.causes):
        said = verdict.causes[0] if verdict.causes else verdict.refusal.message
        err.print(f"[red]✗[/] {name}: {escape(said)}")
    else:
        err.print(f"[red]✗[/] {name}: refused")
        for cause in verdict.causes:
            err.print(f"  - {escape(cause)}")
    if verdict.refusal.hint:
        err.print(f"  [cyan]{escape(verdict.refusal.hint)}[/]")
