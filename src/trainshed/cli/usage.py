"""Wrong usage, in the same words as every other error: one line, a hint, exit code 2."""

from __future__ import annotations

import re
import sys
from typing import Any

import typer

_INTERRUPTED = 130
_WRONG_USAGE = 2


def run(app: typer.Typer) -> int:
    """Run the command line; return its exit code."""
    try:
        code = app(prog_name="trainshed", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except Exception as error:
        # Typer brings a copy of Click from some version on: what they raise is told by what it has.
        if not hasattr(error, "format_message"):
            raise
        return _say(error)
    return code if isinstance(code, int) else 0


def _say(error: Any) -> int:
    from trainshed.cli.console import err, say_hint

    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return _WRONG_USAGE
    context = getattr(error, "ctx", None)
    message, _, suggestion = plain(error.format_message()).partition("Did you mean ")
    err.print(f"[bold red]error:[/] {message.strip().rstrip('.')}".replace("[/] [", "[/] \\["), markup=True)
    command = context.command_path if context is not None else "trainshed"
    nearest = suggestion.rstrip("?").replace("'", "")
    say_hint(f"did you mean {nearest}?" if nearest else f"{command} --help")
    return int(getattr(error, "exit_code", _WRONG_USAGE))


def plain(message: str) -> str:
    """Return Click's sentence as the others are written: from a small letter on, without marks around names."""
    message = re.sub(r"'\{?([A-Z_]+)\}?(?:\.\.\.)+\}?'", r"\1", message)
    message = re.sub(r"'\[?\{?([A-Z][A-Z_]*)\}?\]?'", r"\1", message)
    message = re.sub(r"'(--?[\w-]+)'", r"\1", message)
    message = message.replace("Value error, ", "").replace("Input should be", "must be")
    return message[:1].lower() + message[1:]
