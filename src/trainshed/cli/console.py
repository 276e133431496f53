"""What every command shares: streams, errors in one line with a hint, exit codes.

Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 refused or failed, 2 wrong usage,
3 the local node cannot do it (`trainshed doctor` says why), 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.markup import escape

from trainshed.cli.terminal import guarded
from trainshed.sdk.errors import Explanation, explain

if TYPE_CHECKING:
    from rich.table import Table

_WIDE = 10_000

out = guarded(highlight=False, soft_wrap=True, emoji=False)
err = guarded(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def fail(explanation: Explanation) -> NoReturn:
    """Print what is the matter in one line, the hint in another, and leave."""
    message = "; ".join(line.strip() for line in explanation.message.splitlines() if line.strip())
    err.print(f"[bold red]error:[/] {escape(message)}")
    say_hint(explanation.hint)
    raise typer.Exit(explanation.exit_code)


def say_hint(hint: str) -> None:
    """Say what to do about what went wrong, if anything can be done."""
    if hint:
        err.print(f"[cyan]hint:[/] {escape(hint)}")


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn expected failures into one line and an exit code; anything else is our bug and keeps its traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        explanation = explain(error)
        if explanation is None:
            raise
        fail(explanation)


def show(table: Table) -> None:
    """Print a table, on a terminal as wide as that; who reads a pipe gets every word."""
    if out.is_terminal or "COLUMNS" in os.environ:
        out.print(table)
    else:
        guarded(width=_WIDE, highlight=False, soft_wrap=True, emoji=False).print(table)


def note(text: str) -> None:
    """Say something on stderr."""
    err.print(text)


def is_interactive() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def warn(text: str) -> None:
    """Say on stderr what may be meant otherwise than it is taken."""
    err.print(f"[yellow]warning:[/] {escape(text)}")


@contextmanager
def warnings_of(package: str) -> Iterator[None]:
    """Say what a package of ours logs as a warning; without, commands keep to themselves what is logged."""
    handler = _Warnings(logging.WARNING)
    logger = logging.getLogger(package)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())
