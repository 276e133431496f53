"""What goes wrong by the user's doing, and the exit codes that say so."""

from __future__ import annotations

REFUSED = 1
"""Refused or failed."""
UNAVAILABLE = 3
"""The local node cannot do it; `trainshed doctor` says why."""


class UserError(Exception):
    """Something that the user can mend. `hint` says how; `exit_code` is one of this module's."""

    def __init__(self, message: str, hint: str = "", exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
