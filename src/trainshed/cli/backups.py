"""Commands that keep the cluster's objects safe: backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trainshed.cli.console import note, user_errors, warn
from trainshed.cluster.paths import StatePaths
from trainshed.sdk import backups, local

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, e.g. cluster.jsonl.gz.")]


def backup(file: File) -> None:
    """Write all objects of the local cluster to a file. It may run meanwhile.

    The file holds Secrets, so only you may read it. Logs and volumes are not in it: they are files already.
    """
    with user_errors():
        paths = StatePaths.default()
        count = backups.backup(paths, file)
        note(f"{count} objects written to {escape(str(file))}")
        for text in local.store_damage(paths):
            warn(f"not in it: {text}")


def restore(file: File) -> None:
    """Put back the objects of a backup; the cluster must be down.

    The store that was there is kept beside it. Volumes stay as they are.
    """
    with user_errors():
        count, kept = backups.restore(StatePaths.default(), file)
        note(f"{count} objects restored; trainshed up starts the cluster with them")
        if kept is not None:
            note(f"what was there is in {escape(str(kept))}: delete it when you do not need it any more")
