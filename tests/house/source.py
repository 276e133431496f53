"""The program's own text, read once for all checks of it."""

from __future__ import annotations

import functools
from pathlib import Path

import trainshed

SRC = Path(trainshed.__file__).parent


@functools.cache
def files() -> tuple[Path, ...]:
    """Return the modules of the program, sorted."""
    return tuple(sorted(SRC.rglob("*.py")))


@functools.cache
def text(file: Path) -> str:
    """Return the text of a module."""
    return file.read_text()
