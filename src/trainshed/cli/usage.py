"""Wrong usage, in the same words as every other error: one line, a hint, exit code 2."""

from __future__ import annotations

import re
import sys
from typing import Any

import typer

ELSEWHERE = {
    **dict.fromkeys(("ls", "ps", "jobs", "get"), "list"),
    **dict.fromkeys(("apply", "create", "submit"), "run"),
    **dict.fromkeys(("attach", "watch", "describe"), "follow"),
    **dict.fromkeys(("rm", "kill", "cancel"), "delete"),
    **dict.fromkeys(("start", "init"), "up"),
    **dict.fromkeys(("stop", "destroy", "purge"), "down"),
    **dict.fromkeys(("validate", "lint"), "check"),
    "pause": "suspend",
    "log": "logs",
    "build": "image build",
    "images": "image ls",
    "info": "status",
}
"""Commands by what kubectl, docker, kind and the like call them."""
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
    message, _, options = message.partition(" (Possible options: ")
    suggestion = suggestion or ", ".join(o for o in options.rstrip(")").split(", ") if o != "--help")
    err.print(f"[bold red]error:[/] {message.strip().rstrip('.')}".replace("[/] [", "[/] \\["), markup=True)
    command = context.command_path if context is not None else "trainshed"
    nearest = suggestion.rstrip("?").replace("'", "")
    say_hint(
        _known_elsewhere(message)
        or _of_a_script(error, sys.argv[1:])
        or (f"did you mean {nearest}?" if nearest else "")
        or f"{command} --help"
    )
    return int(getattr(error, "exit_code", _WRONG_USAGE))


def _of_a_script(error: Any, arguments: list[str]) -> str:
    """Return the hint for an option of a script that stands where Trainshed's stand; empty where it is none."""
    option = getattr(error, "option_name", None)
    scripts = [word for word in arguments[1:] if word.endswith(".py")]
    if option is None or arguments[:1] != ["run"] or not scripts or "--" in arguments:
        return ""
    return f"what is meant for the script comes after --: trainshed run {scripts[0]} -- {option} ..."


def _known_elsewhere(message: str) -> str:
    """Return the hint for a command that other tools have under another name; empty where it is none."""
    found = re.search(r"no such command '(\w+)'", message)
    ours = ELSEWHERE.get(found[1]) if found else None
    return f"did you mean {ours}?" if ours else ""


def plain(message: str) -> str:
    """Return Click's sentence as the others are written: from a small letter on, without marks around names."""
    message = re.sub(r"'\{?([A-Z_]+)\}?(?:\.\.\.)+\}?'", r"\1", message)
    message = re.sub(r"'\[?\{?([A-Z][A-Z_]*)\}?\]?'", r"\1", message)
    message = re.sub(r"'(--?[\w-]+)'", r"\1", message)
    message = message.replace("Value error, ", "").replace("Input should be", "must be")
    message = re.sub(r"is not a valid int(eger)?( range)?$", "is not a whole number", message.rstrip("."))
    return message[:1].lower() + message[1:]
