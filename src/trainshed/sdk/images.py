"""`images.yaml`: what stands for each image where nothing is pulled, kept beside the manifests that name it."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from trainshed.cluster.images.directories import Image, ImageProblem, ImageRegistry, normalise
from trainshed.cluster.images.lookup import Lookup
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.sandbox.model import Layer
from trainshed.sdk.errors import UserError
from trainshed.sdk.manifests import IMAGES


def register_beside(manifests: list[str], registry: ImageRegistry) -> list[str]:
    """Register what the `images.yaml` beside each manifest lists; return the images' names.

    Raises:
        UserError: the file is malformed or names a directory that does not exist.
    """
    names: list[str] = []
    for file in beside(manifests):
        names.extend(register(read(file), registry))
    return names


def known(manifests: list[str], registered: Path) -> dict[str, Image]:
    """Return the images by normalised name: of the registry's file and the store beside it, and those listed beside
    the manifests.

    Raises:
        UserError: an `images.yaml` is malformed.
    """
    found = Lookup(ImageRegistry(registered), ImageStore(registered.parent / "store")).all()
    for file in beside(manifests):
        for name, image in read(file).items():
            try:
                found[normalise(name)] = image
            except ImageProblem as error:
                raise UserError(f"{file}: {error}") from error
    return found


def beside(manifests: list[str]) -> list[Path]:
    """Return the `images.yaml` of the folders in which the manifests are."""
    folders = [Path(each) if Path(each).is_dir() else Path(each).parent for each in manifests if each != "-"]
    return [folder / IMAGES for folder in dict.fromkeys(folders) if (folder / IMAGES).is_file()]


def register(images: dict[str, Image], registry: ImageRegistry) -> list[str]:
    """Register the images and return their normalised names. Raises UserError."""
    try:
        return [registry.add(name, image) for name, image in images.items()]
    except (ImageProblem, FileNotFoundError) as error:
        raise UserError(str(error)) from error


def read(file: Path) -> dict[str, Image]:
    """Return the images of the file by name; layer sources are relative to the file."""
    document = _document(file)
    has_bases = isinstance(document, dict) and "bases" in document
    entries = document.get("images", [] if has_bases else None) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UserError(f"{file}: images: Required value", "a list of {name, layers: [{source, path}]}")
    _known(document, ("images", "bases"), file, "")
    return {
        _text(entry, "name", file, f"images[{number}]"): _image(entry, file, f"images[{number}]")
        for number, entry in enumerate(entries)
    }


def _document(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{file}{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error


def bases(*folders: Path) -> dict[str, str]:
    """Return what stands for the base images of Dockerfiles, by name or pattern, as the `images.yaml` of these folders
    have it: `machine`, or the name of another image. Raises UserError.
    """
    found: dict[str, str] = {}
    for file in dict.fromkeys(folder / IMAGES for folder in folders):
        if not file.is_file():
            continue
        document = _document(file)
        entries = (document.get("bases") if isinstance(document, dict) else None) or {}
        if not isinstance(entries, dict):
            raise _invalid(file, "bases", entries, "must be a map of names to machine or another image")
        for name, target in entries.items():
            if not isinstance(target, str) or not target:
                raise _invalid(file, f"bases[{name}]", target, "must be machine or the name of an image")
            found[str(name)] = target
    return found


_KEYS = ("name", "layers", "env", "entrypoint", "cmd", "workdir")


def _image(entry: dict[str, Any], file: Path, where: str) -> Image:
    _known(entry, _KEYS, file, where)
    layers = entry.get("layers") or []
    if not isinstance(layers, list):
        raise _invalid(file, f"{where}.layers", layers, "must be a list of {source, path}")
    env = entry.get("env") or {}
    if not isinstance(env, dict):
        raise _invalid(file, f"{where}.env", env, "must be a map of names to values")
    workdir = entry.get("workdir") or ""
    if not isinstance(workdir, str):
        raise _invalid(file, f"{where}.workdir", workdir, "must be a path")
    return Image(
        layers=tuple(_layer(layer, file, f"{where}.layers[{n}]") for n, layer in enumerate(layers)),
        env={str(name): str(value) for name, value in env.items()},
        entrypoint=_command(entry, "entrypoint", file, where),
        cmd=_command(entry, "cmd", file, where),
        workdir=workdir,
    )


def _layer(layer: Any, file: Path, where: str) -> Layer:
    source, path = _text(layer, "source", file, where), _text(layer, "path", file, where)
    _known(layer, ("source", "path"), file, where)
    if not path.startswith("/"):
        raise _invalid(file, f"{where}.path", path, "must be an absolute path")
    folder = (file.parent / source).resolve()
    if not folder.is_dir():
        raise _invalid(file, f"{where}.source", source, "there is no such directory")
    return Layer(source=str(folder), path=path)


def _command(entry: dict[str, Any], key: str, file: Path, where: str) -> tuple[str, ...]:
    """Return a command line, which may be a list of words or, as for the command line's option, one text."""
    value = entry.get(key) or []
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise _invalid(file, f"{where}.{key}", value, str(error)) from error
    if not isinstance(value, list):
        raise _invalid(file, f"{where}.{key}", value, "must be a command line or a list of its words")
    return tuple(map(str, value))


def _text(entry: Any, key: str, file: Path, where: str) -> str:
    if not isinstance(entry, dict):
        raise _invalid(file, where, entry, "must be a map")
    if not isinstance(entry.get(key), str) or not entry[key]:
        raise UserError(f"{file}: {where}.{key}: Required value")
    return str(entry[key])


def _known(entry: dict[str, Any], keys: Sequence[str], file: Path, where: str) -> None:
    for key in entry:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
            raise UserError(f"{file}: {where}{'.' if where else ''}{key}: unknown field", hint)


def _invalid(file: Path, where: str, value: Any, why: str) -> UserError:
    return UserError(f"{file}: {where}: Invalid value: {json.dumps(value, default=str)}: {why}")
