"""Packs what was written to a container's root: `pack PRIVATE REPORT OPTIONS`, a layer's archive on standard output.

The opposite of `unpack`: what overlayfs keeps in its upper directories becomes OCI's entries and whiteouts
(overlayfs.rst, "whiteouts and opaque directories"; image-spec, layer.md). `PRIVATE` is the directory that the root was
built in, where `written.json` says what is where. OPTIONS, in JSON: `left_out`, paths that are not packed; `stubs`,
paths at which something was mounted, which are left out where nothing else is there.
"""

from __future__ import annotations

import encodings.utf_8  # noqa: F401 - cannot be loaded later
import json
import os
import stat
import sys
import tarfile

from trainshed.cluster.sandbox.fresh import FRESH
from trainshed.cluster.sandbox.layers import confined
from trainshed.cluster.sandbox.layers.confined import Refused
from trainshed.cluster.sandbox.layers.unpack import KEPT_XATTRS, OPAQUE, OVERLAY_XATTR, WHITEOUT
from trainshed.cluster.sandbox.linux.rootfs import WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

ALWAYS_LEFT_OUT = ("/proc", "/sys", "/dev", "/.host")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main(argv: list[str]) -> int:
    """Write the archive; tell how many `entries` it has on the descriptor named second."""
    private, report, options = argv
    return confined.run(lambda: _pack(json.loads(options)), prepare=lambda: private, report=int(report))


def _pack(options: Message) -> Message:
    with open(f"/{WRITTEN}", "rb") as file:
        written = json.load(file)
    with (
        os.fdopen(1, "wb", buffering=1 << 20) as target,
        tarfile.open(
            fileobj=target, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape"
        ) as archive,
    ):
        changes = Changes(archive, options["left_out"], options["stubs"])
        if written["base"]:
            changes.left_out += FRESH
            changes.add_base(f"/{written['base']}", written["made"])
            changes.left_out = changes.left_out[: -len(FRESH)]
        for path, upper in sorted(written["uppers"]):
            changes.add_upper(f"/{upper}", path.rstrip("/"), f"/{written['base']}" if written["base"] else "")
    return {"entries": changes.entries}


