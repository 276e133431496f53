"""STOPSIGNAL: which number the text of an image means, as container engines read it. Pure."""

from __future__ import annotations

import signal

_REAL_TIME_MIN = 34
"""Of the C library, which keeps two for itself: what `SIGRTMIN` means to programs."""
_LAST = 64


def signal_number(text: str) -> int | None:
    """Return the signal of a number or a name, with `SIG` or without, as in `SIGRTMIN+3`; None where there is none."""
    name = text.strip().upper().removeprefix("SIG")
    if name.isascii() and name.isdigit():
        return int(name) if 1 <= int(name) <= _LAST else None
    for start, base, sign in (("RTMIN", _REAL_TIME_MIN, "+"), ("RTMAX", _LAST, "-")):
        rest = name.removeprefix(start)
        if rest != name and (not rest or (rest[0] == sign and rest[1:].isascii() and rest[1:].isdigit())):
            number = base + int(rest or 0)
            return number if _REAL_TIME_MIN <= number <= _LAST else None
    found = getattr(signal, f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else None
