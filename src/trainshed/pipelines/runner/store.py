"""The files of a step's outputs: one for each name, and a manifest that is written last.

    DATA/STEP/manifest.json     names the files of the attempt that finished
    DATA/STEP/ATTEMPT/x.npy     its files

A directory without a manifest holds nothing. An attempt that dies leaves the manifest of the one before as it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainshed.pipelines.runner.values import Backend

MANIFEST = "manifest.json"
_UNSET = "unset"
"""Stands for a backend where the step did not set the name, in a branch that did not run."""


class Entry(msgspec.Struct, frozen=True):
    """A saved name."""

    name: str
    type: str
    backend: str
    file: str = ""
    size: int = 0
    sha256: str = ""


class Manifest(msgspec.Struct, frozen=True):
    """What a step saved, in which attempt of which run."""

    step: str
    run: str
    attempt: str
    entries: tuple[Entry, ...]


class DataError(Exception):
    """Objects could not be saved or loaded. The message has a line for each."""


def type_name(value: object) -> str:
    """Return an object's type as people write it."""
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def save(
    folder: Path,
    values: Mapping[str, object],
    *,
    names: Sequence[str],
    backends: Sequence[Backend],
    step: str,
    run: str,
    attempt: str,
    cells: Mapping[str, int | None] | None = None,
    fallbacks: Collection[str] = (),
) -> Manifest:
    """Write the named values and then the manifest.

    Raises DataError that names each that cannot be saved; of the `fallbacks` it is only said.
    """
    final, temporary = folder / attempt, folder / f".{attempt}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    entries: list[Entry] = []
    failures: list[str] = []
    for name in names:
        if name not in values:
            entries.append(Entry(name, "", _UNSET))
            continue
        value = values[name]
        try:
            entries.append(_saved(name, value, temporary, backends))
        except Exception as error:
            if name in fallbacks:
                sys.stderr.write(f"{name} ({type_name(value)}) cannot be saved; other steps make their own\n")
                entries.append(Entry(name, "", _UNSET))
                continue
            cell = (cells or {}).get(name)
            place = f"step {step}" + (f", cell {cell}" if cell is not None else "")
            failures.append(f"cannot save {name} ({type_name(value)}, {place}): {error}{_hint(value)}")
    if failures:
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError("\n".join(failures))
    for file in temporary.iterdir():
        _sync(file)
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    placed = tuple(msgspec.structs.replace(e, file=f"{attempt}/{e.file}") if e.file else e for e in entries)
    manifest = Manifest(step, run, attempt, placed)
    partial = folder / f".{MANIFEST}.{attempt}"
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    _sync(partial)
    partial.replace(folder / MANIFEST)
    _sync(folder)
    return manifest


def _saved(name: str, value: object, folder: Path, backends: Sequence[Backend]) -> Entry:
    backend = next(b for b in backends if b.takes(value))
    file = folder / f"{name}{backend.suffix}"
    try:
        backend.save(value, file)
    except Exception:
        if backend is backends[-1]:
            raise
        # A library that cannot write one of its own objects: its pickle may still do.
        file.unlink(missing_ok=True)
        backend = backends[-1]
        file = folder / f"{name}{backend.suffix}"
        backend.save(value, file)
    return Entry(name, type_name(value), backend.name, file.name, file.stat().st_size, _digest(file))


def load(
    folder: Path, name: str, *, backends: Sequence[Backend], step: str, run: str, trusted: bool = False
) -> tuple[bool, Any]:
    """Return whether the name is set, and its value.

    Raises DataError when the step saved nothing, when the file is not the one that was saved, or when it is a pickle of
    another run and not `trusted`.
    """
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise DataError(f"cannot load {name}: step {step} has saved nothing in {folder}") from None
    except msgspec.DecodeError as error:
        raise DataError(f"cannot load {name}: the manifest of step {step} is damaged: {error}") from error
    entry = next((e for e in manifest.entries if e.name == name), None)
    if entry is None:
        raise DataError(f"cannot load {name}: step {step} did not save it")
    if entry.backend == _UNSET:
        return False, None
    backend = next((b for b in backends if b.name == entry.backend), None)
    if backend is None:
        raise DataError(f"cannot load {name} of step {step}: unknown format {entry.backend}")
    if backend is backends[-1] and manifest.run != run and not trusted:
        raise DataError(
            f"cannot load {name} of step {step}: it is a pickle of the run {manifest.run}, which may hold any code;"
            " --trust-data loads it"
        )
    file = folder / entry.file
    if not file.exists() or file.stat().st_size != entry.size or _digest(file) != entry.sha256:
        raise DataError(f"cannot load {name}: {file} is not what step {step} saved")
    try:
        return True, backend.load(file)
    except Exception as error:
        raise DataError(f"cannot load {name} ({entry.type}, saved by step {step}): {error}") from error


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hint(value: object) -> str:
    module = type(value).__module__.partition(".")[0]
    if module in ("tensorflow", "keras"):
        return "; save it to a file with its own method, and load it in the next step"
    return "; make it in the step that needs it, or hand on what it is made of"