class Changes:
    """Writes entries, parents before what is in them."""

    def __init__(self, archive: tarfile.TarFile, left_out: list[str], stubs: list[str]) -> None:
        self.entries = 0
        self.left_out = [*left_out, *ALWAYS_LEFT_OUT]
        self._stubs = set(stubs)
        self._archive = archive
        self._links: dict[tuple[int, int], str] = {}
        self._parents: set[str] = set()

    def add_upper(self, directory: str, path: str, base: str) -> None:
        """Add an upper directory of an overlay that was mounted at a path; `base` has the attributes of those above."""
        fd = os.open(directory, _DIRECTORY)
        try:
            self._contents(fd, path, base)
        finally:
            os.close(fd)

    def add_base(self, directory: str, made: list[str]) -> None:
        """Add what a directory has beside what it was made with, and whiteouts for what it has no longer."""
        for path in made:
            if not os.path.lexists(directory + path):
                parent, name = path.rsplit("/", 1)
                self._whiteout(f"{parent}/{name}")
        self._new(directory, "", set(made))

    def _new(self, root: str, path: str, made: set[str]) -> None:
        for name in sorted(os.listdir(root + path)):
            inner = f"{path}/{name}"
            if self._is_left_out(inner):
                continue
            found = os.lstat(root + inner)
            if inner in made:
                if stat.S_ISDIR(found.st_mode):
                    self._new(root, inner, made)
                continue
            fd = os.open(root + path, _DIRECTORY)
            try:
                self._entry(fd, name, inner, root)
            finally:
                os.close(fd)

    def _contents(self, directory: int, path: str, base: str) -> None:
        for name in sorted(os.listdir(directory)):
            self._entry(directory, name, f"{path}/{name}", base)

    def _entry(self, parent: int, name: str, path: str, base: str) -> None:
        if self._is_left_out(path):
            return
        found = os.lstat(name, dir_fd=parent)
        mode = found.st_mode
        if name.startswith(WHITEOUT):
            raise Refused(f"{path[:200]}: a layer cannot hold names that begin with {WHITEOUT}")
        if stat.S_ISCHR(mode) and found.st_rdev == 0:
            self._above(path, base)
            self._whiteout(path)
            return
        if self._is_stub(parent, name, path):
            return
        if stat.S_ISDIR(mode):
            self._directory(parent, name, path, base, found)
            return
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISFIFO(mode)):
            return  # sockets, which nobody listens at any more, and devices
        self._above(path, base)
        member = _member(path, found)
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._links:
            member.type, member.linkname = tarfile.LNKTYPE, self._links[key]
            self._add(member)
            return
        if found.st_nlink > 1:
            self._links[key] = member.name
        if stat.S_ISLNK(mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=parent)
            self._add(member)
        elif stat.S_ISFIFO(mode):
            member.type = tarfile.FIFOTYPE
            self._add(member)
        else:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            with open(fd, "rb") as source:
                member.pax_headers = _xattrs(fd)
                member.size = os.fstat(fd).st_size
                self.entries += 1
                self._archive.addfile(member, source)

    def _directory(self, parent: int, name: str, path: str, base: str, found: os.stat_result) -> None:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            self._above(path, base)
            member = _member(path, found)
            member.type = tarfile.DIRTYPE
            member.pax_headers = _xattrs(fd)
            self._add(member)
            self._parents.add(path)
            if _is_opaque(fd):
                self._add(tarfile.TarInfo(f"{member.name}/{OPAQUE}"))
            self._contents(fd, path, base)
        finally:
            os.close(fd)

    def _is_stub(self, parent: int, name: str, path: str) -> bool:
        """Return whether this is there for a mount only: an empty file, or a directory of nothing but such."""
        if path not in self._stubs:
            return False
        found = os.lstat(name, dir_fd=parent)
        if not stat.S_ISDIR(found.st_mode):
            return stat.S_ISREG(found.st_mode) and not found.st_size
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            return all(self._is_stub(fd, each, f"{path}/{each}") for each in os.listdir(fd))
        finally:
            os.close(fd)

    def _above(self, path: str, base: str) -> None:
        """Add the directories above a path that no upper directory holds, as they are in the root that was built."""
        if not base:
            return
        parts = path.strip("/").split("/")[:-1]
        for count in range(1, len(parts) + 1):
            above = "/" + "/".join(parts[:count])
            if above in self._parents:
                continue
            self._parents.add(above)
            try:
                found = os.lstat(base + above)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                member = _member(above, found)
                member.type = tarfile.DIRTYPE
                self._archive.addfile(member)

    def _whiteout(self, path: str) -> None:
        parent, name = path.rsplit("/", 1)
        self._add(tarfile.TarInfo(f"{parent}/{WHITEOUT}{name}".lstrip("/")))

    def _add(self, member: tarfile.TarInfo) -> None:
        self.entries += 1
        self._archive.addfile(member)

    def _is_left_out(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one}/") for one in self.left_out)


def _member(path: str, found: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = stat.S_IMODE(found.st_mode)
    member.uid, member.gid = found.st_uid, found.st_gid
    member.mtime = found.st_mtime_ns // 1_000_000_000
    return member


def _xattrs(fd: int) -> dict[str, str]:
    found = {}
    try:
        names = os.listxattr(fd)
    except OSError:
        return {}
    for name in sorted(names):
        if name.startswith(KEPT_XATTRS) and not name.startswith(OVERLAY_XATTR):
            found[f"SCHILY.xattr.{name}"] = os.getxattr(fd, name).decode("utf-8", "surrogateescape")
    return found


def _is_opaque(fd: int) -> bool:
    try:
        return os.getxattr(fd, f"{OVERLAY_XATTR}opaque") == b"y"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
