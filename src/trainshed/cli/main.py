"""Entry point: every command, and nothing that takes time to import before one is chosen."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from trainshed import __version__
from trainshed.cli import cluster, images, jobs, notebook
from trainshed.cli.check import check
from trainshed.cli.render import render

app = typer.Typer(
    name="trainshed",
    help="Run Kubeflow training jobs on this machine or on any Kubernetes, unchanged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(jobs.run)
app.command()(jobs.follow)
app.command()(jobs.suspend)
app.command()(jobs.resume)
app.command()(jobs.delete)
app.command()(check)
app.command()(render)
app.command()(cluster.up)
app.command()(cluster.down)
app.command()(cluster.status)
app.command()(cluster.doctor)
app.command()(cluster.kubeconfig)
app.add_typer(images.app, name="image")
app.add_typer(notebook.app, name="notebook")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trainshed {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Run Kubeflow training jobs on this machine or on any Kubernetes, unchanged."""


def main() -> None:
    """Run the command line."""
    # What a command has to say it says itself; the parts it is made of log for servers.
    logging.getLogger("trainshed").addHandler(logging.NullHandler())
    app()


if __name__ == "__main__":
    main()
