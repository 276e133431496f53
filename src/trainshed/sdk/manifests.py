"""Manifest files: YAML or JSON documents as objects, with errors that name file and line."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from trainshed.kube.meta.objects import Object
from trainshed.sdk.documents import Unreadable, documents
from trainshed.sdk.errors import UserError

IMAGES = "images.yaml"
"""Name of the file beside manifests that says what stands for their images."""

Warn: TypeAlias = Callable[[str], object]
"""Is told what may be meant otherwise than it is read, e.g. a key that stands twice, with its file and line."""


def _python_warning(text: str) -> None:
    warnings.warn(text, stacklevel=2)


Source: TypeAlias = (
    "str | os.PathLike[str] | Mapping[str, Any] | Sequence[str | os.PathLike[str] | Mapping[str, Any]]"
)
"""Manifests as a program has them: a file or directory, the text itself (it has several lines), an object; or many."""


def collect(source: Source) -> list[Object]:
    """Return the objects of the source in order. An object is taken as it is, not changed.

    Raises:
        UserError: a file that is missing, text that is not YAML, or something other than Kubernetes objects.
    """
    objects: list[Object] = []
    for part in _parts(source):
        if isinstance(part, Mapping):
            objects.extend(_objects(dict(part), "manifest"))
        elif isinstance(part, str) and "\n" in part:
            objects.extend(parse(part, "manifest"))
        else:
            objects.extend(load([os.fspath(part)]))
    if not objects:
        raise UserError("there are no objects in the manifests")
    return objects


def files_of(source: Source) -> list[str]:
    """Return those parts of the source that are files or directories."""
    return [
        os.fspath(part)
        for part in _parts(source)
        if not isinstance(part, Mapping) and not (isinstance(part, str) and "\n" in part)
    ]


def _parts(source: Source) -> Sequence[str | os.PathLike[str] | Mapping[str, Any]]:
    return [source] if isinstance(source, (str, os.PathLike, Mapping)) else source


def load(paths: Iterable[str], warn: Warn = _python_warning, *, generated: bool = False) -> list[Object]:
    """Return the objects of all files in order; `-` is standard input, a directory stands for its *.yaml and *.json.

    With `generated` a `generateName` will do in place of a name.

    An `images.yaml` says what stands for the images of the manifests beside it, and has no objects: a directory's is
    passed over, one that is named too, with a word.

    Raises:
        UserError: a file that is missing, is not YAML, or holds something other than Kubernetes objects.
    """
    objects: list[Object] = []
    passed_over = ""
    for path in paths:
        for source in _sources(path):
            text = _read(source)
            if _lists_images(source, text):
                passed_over = source
                if source == path:
                    warn(f"{source}: lists images, not objects: passed over")
                continue
            objects.extend(parse(text, source, warn, generated=generated))
    if not objects:
        hint = f"{passed_over} is read beside the manifests that name its images" if passed_over else ""
        raise UserError("no objects in " + ", ".join(paths), hint)
    return objects


def _lists_images(source: str, text: str) -> bool:
    """Return whether the file is one of those that `trainshed run` reads beside manifests."""
    return Path(source).name == IMAGES and not re.search(r"^apiVersion\s*:", text, re.MULTILINE)


def parse(text: str, source: str, warn: Warn = _python_warning, *, generated: bool = False) -> list[Object]:
    """Return the objects in the text; `source` names it in errors. A `kind: List` is taken apart."""

    def tell(said: str, line: int) -> None:
        warn(f"{source}:{line}: {said}" if line else f"{source}: {said}")

    try:
        found = list(documents(text, tell))
    except Unreadable as error:
        where = f"{source}:{error.line}" if error.line else source
        raise UserError(f"{where}: not YAML: {error}") from error
    objects: list[Object] = []
    for number, document in enumerate(found, 1):
        where = f"{source}, document {number}" if len(found) > 1 else source
        objects.extend(_objects(document, where, generated))
    return objects


def _objects(document: Any, where: str, generated: bool = False) -> list[Object]:
    if not isinstance(document, dict):
        raise UserError(
            f"{where}: not a Kubernetes object but {_kind_of(document)}",
            "a manifest starts with apiVersion and kind",
        )
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        return [obj for item in document["items"] for obj in _objects(item, where, generated)]
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise UserError(f"{where}: {field}: Required value", "a manifest starts with apiVersion and kind")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (
        metadata.get("name") or (generated and metadata.get("generateName"))
    ):
        raise UserError(
            f"{where}: metadata.name: Required value",
            "an object is applied by its name; generateName is for kubectl create"
            if isinstance(metadata, dict) and metadata.get("generateName")
            else "",
        )
    for field in ("name", "generateName", "namespace"):
        value = metadata.get(field)
        if value is not None and not isinstance(value, str):
            raise UserError(
                f"{where}: metadata.{field}: Invalid value: {json.dumps(value, default=str)}: must be a string"
            )
    return [document]


def _kind_of(value: Any) -> str:
    names = {str: "a string", list: "a list", int: "a number", float: "a number", bool: "a boolean"}
    return names.get(type(value), type(value).__name__)


def _sources(path: str) -> list[str]:
    if path == "-":
        return ["-"]
    found = Path(path)
    if found.is_dir():
        return [str(p) for p in sorted(found.iterdir()) if p.suffix in (".yaml", ".yml", ".json")]
    return [path]


def no_such_file(path: str) -> UserError:
    """Return the error for a file that is missing; the hint names one beside it with nearly the same name."""
    wanted = Path(path)
    try:
        names = [each.name for each in wanted.parent.iterdir()]
    except OSError:
        names = []
    near = difflib.get_close_matches(wanted.name, names, n=1, cutoff=0.75)
    hint = f"did you mean {wanted.with_name(near[0])}?" if near else ""
    return UserError(f"{path}: no such file", hint)


def _read(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    try:
        return Path(source).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise no_such_file(source) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{source}: cannot be read: {error}") from error
