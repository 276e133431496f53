"""Entry point: a line for every command, whose module is imported when the command is chosen."""

from __future__ import annotations

import gc
import logging
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from trainshed import __version__
from trainshed.cli import usage

_COLLECT_EVERY = 20_000
"""More new objects than imports leave at a time: nothing of those becomes garbage."""


class Entry(NamedTuple):
    """A command: where it is, and the first sentence of its help. A module alone stands for its `app`."""

    name: str
    home: str
    summary: str


COMMANDS = (
    Entry("run", "jobs:run", "Run manifests or a script, and follow the jobs to their end."),
    Entry("follow", "jobs:follow", "Follow a job: its conditions, replicas, logs and progress."),
    Entry("list", "listing:list_jobs", "List training jobs, of all kinds."),
    Entry("logs", "logs:logs", "Print what replicas of a job have printed, merged by time."),
    Entry("suspend", "jobs:suspend", "Suspend jobs: their pods are deleted, the jobs stay."),
    Entry("resume", "jobs:resume", "Resume suspended jobs: their pods are created again."),
    Entry("delete", "jobs:delete", "Delete jobs and their pods, and wait until they are gone."),
    Entry("check", "check:check", "Say what would become of manifests, changing nothing."),
    Entry("render", "render:render", "Print the objects that the operator would create."),
    Entry("up", "cluster:up", "Start the local cluster, if it is not up."),
    Entry("down", "cluster:down", "Stop the cluster and every pod."),
    Entry("status", "cluster:status", "Tell what is up, where, and how much memory it takes."),
    Entry("doctor", "doctor:doctor", "Check what this machine offers to pods and say what to change."),
    Entry("backup", "backups:backup", "Write all objects of the local cluster to a file."),
    Entry(
        "restore",
        "backups:restore",
        "Put back the objects of a backup; the cluster must be down.",
    ),
    Entry("kubeconfig", "kubeconfig:kubeconfig", "Print where the kubeconfig is, or merge it into yours."),
    Entry("node", "nodes", "Kill a node of the local cluster, and start it again."),
    Entry("image", "images", "Build, pull, push, load, save, list and name images."),
    Entry("notebook", "notebook", "Make pipelines of tagged notebooks."),
    Entry(
        "completion",
        "completion:completion",
        "Print the script that completes words in a shell.",
    ),
)


class _Commands(TyperGroup):
    """The commands of the table. Help lists them without importing one."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.commands: dict[str, Any] = dict.fromkeys(entry.name for entry in COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
        if entry is None:
            return None
        if self.commands[entry.name] is None:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            add(alone, entry)
            command: Any = typer.main.get_command(alone)
            # A command that is the only one stands by itself, a group within the one that it was added to.
            self.commands[entry.name] = getattr(command, "commands", {}).get(entry.name, command)
        return self.commands[entry.name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS])


def add(to: typer.Typer, entry: Entry) -> None:
    """Import the command and add it."""
    home, _, function = entry.home.partition(":")
    module = import_module(f"trainshed.cli.{home}")
    if function:
        chosen = getattr(module, function)
        to.command(entry.name, cls=getattr(chosen, "command_class", None))(chosen)
    else:
        to.add_typer(module.app, name=entry.name)


def everything() -> typer.Typer:
    """Return a Typer with every command imported, for what reads the declarations."""
    whole = typer.Typer(name=app.info.name)
    for entry in COMMANDS:
        add(whole, entry)
    return whole


app = typer.Typer(
    name="trainshed",
    cls=_Commands,
    help="Run Kubeflow training jobs on this machine or on any Kubernetes, unchanged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    gc.set_threshold(_COLLECT_EVERY, 10, 10)
    # What a command has to say it says itself; the parts it is made of log for servers.
    logging.getLogger("trainshed").addHandler(logging.NullHandler())
    code = usage.run(app)
    # Or the interpreter looks for cycles among all that was imported, 0.1 s for what the end of the process frees.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
