"""`trainshed doctor`: whether this machine can run the local cluster, and what to change where it cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from trainshed.cli.console import out, user_errors
from trainshed.cli.options import TextOrJson
from trainshed.cluster.paths import StatePaths
from trainshed.sdk import local
from trainshed.sdk.errors import UNAVAILABLE

if TYPE_CHECKING:
    from trainshed.cluster.sandbox.client.doctor import Check


def doctor(output: TextOrJson = "text") -> None:
    """Check what this machine offers to pods and say what to change. Exit code 3 when pods cannot run.

    Where the kernel refuses namespaces, it also says what plain processes have (`trainshed up --isolation plain`).
    """
    from trainshed.cluster.sandbox.client.doctor import LIMITS, PLAIN, diagnose, diagnose_plain

    with user_errors():
        paths = StatePaths.default()
        machine = diagnose(_existing(paths.root))
    can_run = all(check.ok or not check.vital for check in machine)
    is_plain = paths.kept_isolation() == "plain"
    plain = [] if can_run and not is_plain else diagnose_plain()
    if plain:
        machine = [check for check in machine if not check.name.startswith(LIMITS)]
    checks = [*machine, *plain, *_store_checks(paths)]
    if output == "json":
        out.print_json(
            json.dumps([{"name": c.name, "ok": c.ok, "detail": c.detail, "remedy": c.remedy} for c in checks])
        )
    else:
        for check in checks:
            mark = "[green]✓[/]" if check.ok else "[red]✗[/]" if check.vital else "[yellow]![/]"
            out.print(f"{mark} {escape(check.name)}: {escape(check.detail)}")
            if not check.ok and check.remedy:
                out.print(f"  [cyan]{escape(check.remedy)}[/]")
    if not can_run and not is_plain:
        if output == "text":
            out.print(f"without isolation, as processes of yours: [cyan]{PLAIN}[/]")
        raise typer.Exit(UNAVAILABLE)


def _existing(root: Path) -> Path | None:
    """Return the state directory, or that in which it will be made; None where this user cannot write there."""
    found = next(directory for directory in (root, *root.parents) if directory.is_dir())
    return found if os.access(found, os.W_OK | os.X_OK) else None


def _store_checks(paths: StatePaths) -> list[Check]:
    """Return a check of the store when there is something to say of it."""
    from trainshed.cluster.sandbox.client.doctor import Check

    remedy = "trainshed restore goes back to a backup; deleted objects can be created again"
    found = local.store_damage(paths)
    return [Check("store", False, text, remedy) for text in found]
