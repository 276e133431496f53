"""YAML of mappings, lists of mappings and texts, as libyaml writes them, without it.

PyYAML and libyaml take 1.3 MiB; the control plane would load them to write one file of fifteen lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

Block: TypeAlias = "Mapping[str, str | Block | Sequence[Block]]"

_PLAIN = re.compile("[A-Za-z/](?:[A-Za-z0-9/@_.,=+-]|:(?=[^\\s]))*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Texts that YAML 1.1 takes for something else."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def dump(block: Block) -> str:
    """Return a mapping as a YAML document in block style."""
    return "".join(f"{line}\n" for line in _lines(block))


def _lines(block: Block) -> Iterator[str]:
    for key, value in block.items():
        name = _text(key)
        if isinstance(value, str):
            yield f"{name}: {_text(value)}"
        elif not value:
            yield f"{name}: {'{}' if isinstance(value, Mapping) else '[]'}"
        elif isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {line}" for line in _lines(value))
        else:
            yield f"{name}:"
            for item in value:
                first, *rest = _lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)


def _text(text: str) -> str:
    """Return a text as it stands where nothing in it could be taken for YAML, else as JSON writes it."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return quoted(msgspec.json.encode(text))


def quoted(encoded: bytes) -> str:
    """Return JSON as YAML readers take it: they refuse some characters that JSON leaves as they are."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded.decode())
