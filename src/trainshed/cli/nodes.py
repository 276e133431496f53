"""Commands about the nodes of the local cluster."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from trainshed.cli.console import note, user_errors
from trainshed.sdk.nodes import set_killed

app = typer.Typer(help="Kill a node of the local cluster, and start it again.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `kubectl get nodes` shows it.")]


@app.command()
def kill(name: Name) -> None:
    """End a node as if its power failed: its pods' processes are gone, and nobody says so.

    The cluster sees what any cluster sees: after 40 s the node is NotReady and tainted as unreachable, after the 300 s
    that pods tolerate by default they are deleted, and stay Terminating until the node is back.
    """
    with user_errors():
        asyncio.run(set_killed(name, killed=True))
        note(f"node {escape(name)} is dead: trainshed node start {escape(name)} brings it back")


@app.command()
def start(name: Name) -> None:
    """Start a node again that was killed, as after a reboot: what it ran is found dead, and started anew or ended."""
    with user_errors():
        asyncio.run(set_killed(name, killed=False))
        note(f"node {escape(name)} starts")
