"""The names of a store: its `index.json`, an OCI index with a full name for each manifest.

Replaced whole and under a lock: readers see one state or the next. A manifest without a name was tagged once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainshed.cluster.images.oci import (
    NAME_ANNOTATION,
    PINNED_ANNOTATION,
    PULLED_ANNOTATION,
    Descriptor,
    Index,
    InvalidImage,
    index_of,
)
from trainshed.cluster.images.reference import Reference
from trainshed.cluster.images.store.paths import StorePaths


class Names:
    """The manifests of a store by name."""

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._stamp: tuple[int, int] | None = None
        self._read: dict[str, Descriptor] = {}

    def all(self) -> dict[str, Descriptor]:
        """Return what each name stands for. Raises InvalidImage where the index is damaged."""
        try:
            found = self._paths.index.stat()
        except FileNotFoundError:
            return {}
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp != self._stamp:
            try:
                index = index_of(self._paths.index.read_bytes())
            except InvalidImage as error:
                raise InvalidImage(f"{self._paths.index}: {error}") from error
            self._read = {
                one.annotations[NAME_ANNOTATION]: one
                for one in index.manifests
                if NAME_ANNOTATION in one.annotations
            }
            self._stamp = stamp
        return self._read

    def set(self, name: Reference, manifest: Descriptor, *, pulled: bool = False) -> None:
        """Let the name stand for the manifest; `pulled`: it can be had again. A pin of the name stays."""

        def change(names: dict[str, Descriptor]) -> dict[str, Descriptor]:
            notes = {NAME_ANNOTATION: str(name)} | ({PULLED_ANNOTATION: ""} if pulled else {})
            if str(name) in names and is_pinned(names[str(name)]):
                notes[PINNED_ANNOTATION] = ""
            return {**names, str(name): msgspec.structs.replace(manifest, annotations=notes)}

        self._change(change)

    def pin(self, name: str, pinned: bool) -> None:
        """Keep what a name in full stands for, or no longer; a name that is not there is no matter."""

        def change(names: dict[str, Descriptor]) -> dict[str, Descriptor]:
            if (one := names.get(name)) is None:
                return names
            notes = {key: value for key, value in one.annotations.items() if key != PINNED_ANNOTATION}
            notes |= {PINNED_ANNOTATION: ""} if pinned else {}
            return {**names, name: msgspec.structs.replace(one, annotations=notes)}

        self._change(change)

    def remove(self, *names: str) -> None:
        """Forget names in full; those that are not there are no matter."""
        self._change(lambda known: {name: one for name, one in known.items() if name not in names})

    def _change(self, change: Callable[[dict[str, Descriptor]], dict[str, Descriptor]]) -> None:
        with self._paths.locked("index"):
            names = change(dict(self.all()))
            index = Index(tuple(names[name] for name in sorted(names)))
            descriptor, temporary = tempfile.mkstemp(dir=self._paths.root, prefix=".index-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(index.encoded() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                Path(temporary).replace(self._paths.index)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise


def is_pinned(named: Descriptor) -> bool:
    """Return whether somebody wants what the name stands for to be kept."""
    return PINNED_ANNOTATION in named.annotations


def is_pulled(named: Descriptor) -> bool:
    """Return whether the name came from a registry, and was not given by hand, by a build or by an archive."""
    return PULLED_ANNOTATION in named.annotations
