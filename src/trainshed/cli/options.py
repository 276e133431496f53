"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from trainshed.cli.completion import complete_job

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Use the cluster of this kubeconfig instead of the local one."
    ),
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Use this context of the kubeconfig.")
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the request.")
]
TextOrJson = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")]
_Manifests = typer.Argument(
    metavar="FILE", help="Manifest files or directories; - is standard input.", show_default=False
)
Files = Annotated[list[str], _Manifests]
Filenames = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE", help="The same, as kubectl spells it; may be repeated."),
]
JobName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The job: NAME, or KIND/NAME such as pytorchjob/mnist.",
        autocompletion=complete_job,
    ),
]
JobNames = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="The jobs: NAME, or KIND/NAME such as pytorchjob/mnist.",
        autocompletion=complete_job,
    ),
]


def files_of(files: list[str] | None, filenames: list[str] | None) -> list[str]:
    """Return the manifests that a command was given. Raises a usage error when it was given none."""
    given = [*(files or ()), *(filenames or ())]
    if not given:
        raise typer.BadParameter(
            "name a manifest, a directory of manifests, or - for standard input", param_hint="FILE"
        )
    return given
