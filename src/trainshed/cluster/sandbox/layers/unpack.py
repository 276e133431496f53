"""Unpacks one layer, a tar archive on standard input, into a directory: `unpack DIRECTORY REPORT`.

It becomes the lower directory of an overlay: OCI's whiteouts are written as the kernel has them (overlayfs.rst,
"whiteouts and opaque directories", with `userxattr`). Source of the rules: OCI image-spec, layer.md.

An archive is untrusted. This process cannot leave the directory (`confined`); beyond that every path is resolved by the
kernel within it and never followed at its end.
"""

from __future__ import annotations

import encodings.utf_8  # noqa: F401 - cannot be loaded later
import errno
import io
import os
import stat
import sys
import tarfile

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.layers import confined
from trainshed.cluster.sandbox.layers.confined import Refused
from trainshed.cluster.sandbox.layers.members import BoundedMember
from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO, Any

    from trainshed.cluster.sandbox.wire import Message

MAX_ENTRIES = 2_000_000
MAX_BYTES = 256 << 30
MAX_NAME = 4096
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_AUFS = ".wh..wh."
OVERLAY_XATTR = "user.overlay."
KEPT_XATTRS = ("security.capability", "user.")
_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_RESOLVE = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS


def main(argv: list[str]) -> int:
    """Unpack standard input into the directory named first; tell the outcome on the descriptor named second.

    The third says how many bytes of files there may be, the fourth how many entries.
    """
    directory, report, most, entries = argv
    return confined.run(
        lambda: _unpack_stdin(int(most), int(entries)), prepare=lambda: directory, report=int(report)
    )


def _unpack_stdin(most: int, most_entries: int) -> Message:
    layer = Layer(most, most_entries)
    with os.fdopen(0, "rb", buffering=0) as source:
        try:
            with tarfile.open(
                fileobj=source, mode="r|", tarinfo=BoundedMember, encoding="utf-8", errors="surrogateescape"
            ) as archive:
                for member in archive:
                    layer.add(archive, member)
                    # Or it keeps each for good: a layer may have two millions.
                    archive.members.clear()  # type: ignore[attr-defined]  # its stub lacks it, not its documentation
        except (tarfile.TarError, RecursionError, EOFError, ValueError) as error:
            raise Refused(f"not a tar archive that can be read: {error}") from None
        layer.finish()
        while source.read(_CHUNK):  # what follows the end of an archive belongs to its digest
            pass
    return {"entries": layer.entries, "bytes": layer.bytes, "devices": layer.devices}


