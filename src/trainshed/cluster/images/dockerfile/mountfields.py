"""The fields of `RUN --mount`, as they are written."""

from __future__ import annotations

_ALIASES = {"dst": "target", "destination": "target", "src": "source", "ro": "readonly"}


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of one flag, by their usual names."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().lower()
        found[_ALIASES.get(name, name)] = value if equals else "true"
    return found
