"""`trainshed render`: what the operator would create for jobs, without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from trainshed.cli.console import err, user_errors, warn
from trainshed.cli.options import Files, Namespace
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.yamltext import documents
from trainshed.sdk import manifests

if TYPE_CHECKING:
    from trainshed.sdk.render import Rendered


def render(
    files: Files,
    namespace: Namespace = None,
    output: Annotated[
        Literal["yaml", "json"], typer.Option("--output", "-o", help="How objects are written.")
    ] = "yaml",
    gang_scheduler_name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Who places the pods of a job together, as for `trainshed up`."),
    ] = "auto",
) -> None:
    """Print the objects that the operator would create.

    Pods, services and what else the kind of the job needs. Needs no cluster and changes nothing. The objects are
    those of the first start; the uid of the job, which only a server gives, is left out of their owner references.
    JSON is one List.
    """
    from trainshed.operator.install import embedded_options
    from trainshed.sdk.render import render_all

    options = embedded_options(gang_scheduler_name)
    with user_errors():
        rendered = render_all(
            manifests.load(files, warn, generated=True), namespace=namespace or "", options=options
        )
        for job in rendered:
            _say(job)
        sys.stdout.write(_text([obj for job in rendered for obj in job.objects], output))


def _say(job: Rendered) -> None:
    """Tell on stderr what is not in the objects."""
    name = escape(f"{job.kind} {job.name}")
    for warning in job.warnings:
        err.print(f"[yellow]![/] {name}: {escape(warning)}")
    if job.why_nothing:
        err.print(f"{name}: nothing is created, for {escape(job.why_nothing)}")


def _text(objects: Sequence[Object], output: Literal["yaml", "json"]) -> str:
    if output == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
    return f"---\n{documents(objects)}" if objects else ""
