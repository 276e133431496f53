"""The end of what a command printed."""

from __future__ import annotations

TAIL_LINES = 20
"""How many of a failing command's last lines an error has."""
_LONGEST_LINE = 1000


class LastLines:
    """The end of what a command printed."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data)[-TAIL_LINES * _LONGEST_LINE :]

    def lines(self) -> tuple[str, ...]:
        found = self._data.decode(errors="replace").splitlines()[-TAIL_LINES:]
        return tuple(line[-_LONGEST_LINE:] for line in found)
