"""What Kubernetes says of an expression that it cannot read.

The words are those of the parser that Kubernetes' own is generated with, too: the native module of the distribution
common-expression-language has it. It is loaded only when an expression is wrong, without its package's command
line, which would cost 25 MB of memory for nothing.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import re
from pathlib import Path
from typing import Any

from trainshed.kube.cel.syntax import parse

_SAID = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_EXPECTED = re.compile(r"expecting \{<EOF>, [^\n]*\}$", re.MULTILINE)
_OF_THE_MODULE = "Incomplete `"
"""How the module says once more what the parser said already."""


def syntax_error(expression: str) -> str:
    """Return what is wrong with the syntax of an expression, empty when nothing is."""
    if not expression.strip():
        return "compilation failed: ERROR: <input>:1:1: the expression is empty"
    try:
        parse(expression)
    except ValueError as error:
        return f"compilation failed: {wording(expression) or f'ERROR: <input>: Syntax error: {error}'}"
    except RecursionError:
        return "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    return ""


def wording(expression: str) -> str:
    """Return the complaints of the parser about an expression, each with its line and a mark below the place."""
    said = _complaints(expression)
    if "unsupported syntax" in said:
        # It does not know the optional syntax; what else is wrong, it says of the expression without.
        said = _complaints(expression.replace(".?", ". ").replace("[?", "[ "))
    said = _EXPECTED.sub("expecting <EOF>", said)  # which is all that the other parser tells
    lines = expression.split("\n")
    return "\n".join(
        f"ERROR: <input>:{line}:{column}: {what}\n | {lines[int(line) - 1]}\n | {'.' * (int(column) - 1)}^"
        for line, column, what in _SAID.findall(said)
        if not what.startswith(_OF_THE_MODULE)
    )


def _complaints(expression: str) -> str:
    try:
        _engine().compile(expression)
    except ValueError as error:
        return str(error)
    except BaseException as error:
        # A panic of the native module arrives as a BaseException; it must not take the server down.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return ""
        raise
    return ""


@functools.cache
def _engine() -> Any:
    """Return the native module; its package's `__init__` imports a command line that nobody needs here."""
    spec = importlib.util.find_spec("cel")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = Path(folder) / f"cel{suffix}"
            if file.exists():
                native = importlib.util.spec_from_file_location("cel.cel", file)
                assert native is not None and native.loader is not None
                module = importlib.util.module_from_spec(native)
                native.loader.exec_module(module)
                return module
    raise LookupError("the distribution common-expression-language is not installed")
