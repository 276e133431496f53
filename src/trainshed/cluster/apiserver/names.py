"""Random parts of names, in upstream's alphabet: no vowels and no look-alikes, so no words."""

from __future__ import annotations

import random

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5
_MAX_PREFIX = 58


def random_suffix() -> str:
    """Return five random characters. Not a secret."""
    return "".join(random.choices(_ALPHABET, k=_LENGTH))  # noqa: S311


def generated_name(prefix: str) -> str:
    """Return a name for `generateName`; long prefixes are cut so that the name stays a label."""
    return prefix[:_MAX_PREFIX] + random_suffix()
