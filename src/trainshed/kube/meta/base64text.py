"""Base64 as Go reads it, where its errors are shown."""

from __future__ import annotations

import string

_STANDARD = frozenset(string.ascii_letters + string.digits + "+/")
_URL = frozenset(string.ascii_letters + string.digits + "-_")


def illegal_byte(text: str, *, url: bool = False) -> int:
    """Return where Go's decoder gives up a text that is no base64; `url` is its alphabet without padding."""
    alphabet = _URL if url else _STANDARD
    digits = 0
    at = 0
    for at, character in enumerate(text):
        if character in "\r\n":
            continue
        if character not in alphabet:
            return at
        digits += 1
    # What is left of a group of four counts back to where the group began.
    return max(at + 1 - digits % 4, 0) if text else 0
