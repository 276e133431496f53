"""Pickles of objects that a notebook made, bound to the names of the kernel that loads them.

A function reads its global names from the notebook it was written in. Loaded elsewhere it must read those of the new
kernel, not copies from the old one; so a function goes by its code, and its globals are the loading kernel's names. A
class of the imports or functions cells, which every kernel has, goes by its name, so that `isinstance` holds.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Collection
from typing import Any

import cloudpickle

_names: list[dict[str, Any]] = []
"""The names of the kernel into which an object is being loaded."""


def dumps(value: object, names: dict[str, Any], everywhere: Collection[str] = ()) -> bytes:
    """Return the object's pickle. `everywhere` are classes that every kernel of the run defines."""
    file = io.BytesIO()
    _Pickler(file, names, everywhere).dump(value)
    return file.getvalue()


def loads(content: bytes, names: dict[str, Any]) -> Any:
    """Return the object of a pickle, its functions bound to `names`."""
    _names.append(names)
    try:
        return pickle.loads(content)  # noqa: S301
    finally:
        _names.pop()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, names: dict[str, Any], everywhere: Collection[str]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names, self._everywhere = names, everywhere

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.FunctionType) and obj.__globals__ is self._names:
            state = {
                "defaults": obj.__defaults__,
                "kwdefaults": obj.__kwdefaults__,
                "dict": obj.__dict__,
                "annotations": obj.__annotations__,
                "qualname": obj.__qualname__,
                "doc": obj.__doc__,
                "module": obj.__module__,
                "cells": [_content(cell) for cell in obj.__closure__ or ()],
            }
            return _function, (obj.__code__, obj.__name__), state, None, None, _fill
        if (
            isinstance(obj, type)
            and obj.__name__ in self._everywhere
            and self._names.get(obj.__name__) is obj
        ):
            return _class, (obj.__name__,)
        return super().reducer_override(obj)


def _content(cell: types.CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _function(code: types.CodeType, name: str) -> types.FunctionType:
    cells = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, _names[-1], name, None, cells)


def _fill(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__dict__.update(state["dict"])
    function.__annotations__, function.__doc__ = state["annotations"], state["doc"]
    function.__qualname__, function.__module__ = state["qualname"], state["module"]
    for cell, content in zip(function.__closure__ or (), state["cells"], strict=True):
        if content:
            (cell.cell_contents,) = content


def _class(name: str) -> Any:
    return _names[-1][name]
