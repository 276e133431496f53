"""`images.yaml`: what stands for each image where nothing is pulled, kept beside the manifests that name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trainshed.cluster.images.directories import Image, ImageProblem, ImageRegistry, normalise
from trainshed.cluster.sandbox.model import Layer
from trainshed.kube.meta.objects import section
from trainshed.sdk.errors import UserError

FILE_NAME = "images.yaml"


def register_beside(manifests: list[str], registry: ImageRegistry) -> list[str]:
    """Register what the `images.yaml` beside each manifest lists; return the images' names.

    Raises:
        UserError: the file is malformed or names a directory that does not exist.
    """
    names: list[str] = []
    for file in _beside(manifests):
        names.extend(register(read(file), registry))
    return names


def known(manifests: list[str], registered: Path) -> dict[str, Image]:
    """Return the images by normalised name: those in the registry's file, and those listed beside the manifests.

    Raises:
        UserError: an `images.yaml` is malformed.
    """
    found = dict(ImageRegistry(registered).list())
    for file in _beside(manifests):
        for name, image in read(file).items():
            try:
                found[normalise(name)] = image
            except ImageProblem as error:
                raise UserError(f"{file}: {error}") from error
    return found


def _beside(manifests: list[str]) -> list[Path]:
    """Return the `images.yaml` of the folders in which the manifests are."""
    folders = [Path(each) if Path(each).is_dir() else Path(each).parent for each in manifests if each != "-"]
    return [folder / FILE_NAME for folder in dict.fromkeys(folders) if (folder / FILE_NAME).is_file()]


def register(images: dict[str, Image], registry: ImageRegistry) -> list[str]:
    """Register the images and return their normalised names. Raises UserError."""
    try:
        return [registry.add(name, image) for name, image in images.items()]
    except (ImageProblem, FileNotFoundError) as error:
        raise UserError(str(error)) from error


def read(file: Path) -> dict[str, Image]:
    """Return the images of the file by name; layer sources are relative to the file."""
    try:
        document: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not YAML: {error}") from error
    entries = document.get("images") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UserError(f"{file}: images: Required value", "a list of {name, layers: [{source, path}]}")
    return {_text(entry, "name", file): _image(entry, file) for entry in entries}


def _image(entry: dict[str, Any], file: Path) -> Image:
    layers = tuple(
        Layer(
            source=str((file.parent / _text(layer, "source", file)).resolve()),
            path=_text(layer, "path", file),
        )
        for layer in entry.get("layers") or ()
    )
    return Image(
        layers=layers,
        env={str(k): str(v) for k, v in section(entry, "env").items()},
        entrypoint=tuple(map(str, entry.get("entrypoint") or ())),
        cmd=tuple(map(str, entry.get("cmd") or ())),
        workdir=str(entry.get("workdir") or ""),
    )


def _text(entry: Any, key: str, file: Path) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get(key), str) or not entry[key]:
        raise UserError(f"{file}: {key}: Required value")
    return str(entry[key])
