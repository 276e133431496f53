"""Why a control plane does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """The control plane cannot run here. `hint` says what to change."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
