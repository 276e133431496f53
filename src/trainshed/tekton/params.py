"""Parameters: what a spec declares, what a run gives, and what `$(params.…)` therefore stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, objects, section
from trainshed.tekton.variables import Value


class ParamError(Exception):
    """Parameters do not fit. `reason` is Tekton's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Given(msgspec.Struct, frozen=True):
    """Parameters by name, ready for use."""

    values: dict[str, Value]

    def scope(self) -> dict[str, Value]:
        """Return what `$(params.NAME)` stands for."""
        return {f"params.{name}": value for name, value in self.values.items()}


def type_of(value: Any) -> str:
    """Return the type of a parameter's value."""
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "string"


def as_value(value: Any) -> Value:
    """Return a value as parameters have it: texts throughout."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _text(item) for key, item in value.items()}
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    return str(value)


def values_of(params: Iterable[Object]) -> dict[str, Value]:
    """Return `[{name, value}]` by name."""
    return {str(p.get("name")): as_value(p.get("value")) for p in params}


def declared_type(declared: Object) -> str:
    """Return the declared type, or that of the default where none is declared."""
    if declared.get("type"):
        return str(declared["type"])
    return "object" if declared.get("properties") else type_of(declared.get("default", ""))


def resolve(declared: Sequence[Object], given: Mapping[str, Value]) -> Given:
    """Return the parameters of a run: what it gives, else the defaults. What is not declared stays, unused.

    Raises:
        ParamError: one is missing, has another type, lacks a key of an object or is none of an enum.
    """
    known = {str(d.get("name")): d for d in declared}
    missing = [name for name, d in known.items() if name not in given and "default" not in d]
    if missing:
        raise ParamError(
            "ParameterMissing",
            f"missing values for these params which have no default values: [{' '.join(missing)}]",
        )
    out: dict[str, Value] = dict(given)
    for name, one in known.items():
        value = out[name] if name in out else as_value(one["default"])
        wanted = declared_type(one)
        if type_of(value) != wanted:
            raise ParamError(
                "ParameterTypeMismatch",
                f'parameters have a type mismatch: "{name}": expected type "{wanted}", got type "{type_of(value)}"',
            )
        if isinstance(value, dict):
            value = {**_default_keys(one), **value}
            lacking = sorted(set(section(one, "properties")) - set(value))
            if lacking:
                raise ParamError(
                    "ObjectParameterMissKeys",
                    f"missing keys for these params which are required in ParamSpec's properties {name}: {lacking}",
                )
        allowed = one.get("enum")
        if allowed and isinstance(value, str) and value not in allowed:
            raise ParamError(
                "InvalidParamValue",
                f'param "{name}" value: {value} is not in the enum list [{" ".join(allowed)}]',
            )
        out[name] = value
    return Given(out)


def _default_keys(declared: Object) -> dict[str, str]:
    default = declared.get("default")
    return {str(k): _text(v) for k, v in default.items()} if isinstance(default, dict) else {}


def declared_in(spec: Object) -> list[Object]:
    """Return the parameters that a spec declares."""
    return objects(spec, "params")
