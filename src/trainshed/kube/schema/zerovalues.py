"""What a built-in object carries although nobody set it, and what it leaves out although somebody did.

Kubernetes' objects are Go structs: a struct inside a struct is always there, as is a field without `omitempty`, at
the zero value of its type. Clients see it (`creationTimestamp: null` in a template, `status: {}`), and
managedFields take it for unchanged when it is set for the first time. Any other field at its zero value is left out
(`hostNetwork: false`, `annotations: {}`), unless it is a pointer.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

_ZEROS: dict[str, Any] = {
    "~": None, "~*": None, "time": None, '""': "", "0": 0, "!": False, "Q": "0", "{}": {}
}  # fmt: skip
_SHOWN = ("{}", "time")
_TABLE = Path(__file__).parents[1] / "data" / "zerovalues.txt"


class Zeros(msgspec.Struct, frozen=True):
    """The zero values of one definition.

    Attributes:
        values: the zero value of each field that is always there; structs as `{}`.
        shown: those that are filled in where an object leaves them out: structs and times. Lists, maps and scalars
            are left to defaults and rules, which tell what is missing.
        kept: fields that stay whatever their value.
    """

    values: Mapping[str, Any] = {}
    shown: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


NO_ZEROS = Zeros()


@functools.cache
def zeros_of(definition: str) -> Zeros:
    """Return the zero values of a definition, by its name."""
    declared = _fields().get(definition)
    if declared is None:
        return NO_ZEROS
    fields = [field.split(" ") for field in declared.split(", ")]
    return Zeros(
        {field: _ZEROS[zero] for field, zero in fields if zero != "*"},
        tuple(field for field, zero in fields if zero in _SHOWN),
        frozenset(field for field, _ in fields),
    )


@functools.cache
def _fields() -> dict[str, str]:
    """Return by definition what the table says of its fields, as it stands there: few are ever asked for."""
    text = _TABLE.read_text("utf-8")
    out: dict[str, str] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith("["):
            package = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, fields = line.partition(" = ")
            out[f"{package}.{name}"] = fields
    return out
