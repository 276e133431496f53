"""Copies into an image's root: `copy PRIVATE REPORT WHAT`, the files as an archive on standard input.

The root is mounted as a container's would be, below the directory PRIVATE; what is written is then there for `pack`.
WHAT, in JSON:

    lowers        unpacked layers, the topmost first; with `machine` they lie over this machine's root
    directory     makes a directory: `path` and `user`, without an archive
    target        where to; a directory where it ends with a slash, else the name of a file unless a directory is there
    single        there is one file, which may be renamed to the target
    chown, mode   who owns what is written, by the image's own names; permissions; null leaves them
    archives      descriptors of archives that are unpacked into the target
"""

from __future__ import annotations

import bz2  # noqa: F401 - compressed archives; nothing can be loaded later
import encodings.utf_8  # noqa: F401
import gzip  # noqa: F401
import json
import lzma
import os
import stat
import sys
import tarfile
import zlib

from trainshed.cluster.sandbox.layers import confined, unpack
from trainshed.cluster.sandbox.layers.confined import Refused
from trainshed.cluster.sandbox.layers.members import BoundedMember
from trainshed.cluster.sandbox.linux import syscalls, users
from trainshed.cluster.sandbox.linux.imageroot import ImageRoot
from trainshed.cluster.sandbox.linux.rootfs import WRITTEN, RootFilesystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.cluster.sandbox.wire import Message

_RESOLVE = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS


def main(argv: list[str]) -> int:
    """Copy; tell the outcome on the descriptor named second."""
    return run_on_root(argv, _copy)


def run_on_root(argv: list[str], work: Callable[[Message], Message]) -> int:
    """Do `work` with what the third argument says, confined to the mounted root of an image."""
    private, report, text = argv
    what: Message = json.loads(text)
    return confined.run(
        lambda: work(what),
        prepare=lambda: mount(private, what["lowers"], what["machine"]),
        report=int(report),
    )


def mount(private: str, lowers: list[str], machine: bool) -> str:
    """Mount the root of an image for changes that come to lie below `private`; return where. Raises OSError."""
    if machine:
        filesystem = RootFilesystem(private, [("/", lower) for lower in lowers])
    else:
        filesystem = ImageRoot(private, lowers)
    filesystem.build()
    filesystem.note_writes(f"{private}/{WRITTEN}")
    return filesystem.root


def _copy(what: Message) -> Message:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if what["directory"] is not None:
        _make(root, what["directory"]["path"], _owner(what["directory"]["user"]))
        return {}
    owner = _owner(what["chown"])
    target = _target(root, what)
    copied = Copied(target, owner, what["mode"])
    _unpack(copied, 0, what["single"] and not target.endswith("/"))
    for descriptor in what["archives"]:
        _unpack(Copied(target, owner, None), descriptor, False)
    return {}


def _target(root: int, what: Message) -> str:
    """Return the target, with a slash where it is a directory."""
    path: str = what["target"]
    if path.endswith("/") or not what["single"] or what["archives"]:
        return path.rstrip("/") + "/"
    try:
        fd = syscalls.openat2(root, path.lstrip("/") or ".", os.O_PATH | os.O_CLOEXEC, _RESOLVE)
    except OSError:
        return path
    try:
        return f"{path}/" if stat.S_ISDIR(os.fstat(fd).st_mode) else path
    finally:
        os.close(fd)


def _owner(text: str) -> tuple[int, int] | None:
    """Return who `user[:group]` is in this root; one without a group is of the group of its own number."""
    if not text:
        return None
    try:
        user = users.of_container({"root": ["/"], "user": text, "uid": None, "gid": None})
    except users.UnknownUser as error:
        raise Refused(str(error)) from None
    return user.uid, user.gid if ":" in text else user.uid


def _make(root: int, path: str, owner: tuple[int, int] | None) -> None:
    parts = [part for part in path.split("/") if part]
    current = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    for number, part in enumerate(parts, start=1):
        place = "/".join(parts[:number])
        try:
            following = _open_directory(root, place)
        except FileNotFoundError:
            try:
                os.mkdir(part, 0o755, dir_fd=current)
            except FileExistsError:
                raise Refused(f"/{place}: a symbolic link that leads nowhere is in the way") from None
            if owner is not None:
                unpack.own(current, part, *owner)
            following = _open_directory(root, place)
        os.close(current)
        current = following
    os.close(current)


def _open_directory(root: int, place: str) -> int:
    try:
        return syscalls.openat2(root, place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, _RESOLVE)
    except NotADirectoryError:
        raise Refused(f"/{place} is not a directory") from None


def _unpack(copied: Copied, descriptor: int, renamed: bool) -> None:
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        try:
            # Files of the context come as a plain archive; what ADD unpacks may be compressed.
            mode = "r|" if descriptor == 0 else "r|*"
            with tarfile.open(  # type: ignore[call-overload]
                fileobj=source, mode=mode, tarinfo=BoundedMember, encoding="utf-8", errors="surrogateescape"
            ) as archive:
                for member in archive:
                    copied.place(archive, member, renamed)
        except (tarfile.TarError, RecursionError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            raise Refused(f"not an archive that can be read: {error}") from None
        copied.finish()
        while source.read(1 << 20):
            pass


class Copied(unpack.Layer):
    """Entries that are written below a directory of the root, whose names mean nothing but themselves."""

    def __init__(self, target: str, owner: tuple[int, int] | None, mode: int | None) -> None:
        super().__init__()
        self._target = target
        self._owner = owner
        self._mode = mode

    def place(self, archive: tarfile.TarFile, member: tarfile.TarInfo, renamed: bool) -> None:
        """Write one entry. Raises Refused or OSError."""
        parts = unpack.split(member.name)
        if any(part.startswith(unpack.WHITEOUT) for part in parts):
            raise Refused(
                f"{member.name[:100]!r}: a layer cannot hold names that begin with {unpack.WHITEOUT}"
            )
        if self._owner is not None:
            member.uid, member.gid = self._owner
        if self._mode is not None and not member.issym():
            member.mode = self._mode
        if member.islnk():
            member.linkname = self._target + "/".join(unpack.split(member.linkname))
        if not parts:
            _make(self._root, self._target, self._owner)
            return
        member.name = self._target if renamed else self._target + "/".join(parts)
        self.add(archive, member)

    def _make_parents(self, parts: list[str]) -> int:
        _make(self._root, "/".join(parts), self._owner)
        return super()._make_parents(parts)

    def _directory(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        place = member.name.strip("/")
        try:
            os.close(syscalls.openat2(self._root, place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, _RESOLVE))
        except FileNotFoundError:
            super()._directory(member, parent, name)
        except NotADirectoryError:
            raise Refused(f"cannot copy a directory over /{place}, which is none") from None
        # One that is there keeps its attributes.

    def _clear(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        found = unpack.status(parent, name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise Refused(f"cannot copy over /{member.name.strip('/')}, which is a directory")
        super()._clear(parent, name, member)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
