"""What a build tells whoever watches it."""

from __future__ import annotations

from typing import Literal, Protocol

Outcome = Literal["done", "cached", "failed"]


class Task(Protocol):
    """One thing that a build does."""

    def output(self, data: bytes) -> None:
        """Take what a command printed."""

    def status(self, text: str) -> None:
        """Take how far it is."""

    def end(self, outcome: Outcome) -> None:
        """Take how it ended."""


class Progress(Protocol):
    """Shows what a build does."""

    def begin(self, title: str) -> Task:
        """Return what is told of a new task."""
        ...