class Layer:
    """What has been unpacked below the root of this process; `most` bytes of files and `most_entries` at most."""

    def __init__(self, most: int = MAX_BYTES, most_entries: int = MAX_ENTRIES) -> None:
        self._most = most
        self._most_entries = min(most_entries, MAX_ENTRIES)
        self._apparent = 0
        self.entries = self.bytes = self.devices = 0
        self._root = os.open("/", _DIRECTORY)
        self._parent: tuple[str, int] | None = None
        self._times: dict[str, int] = {}

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write one entry. Raises Refused or OSError."""
        self.entries += 1
        if self.entries > self._most_entries:
            why = "" if self._most_entries == MAX_ENTRIES else ", which is all that the disk has room for"
            raise Refused(f"the layer has more than {self._most_entries} entries{why}")
        self._apparent += max(member.size, 0)
        self.bytes += max(sum(size for _, size in _parts(member)), 0)
        if self._apparent > MAX_BYTES or member.size < 0:
            raise Refused(f"the layer has more than {MAX_BYTES >> 30} GiB")
        if self.bytes > self._most:
            raise Refused(
                f"the layer has more than {self._most / (1 << 30):.3g} GiB, which is all that the disk has room for"
            )
        parts = split(member.name)
        if not parts:
            if member.isdir():
                self._attributes(self._root, "", member)
            return
        parent, name = self._open_parent(parts[:-1]), parts[-1]
        if name.startswith(WHITEOUT):
            self._whiteout(parent, name)
        elif member.ischr() or member.isblk():
            self.devices += 1
        else:
            self._entry(archive, member, parent, name, "/".join(parts))

    def finish(self) -> None:
        """Give directories the times that their entries have changed, the lowest first."""
        for path, mtime in sorted(self._times.items(), reverse=True):
            parts = path.split("/")
            try:
                os.utime(
                    parts[-1], ns=(mtime, mtime), dir_fd=self._open_parent(parts[:-1]), follow_symlinks=False
                )
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise

    def _open_parent(self, parts: list[str]) -> int:
        """Return a descriptor of a directory, made where it is missing; this object closes it."""
        path = "/".join(parts)
        if self._parent is not None:
            if self._parent[0] == path:
                return self._parent[1]
            os.close(self._parent[1])
            self._parent = None
        current = os.open(".", _DIRECTORY, dir_fd=self._root)
        if path:
            try:
                following = syscalls.openat2(self._root, path, _DIRECTORY, _RESOLVE)
            except (FileNotFoundError, NotADirectoryError):
                following = self._make_parents(parts)
            os.close(current)
            current = following
        self._parent = (path, current)
        return current

    def _make_parents(self, parts: list[str]) -> int:
        """Return a descriptor of the directory; what is missing on the way is made, what is in the way goes."""
        current = os.open(".", _DIRECTORY, dir_fd=self._root)
        for number, part in enumerate(parts, start=1):
            place = "/".join(parts[:number])
            try:
                following = syscalls.openat2(self._root, place, _DIRECTORY, _RESOLVE)
            except (FileNotFoundError, NotADirectoryError):
                _remove(current, part)
                os.mkdir(part, 0o755, dir_fd=current)
                following = syscalls.openat2(self._root, place, _DIRECTORY, _RESOLVE)
            os.close(current)
            current = following
        return current

    def _whiteout(self, parent: int, name: str) -> None:
        """Note that lower layers' entry of that name, or all of theirs in this directory, are gone."""
        if name == OPAQUE:
            _set_opaque(parent)
            return
        if name.startswith(_AUFS):
            return  # bookkeeping of an older file system
        hidden = name[len(WHITEOUT) :]
        if hidden in ("", ".", ".."):
            raise Refused(f"the layer has an entry {name!r}, which hides nothing that can be named")
        found = status(parent, hidden)
        if found is None:
            os.mknod(hidden, stat.S_IFCHR | 0o000, os.makedev(0, 0), dir_fd=parent)
        elif stat.S_ISDIR(found.st_mode):  # this layer's own: only what is below it is hidden
            inner = os.open(hidden, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            try:
                _set_opaque(inner)
            finally:
                os.close(inner)

    def _entry(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str, path: str
    ) -> None:
        if member.isdir():
            self._directory(member, parent, name)
            self._times[path] = _nanoseconds(member)
            return
        self._clear(parent, name, member)
        self._times.pop(path, None)
        if member.islnk():
            self._hard_link(member, parent, name)
            return
        if member.issym():
            if len(member.linkname) > MAX_NAME:
                raise Refused(f"{member.name[:100]!r} links to a name of {len(member.linkname)} characters")
            os.symlink(member.linkname, name, dir_fd=parent)
            self._attributes(parent, name, member)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=parent)
            self._attributes(parent, name, member)
        elif member.isreg():
            self._file(archive, member, parent, name)
        else:
            raise Refused(f"{member.name[:100]!r} is an entry of a kind that is not known")

    def _clear(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        """Delete what is in the way of an entry."""
        _remove(parent, name)

    def _directory(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        found = status(parent, name)
        hid = found is not None and stat.S_ISCHR(found.st_mode)
        if found is None or not stat.S_ISDIR(found.st_mode):
            _remove(parent, name)
            os.mkdir(name, 0o700, dir_fd=parent)
        inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            if hid:  # deleted and made again: nothing of the old one shows
                _set_opaque(inner)
            self._attributes(inner, "", member)
        finally:
            os.close(inner)

    def _hard_link(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        parts = split(member.linkname)
        if not parts:
            raise Refused(f"{member.name[:100]!r} is a hard link to the root")
        try:
            directory = syscalls.openat2(self._root, "/".join(parts[:-1]) or ".", _DIRECTORY, _RESOLVE)
        except OSError as error:
            why = f"is a hard link to what is not in this layer: {error.strerror}"
            raise Refused(f"{member.name[:100]!r} {why}") from None
        try:
            os.link(parts[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, PermissionError):
            raise Refused(f"{member.name[:100]!r} is a hard link to what is not in this layer") from None
        finally:
            os.close(directory)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            source = archive.extractfile(member)
            assert source is not None
            if not member.issparse():
                _pour(source, target, member.size)
            else:
                _pour_parts(getattr(source, "raw"), target, member)  # noqa: B009 - a buffer, whatever its stub says
            self._attributes(target, "", member)
        finally:
            os.close(target)

    def _attributes(self, place: int, name: str, member: tarfile.TarInfo) -> None:
        """Set owner, mode, attributes and time of the open file `place`, or of a link or pipe `name` in it."""
        mtime = _nanoseconds(member)
        if name:
            own(place, name, member.uid, member.gid)
            if not member.issym():
                os.chmod(name, stat.S_IMODE(member.mode), dir_fd=place)
            os.utime(name, ns=(mtime, mtime), dir_fd=place, follow_symlinks=False)
            return
        own(place, "", member.uid, member.gid)
        os.fchmod(place, stat.S_IMODE(member.mode))
        for key, value in _xattrs(member):
            try:
                os.setxattr(place, key, value)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EINVAL, errno.ENODATA):
                    raise
        os.utime(place, ns=(mtime, mtime))


def _parts(member: tarfile.TarInfo) -> Sequence[tuple[int, int]]:
    """Return (offset, bytes) of what a file holds: of a sparse one, what is not zeros."""
    found: Any = member.sparse
    return found if member.issparse() else [(0, member.size)]


def _pour_parts(source: io.RawIOBase, target: int, member: tarfile.TarInfo) -> None:
    """Write the parts of a sparse file. What is between them is neither read nor written: it may be terabytes."""
    os.ftruncate(target, member.size)
    for offset, size in _parts(member):
        source.seek(offset)  # its own position only: the archive is a pipe, where nothing goes back
        os.lseek(target, offset, os.SEEK_SET)
        _pour(source, target, size)


def _pour(source: io.RawIOBase | IO[bytes], target: int, size: int) -> None:
    while size > 0 and (data := source.read(min(size, _CHUNK))):
        size -= len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]


def split(name: str) -> list[str]:
    """Return the parts of a path in an archive, from its root. Raises Refused for one that leads out."""
    if len(name) > MAX_NAME or "\0" in name:
        raise Refused(f"the layer has a name of {len(name)} characters: {name[:100]!r}…")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"the layer has a name that leads out of it: {name[:100]!r}")
    return parts


def _xattrs(member: tarfile.TarInfo) -> Iterator[tuple[str, bytes]]:
    for key, value in member.pax_headers.items():
        name = key.removeprefix("SCHILY.xattr.")
        if name != key and name.startswith(KEPT_XATTRS) and not name.startswith(OVERLAY_XATTR):
            yield name, value.encode("utf-8", "surrogateescape")


def own(place: int, name: str, uid: int, gid: int) -> None:
    """Give the open file `place`, or what is called `name` in it, its owner; the caller where there are no such ids."""
    try:
        if name:
            os.chown(name, uid, gid, dir_fd=place, follow_symlinks=False)
        else:
            os.fchown(place, uid, gid)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EPERM):
            raise


def _nanoseconds(member: tarfile.TarInfo) -> int:
    """Return the time of modification, within what file systems take."""
    try:
        return min(max(int(float(member.mtime) * 1_000_000_000), 0), 1 << 62)
    except (ValueError, OverflowError):
        return 0


def _set_opaque(directory: int) -> None:
    os.setxattr(directory, f"{OVERLAY_XATTR}opaque", b"y")


def status(parent: int, name: str) -> os.stat_result | None:
    """Return what is known of a name, None where there is none."""
    try:
        return os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None


def _remove(parent: int, name: str) -> None:
    """Delete what is in the way of an entry."""
    found = status(parent, name)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        files.remove_tree_at(parent, name)
    else:
        os.unlink(name, dir_fd=parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
