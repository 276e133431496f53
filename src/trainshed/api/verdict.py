"""What is wrong with a document, as values: problems at fields, and warnings."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

REQUIRED = "Required value"
FORBIDDEN = "Forbidden"
INVALID = "Invalid value"
UNSUPPORTED = "Unsupported value"


class FieldError(msgspec.Struct, frozen=True):
    """One problem at one field. `value` is shown only where the type is about the value itself."""

    path: str
    type: str
    value: str | None
    detail: str

    def __str__(self) -> str:
        shown = f": {json.dumps(self.value, ensure_ascii=False)}" if self.value is not None else ""
        return f"{self.path}: {self.type}{shown}: {self.detail}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a document: `errors` refuse it, `warnings` are only shown."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def text(errors: Sequence[FieldError]) -> str:
    """Return the problems as one line: alone as it is, several in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def supported(values: Sequence[str]) -> str:
    """Return the detail of an unsupported value."""
    return "supported values: " + ", ".join(json.dumps(value) for value in values)
