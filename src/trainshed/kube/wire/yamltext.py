"""YAML by libyaml where it is there: read whole, and written in pieces, of which none keeps the interpreter for long.

libyaml's emitter lets no other thread run while it writes, about 50 µs for each entry of a mapping: a list of some
megabytes took 20 seconds, for everybody. So what is larger than a piece is taken apart here, and only pieces are handed
to it. The text is what it would write of the whole, but for very long strings and keys, which are quoted as in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from trainshed.kube.wire.yamlblock import quoted

PIECE_BYTES = 8 * 1024
"""Of JSON, which takes libyaml some 30 ms at worst."""

_encode = msgspec.json.Encoder().encode
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LINE = 110
"""Characters of a line for people."""


class PlainDumper(_Dumper):  # type: ignore[misc, valid-type]
    """Writes shared parts out in full: anchors and aliases are for machines."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def documents(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return objects as YAML documents for people, `---` between them."""
    text: str = yaml.dump_all(objects, Dumper=PlainDumper, sort_keys=False, width=_LINE, allow_unicode=True)
    return text


def load(text: str) -> Any:
    """Return a YAML document as `yaml.safe_load` does, in a tenth of its time. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def dump(value: Any, piece_bytes: int = PIECE_BYTES) -> str:
    """Return a JSON value as a YAML document in block style."""
    return "".join(_emit(value, "", piece_bytes))


def _emit(value: Any, pad: str, piece: int) -> Iterator[str]:
    """Yield lines, each after `pad`, and the end of the last one."""
    encoded = _encode(value)
    if len(encoded) <= piece or not value or isinstance(value, (int, float)):
        yield _indented(_whole(value), pad)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry(key, inner, pad, piece)
    elif isinstance(value, list):
        for inner in value:
            # The dash stands where the first line of what is in the item begins.
            first, *rest = "".join(_emit(inner, f"{pad}  ", piece)).splitlines(keepends=True)
            yield f"{pad}- {first[len(pad) + 2 :]}"
            yield from rest
    else:
        yield f"{pad}{quoted(encoded)}\n"


def _entry(key: str, value: Any, pad: str, piece: int) -> Iterator[str]:
    encoded = _encode(value)
    if len(encoded) <= piece or not value or isinstance(value, (int, float)):
        yield _indented(_whole({key: value}), pad)
        return
    name = _whole({key: 0}).removesuffix(" 0\n")
    if name.startswith("?"):  # a key that cannot stand on one line with its value
        name = f"? {quoted(_encode(key))}\n{pad}:"
    if isinstance(value, str):
        yield f"{pad}{name} {quoted(encoded)}\n"
    else:
        yield f"{pad}{name}\n"
        yield from _emit(value, pad if isinstance(value, list) else f"{pad}  ", piece)


def _whole(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False)
    return text.removesuffix("...\n")


def _indented(text: str, pad: str) -> str:
    return text if not pad else "".join(f"{pad}{line}" for line in text.splitlines(keepends=True))
