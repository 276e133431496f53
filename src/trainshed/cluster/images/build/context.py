"""The build context: a directory of the user's that may hold anything.

What a COPY takes of it goes through `sandbox.layers.tree`: nothing leads out of the directory, and pipes, devices and
sockets are refused.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.images.build.errors import StepError
from trainshed.cluster.images.dockerfile.patterns import (
    Ignored,
    PatternError,
    clean,
    compiled,
    has_wildcard,
    read_ignore,
)
from trainshed.cluster.sandbox.layers.tree import Entry, NotThere, Tree, write

_CHUNK = 1 << 20
_MAGICS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_USTAR, _USTAR_AT = b"ustar", 257
_MAX_IGNORE = 1 << 20


class Selection(msgspec.Struct, frozen=True):
    """What a COPY takes: a digest of its content, whether it is one file, and the archives among it, by name."""

    digest: str
    single: bool
    archives: tuple[str, ...] = ()


def load_ignore(directory: Path, dockerfile: Path | None) -> Ignored:
    """Return the rules of `<Dockerfile>.dockerignore`, else of `.dockerignore`. Raises StepError."""
    places = [dockerfile.with_name(f"{dockerfile.name}.dockerignore")] if dockerfile else []
    for place in (*places, directory / ".dockerignore"):
        try:
            with place.open("rb") as file:
                data = file.read(_MAX_IGNORE + 1)
            if len(data) > _MAX_IGNORE:
                raise StepError(f"{place} is larger than {_MAX_IGNORE >> 20} MiB")
            return read_ignore(data.decode(errors="surrogateescape"))
        except FileNotFoundError:
            continue
        except (OSError, PatternError) as error:
            raise StepError(f"{place}: {error}") from error
    return Ignored(())


class Context:
    """A directory, without what its `.dockerignore` leaves out."""

    def __init__(self, directory: Path, ignored: Ignored) -> None:
        self._directory = directory
        self._ignored = ignored

    def select(self, sources: Sequence[str], exclude: Sequence[str], *, unpacks: bool) -> Selection:
        """Return what the sources come to. With `unpacks`, archives are told apart. Raises StepError."""
        try:
            return self._selected(sources, exclude, unpacks)
        except NotThere as error:
            raise StepError(f"in the build context {error}") from error

    def _selected(self, sources: Sequence[str], exclude: Sequence[str], unpacks: bool) -> Selection:
        digest = hashlib.sha256()
        files = directories = 0
        archives: list[str] = []
        for place, number, entry in self._entries(sources, exclude):
            if number == 0:
                files, directories = files + bool(entry.name), directories + (not entry.name)
            if unpacks and number == 0 and entry.name and entry.is_file() and _is_archive(entry):
                archives.append(place)
                digest.update(b"archive\0")
            _note(digest, entry)
        return Selection(digest.hexdigest(), files == 1 and not directories, tuple(archives))

    def write(
        self,
        sources: Sequence[str],
        exclude: Sequence[str],
        left_out: Sequence[str],
        archive: tarfile.TarFile,
    ) -> None:
        """Add the files to an archive, those `left_out` excepted. Raises StepError or OSError."""
        try:
            for place, _, entry in self._entries(sources, exclude):
                if place not in left_out:
                    write(archive, entry, entry.name or ".", owners=False)
        except NotThere as error:
            raise StepError(f"in the build context {error}") from error

    def open(self, path: str) -> int:
        """Return a descriptor of one file. Raises StepError or OSError."""
        try:
            for _, _, entry in self._entries([path], ()):
                return entry.open()
        except NotThere as error:
            raise StepError(f"in the build context {error}") from error
        raise StepError(f"{path}: not found")

    def _entries(self, sources: Sequence[str], exclude: Sequence[str]) -> Iterator[tuple[str, int, Entry]]:
        """Yield what each source means: the place that was asked for, how many came before there, and the entry."""
        left_out = Ignored(exclude)

        def ignored(path: str) -> bool:
            return self._ignored(path) or left_out(path)

        tree = Tree(
            os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
            ignored,
            self._ignored.has_exceptions or left_out.has_exceptions,
        )
        try:
            for source in sources:
                path = clean(source)
                places = tree.matches(path, compiled(path) if has_wildcard(path) else None)
                if not places:
                    raise StepError(f"{source}: nothing in the build context fits")
                for place in places:
                    for number, entry in enumerate(tree.entries(place)):
                        yield place, number, entry
        except PatternError as error:
            raise StepError(str(error)) from error
        finally:
            tree.close()


def _is_archive(entry: Entry) -> bool:
    with os.fdopen(entry.open(), "rb") as file:
        head = file.read(_USTAR_AT + len(_USTAR))
    return head.startswith(_MAGICS) or head[_USTAR_AT:] == _USTAR


def _note(digest: hashlib._Hash, entry: Entry) -> None:
    """Add what of an entry counts: not its times, and not who owns it here."""
    mode = entry.found.st_mode
    head = f"{len(entry.name)}\0{entry.name}\0{mode:o}\0"
    digest.update(head.encode("utf-8", "surrogateescape"))
    if stat.S_ISLNK(mode):
        digest.update(entry.link().encode("utf-8", "surrogateescape") + b"\0")
    elif stat.S_ISREG(mode):
        content = hashlib.sha256()
        with os.fdopen(entry.open(), "rb", buffering=0) as file:
            while data := file.read(_CHUNK):
                content.update(data)
        digest.update(content.digest())
