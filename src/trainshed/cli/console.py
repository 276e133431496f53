"""What every command shares: streams, errors in one line with a hint, exit codes.

Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 refused or failed, 2 wrong usage,
3 the local node cannot do it (`trainshed doctor` says why), 130 interrupted.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from trainshed.sdk.errors import UserError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_OF_THE_MACHINE = {
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some space, then try again",
    errno.EROFS: "set TRAINSHED_HOME to a directory that you may write to",
    errno.EACCES: "set TRAINSHED_HOME to a directory that you may write to",
}
"""Failures of the file system that no code can mend, and what the user can do."""


def fail(error: UserError) -> NoReturn:
    """Print the error in one line, its hint in another, and leave."""
    err.print(f"[bold red]error:[/] {escape(str(error))}")
    if error.hint:
        err.print(f"[cyan]hint:[/] {escape(error.hint)}")
    raise typer.Exit(error.exit_code)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn expected failures into one line and an exit code; anything else is our bug and keeps its traceback."""
    from trainshed.client.transport import TransportError
    from trainshed.cluster.paths import StateError
    from trainshed.kube.meta.errors import ApiError

    try:
        yield
    except UserError as error:
        fail(error)
    except StateError as error:
        fail(UserError(error.message, error.hint))
    except ApiError as error:
        fail(UserError(f"{error.message} ({error.reason})"))
    except TransportError as error:
        fail(UserError(f"the API server does not answer: {error}", "trainshed up starts the local cluster"))
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            raise
        fail(UserError(f"{error.filename or 'the disk'}: {error.strerror}", _OF_THE_MACHINE[error.errno]))


def note(text: str) -> None:
    """Say something on stderr."""
    err.print(text)
