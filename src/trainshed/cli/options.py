"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Manifest files or directories; - is standard input.", show_default=False
    ),
]
JobName = Annotated[
    str, typer.Argument(metavar="NAME", help="The job: NAME, or KIND/NAME such as pytorchjob/mnist.")
]
