"""Reading a tree that cannot be trusted: what a COPY takes of it, as entries of an archive.

Every path is resolved by the kernel within the tree (openat2, RESOLVE_IN_ROOT): `..`, absolute paths and symbolic links
lead no further than its root. Below a directory that was asked for nothing is followed.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile

from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

MAX_DEPTH = 256
WHITEOUT = ".wh."
_CHUNK = 1 << 20
_RESOLVE = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_CLOEXEC


class NotThere(Exception):
    """Nothing of that name is in the tree; or what is cannot be copied. One sentence."""


class Entry:
    """Something to copy: its name in the archive (empty for a directory whose content is meant), where it is in the
    tree, and a descriptor of the directory it is in."""

    __slots__ = ("found", "name", "parent", "path")

    def __init__(self, name: str, path: str, parent: int, found: os.stat_result) -> None:
        self.name = name
        self.path = path
        self.parent = parent
        self.found = found

    @property
    def base(self) -> str:
        return self.path.rpartition("/")[2] or "."

    def is_file(self) -> bool:
        return stat.S_ISREG(self.found.st_mode)

    def open(self) -> int:
        """Return a descriptor of the file, which is what was looked at or nothing. Raises OSError."""
        fd = os.open(
            self.base, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.parent
        )
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != (self.found.st_dev, self.found.st_ino):
            os.close(fd)
            raise NotThere(f"{self.path} was changed while it was read")
        return fd

    def link(self) -> str:
        return os.readlink(self.base, dir_fd=self.parent)


class Tree:
    """A directory, by a descriptor that this object closes. `ignored` tells by path what is left out."""

    def __init__(self, root: int, ignored: Callable[[str], bool], exceptions: bool) -> None:
        self._root = root
        self._ignored = ignored
        self._exceptions = exceptions

    def close(self) -> None:
        os.close(self._root)

    def matches(self, path: str, pattern: re.Pattern[str] | None) -> list[str]:
        """Return what is meant by a path without `..`: itself, or with a pattern for whole paths all that fit."""
        if pattern is None:
            return [path]
        depth = MAX_DEPTH if "**" in path else path.count("/")
        return sorted(each for each in self._names("", depth) if pattern.fullmatch(each))

    def _names(self, directory: str, depth: int) -> Iterator[str]:
        try:
            fd = syscalls.openat2(self._root, directory or ".", _DIRECTORY, _RESOLVE)
        except OSError:
            return
        try:
            names = sorted(os.listdir(fd))
        finally:
            os.close(fd)
        for name in names:
            path = f"{directory}/{name}" if directory else name
            if self._ignored(path):
                if not self._exceptions:
                    continue
            else:
                yield path
            if depth > 0:
                yield from self._names(path, depth - 1)

    def entries(self, path: str) -> Iterator[Entry]:
        """Yield what copying a path means: the file, or what is in the directory. Raises NotThere or OSError.

        A descriptor of an entry is good until the next is asked for.
        """
        left_out = bool(path) and self._ignored(path)
        if left_out and not self._exceptions:
            raise NotThere(f"{path}: not found; .dockerignore excludes it")
        try:
            place = syscalls.openat2(self._root, path or ".", _PATH, _RESOLVE)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                raise NotThere(f"{path}: not found") from None
            raise
        try:
            found = os.fstat(place)
            if stat.S_ISDIR(found.st_mode):
                directory = os.open(".", _DIRECTORY, dir_fd=place)
                try:
                    yield Entry("", path, directory, os.fstat(directory))
                    yield from self._below(directory, "", path, MAX_DEPTH)
                finally:
                    os.close(directory)
                return
        finally:
            os.close(place)
        if left_out:
            raise NotThere(f"{path}: not found; .dockerignore excludes it")
        yield from self._single(path, found)

    def _single(self, path: str, found: os.stat_result) -> Iterator[Entry]:
        """Yield the file that a path leads to, whose own name may be another's."""
        name = path.rpartition("/")[2]
        target = self._resolved(path)
        parent_path, _, _ = target.rpartition("/")
        parent = syscalls.openat2(self._root, parent_path or ".", _DIRECTORY, _RESOLVE)
        try:
            entry = Entry(name, target, parent, os.lstat(target.rpartition("/")[2], dir_fd=parent))
            if (entry.found.st_dev, entry.found.st_ino) != (found.st_dev, found.st_ino):
                raise NotThere(f"{path} was changed while it was read")
            _check(entry)
            yield entry
        finally:
            os.close(parent)

    def _resolved(self, path: str) -> str:
        """Return the path with the links at its end followed, each from the root of the tree."""
        for _ in range(40):
            parent_path, _, name = path.rpartition("/")
            parent = syscalls.openat2(self._root, parent_path or ".", _PATH | os.O_DIRECTORY, _RESOLVE)
            try:
                target = os.readlink(name, dir_fd=parent)
            except OSError:
                return path
            finally:
                os.close(parent)
            joined = target if target.startswith("/") else f"{parent_path}/{target}"
            parts: list[str] = []
            for part in joined.split("/"):
                if part == "..":
                    parts = parts[:-1]
                elif part not in ("", "."):
                    parts.append(part)
            path = "/".join(parts)
        raise NotThere(f"{path}: too many levels of symbolic links")

    def _below(self, directory: int, name: str, path: str, depth: int) -> Iterator[Entry]:
        if depth == 0:
            raise NotThere(f"{path[:200]}: directories are nested more than {MAX_DEPTH} deep")
        for base in sorted(os.listdir(directory)):
            inner_path = f"{path}/{base}" if path else base
            inner_name = f"{name}/{base}" if name else base
            left_out = self._ignored(inner_path)
            if left_out and not self._exceptions:
                continue
            found = os.lstat(base, dir_fd=directory)
            if not stat.S_ISDIR(found.st_mode):
                if not left_out:
                    entry = Entry(inner_name, inner_path, directory, found)
                    _check(entry)
                    yield entry
                continue
            inner = os.open(base, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                own = Entry(inner_name, inner_path, directory, found)
                _check(own)
                below = self._below(inner, inner_name, inner_path, depth - 1)
                if not left_out:
                    yield own
                    yield from below
                    continue
                first = next(below, None)
                if first is not None:  # kept by an exception, so its directory is
                    yield own
                    yield first
                    yield from below
            finally:
                os.close(inner)


def _check(entry: Entry) -> None:
    mode = entry.found.st_mode
    if entry.base.startswith(WHITEOUT):
        raise NotThere(f"{entry.path}: a layer cannot hold names that begin with {WHITEOUT}")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise NotThere(f"{entry.path}: neither file, directory nor symbolic link")


def write(archive: tarfile.TarFile, entry: Entry, name: str, *, owners: bool) -> None:
    """Add an entry to an archive under a name; with its owner, or as root's."""
    found = entry.found
    member = tarfile.TarInfo(name)
    member.mode = stat.S_IMODE(found.st_mode)
    member.mtime = found.st_mtime_ns // 1_000_000_000
    if owners:
        member.uid, member.gid = found.st_uid, found.st_gid
    if stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif stat.S_ISLNK(found.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, entry.link()
        archive.addfile(member)
    else:
        with open(entry.open(), "rb", buffering=0) as source:
            member.size = os.fstat(source.fileno()).st_size
            archive.addfile(member, _Exactly(source, member.size, entry.path))


class _Exactly:
    """A file of the size that its header says, whatever is done to it meanwhile."""

    def __init__(self, source: object, size: int, path: str) -> None:
        self._source, self._left, self._path = source, size, path

    def read(self, size: int = -1) -> bytes:
        wanted = min(self._left, _CHUNK if size < 0 else size)
        data = b""
        while len(data) < wanted:
            piece: bytes = self._source.read(wanted - len(data))  # type: ignore[attr-defined]
            if not piece:
                raise NotThere(f"{self._path} became shorter while it was read")
            data += piece
        self._left -= len(data)
        return data
