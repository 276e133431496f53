"""Bytes of a notebook file → its code cells with their tags, and its settings, still as they were written."""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.pipelines.diagnostics import NotebookError, diagnostic

_OLDEST_WITH_CELLS = 4
"""nbformat's major version since which cells lie directly in the notebook, with tags in their metadata."""


class Cell(msgspec.Struct, frozen=True):
    """A code cell. `number` counts all cells from 1, as `Cell 3` does in messages."""

    number: int
    source: str
    tags: tuple[Any, ...] = ()
    notebook_path: str | None = None


class Notebook(msgspec.Struct, frozen=True):
    """A notebook's code cells and what its metadata says under `kubeflow_notebook`."""

    name: str
    cells: tuple[Cell, ...]
    settings: dict[str, Any] = {}


class _RawCell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""
    metadata: dict[str, Any] = {}


class _RawNotebook(msgspec.Struct):
    nbformat: int
    cells: list[_RawCell] | None = None
    metadata: dict[str, Any] = {}


def read(content: bytes, name: str) -> Notebook:
    """Return the notebook in a file's content; `name` is the file's name without its ending.

    Raises NotebookError when it is none. Formats before 4 need the package `nbformat`.
    """
    try:
        raw = msgspec.json.decode(content, type=_RawNotebook)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_a_notebook(_reason(error)) from error
    if raw.nbformat < _OLDEST_WITH_CELLS:
        raw = _upgraded(content)
    if raw.cells is None:
        raise _not_a_notebook("it has no cells")
    settings = raw.metadata.get("kubeflow_notebook") or {}
    if not isinstance(settings, dict):
        raise _not_a_notebook("its metadata kubeflow_notebook is no object")
    cells = tuple(_cell(i, c) for i, c in enumerate(raw.cells, 1) if c.cell_type == "code")
    return Notebook(name, cells, settings)


def _cell(number: int, raw: _RawCell) -> Cell:
    source = raw.source if isinstance(raw.source, str) else "".join(raw.source)
    tags = raw.metadata.get("tags") or ()
    path = raw.metadata.get("notebook_path")
    return Cell(
        number,
        source,
        tuple(tags) if isinstance(tags, list) else (tags,) if tags else (),
        path if isinstance(path, str) else None,
    )


def _upgraded(content: bytes) -> _RawNotebook:
    try:
        import nbformat
    except ImportError as error:
        raise _not_a_notebook(
            "its format is older than 4, which takes pip install 'trainshed[notebooks]'"
        ) from error
    upgrade: Any = nbformat
    try:
        return msgspec.convert(dict(upgrade.reads(content.decode(), as_version=4)), _RawNotebook)
    except Exception as error:
        raise _not_a_notebook(f"nbformat cannot read it: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error).replace("Object missing required field `nbformat`", "it has no `nbformat`")
    return f"it is no JSON: {error}"


def _not_a_notebook(why: str) -> NotebookError:
    return NotebookError(
        [diagnostic("NB001", f"not a Jupyter notebook: {why}", fix="save it again with Jupyter")]
    )
