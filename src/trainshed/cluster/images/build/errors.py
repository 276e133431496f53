"""Why a build ends without an image."""

from __future__ import annotations


class BuildFailed(Exception):
    """A step failed. `line` and `end` count from 1; `tail` are the last lines that its command printed."""

    def __init__(self, line: int, end: int, title: str, message: str, tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.line = line
        self.end = end
        self.title = title
        self.message = message
        self.tail = tail


class StepError(Exception):
    """What a step was to do cannot be done; one sentence. Who knows the line makes a BuildFailed of it."""

    def __init__(self, message: str, tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.tail = tail
