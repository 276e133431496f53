"""The known word that is nearest to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, or None when none is similar. Case does not count."""
    folded = {name.lower(): name for name in sorted(known)}
    found = get_close_matches(word.lower(), folded, n=1)
    return folded[found[0]] if found else None
