"""The root of a container: the host's directories under overlayfs, with writes that stay private.

Overlay in a user namespace cannot take `/` whole, for the mounts below it are locked together with it
(clone_private_mount refuses; mount_namespaces(7), "Restrictions on mount namespaces"). So:

    /            a private directory on disk, not a tmpfs: what a pod writes to /workspace costs no memory
    /usr, ...    an overlay each: lower = layers and the host's directory, upper = private
    /a with mounts below it   built entry by entry in the same way, down to the mounts
    what overlayfs refuses    bound read-only
    what we may not read      empty and private: an ordinary user's pods have a /root to write to
    /tmp, /run, /var/tmp      empty and private
    a directory below, owned by a user without a number in the user namespace, that is to hold a mount point:
                              an overlay of its own, for nothing can be copied up to the one around it

Lower and upper directories are named through descriptors: no path needs escaping or has a length limit,
and the container's mount table does not show where the host keeps them.
"""

from __future__ import annotations

import errno
import os
import stat

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.fresh import FRESH
from trainshed.cluster.sandbox.linux import mountinfo, syscalls
from trainshed.cluster.sandbox.linux.syscalls import MS_BIND, MS_REC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    _Source: TypeAlias = tuple[str, os.stat_result]  # a place of the host's, and what is there

WRITTEN = "written.json"
"""In the private directory of a root that is to be packed: what `note_writes` notes."""
_SKIPPED = frozenset(("proc", "sys", "dev", "tmp", "run", "lost+found", ".host"))
_MAX_ENTRIES = 2000
_OVERFLOW = 65534  # proc_sys_kernel(5), overflowuid
_PATH = os.O_PATH | os.O_CLOEXEC


def by_fd(fd: int) -> str:
    """Return a path to what `fd` refers to."""
    return f"/proc/self/fd/{fd}"


class RootFilesystem:
    """Builds one root below `private` (the attempt's directory) in the current mount namespace.

    `layers` maps container paths to host directories laid over the host's own. `mounted` lists the mount
    points that make up the root, for a read-only root.
    """

    def __init__(self, private: str, layers: list[tuple[str, str]]) -> None:
        self.root = f"{private}/root"
        self.mounted: list[str] = ["/"]
        self._layers = [(path.rstrip("/"), source.rstrip("/")) for path, source in layers]
        self._count = 0
        self._uppers: dict[str, str] = {}
        self._made: list[str] = []
        self._host = ""
        self._volumes: list[str] = []
        self._upper = f"{private}/upper"
        self._upper_fd = -1
        self._is_upper_chosen = False
        self._mounts: dict[str, str] = {}
        self._above_mounts: set[str] = set()

    def build(self) -> None:
        """Mount everything below `self.root`. Raises OSError."""
        self._mounts = mountinfo.read_mounts()
        self._above_mounts = mountinfo.above(self._mounts)
        os.makedirs(self.root, 0o755, exist_ok=True)
        syscalls.mount(self.root, self.root, "", MS_BIND)
        for name in self._names(""):
            if name not in _SKIPPED:
                self._entry(f"/{name}")
        for path in ("/proc", "/sys", "/dev"):
            os.makedirs(self.root + path, 0o755, exist_ok=True)
        self._fresh()

    def own_volumes(self, paths: list[str]) -> None:
        """Have writes at these paths, with what is there, lie in a volume of their own, once `enter` is called."""
        self._volumes = sorted(paths)

    def enter(self, host: str, mount_points: list[str]) -> None:
        """Finish what needs the container's own symbolic links; its root is the process's now. Raises OSError.

        `host` is where the host's root is still to be seen. Directories are made ready for `mount_points`.
        """
        self.root = ""
        self._host = host
        self._upper = host + self._upper
        nested = sorted({path for path, _ in self._layers if path.count("/") > 1 or path in FRESH})
        # Before anything is mounted, for an overlay covers what is mounted below it; again for what layers brought.
        self._make_room([*nested, *mount_points])
        for path in nested:
            self._overlay_nested(path)
        if nested:
            self._make_room(mount_points)
        self._make_room(self._volumes)
        for path in self._volumes:
            target = os.path.realpath(path)
            os.makedirs(target, 0o755, exist_ok=True)
            if _is_directory(target):
                self._overlay_paths([target], target)

    def note_writes(self, file: str) -> None:
        """Write to a file where what is written to this root comes to lie (`layers.pack` reads it). Raises OSError.

        `uppers` are [path, directory]; `base` holds what is in none of them, beside what it was `made` with.
        """
        files.write_state(
            file,
            {
                "uppers": [
                    [path, f"upper/{os.path.basename(upper)}"] for path, upper in self._uppers.items()
                ],
                "base": "root" if "/" not in self._uppers else "",
                "made": self._made,
            },
        )

    def _make_room(self, mount_points: list[str]) -> None:
        """Put overlays on the directories that lack a mount point and cannot be changed, outer ones first."""
        missing = [os.path.realpath(point) for point in mount_points if not os.path.exists(point)]
        parents = {_nearest_directory(path) for path in missing}
        for path in sorted(path for path in parents if not _is_changeable(path)):
            self._overlay(
                [place for place, found in self._sources(path) if stat.S_ISDIR(found.st_mode)], path
            )

    def check_overlay(self) -> None:
        """Mount and unmount an overlay of empty directories. Raises OSError with what the kernel says."""
        lower, merged = self._new_directory(), self._new_directory()
        fd = os.open(lower, _PATH)
        try:
            self._mount_overlay([fd], merged)
        finally:
            os.close(fd)
        syscalls.unmount(merged)

    def _choose_upper(self) -> bool:
        """Keep writes in memory when the state directory is on no possible upper (overlayfs, NFS, 9p); return whether
        it is not.

        For the first overlay that is refused: one that is mounted tells as much, and costs nothing.
        """
        self._is_upper_chosen = True
        try:
            self.check_overlay()
        except OSError:
            syscalls.mount("tmpfs", self._upper, "tmpfs", 0, "mode=0700")
            self._open_upper()
            return True
        return False

    def _open_upper(self) -> None:
        if self._upper_fd >= 0:
            os.close(self._upper_fd)
        else:
            os.makedirs(self._upper, 0o700, exist_ok=True)
        self._upper_fd = os.open(self._upper, _PATH)

    def _fresh(self) -> None:
        os.makedirs(f"{self.root}/run/lock", 0o755, exist_ok=True)
        os.makedirs(f"{self.root}/tmp", 0o1777, exist_ok=True)
        os.chmod(f"{self.root}/tmp", 0o1777)
        target = f"{self.root}/var/tmp"
        if os.path.isdir(target) and not os.path.islink(target):
            source = self._new_directory()
            os.chmod(source, 0o1777)
            syscalls.mount(source, target, "", MS_BIND)
            self.mounted.append("/var/tmp")

    def _sources(self, path: str) -> list[_Source]:
        """Return what is to appear at `path`, topmost first: from layers at or above it, then the host's."""
        return [*self._from_layers(path), *_found([self._host + (path or "/")])]

    def _from_layers(self, path: str) -> list[_Source]:
        """Return what layers at or above `path` have there, topmost first."""
        at_or_above = [each for each in self._layers if path == each[0] or path.startswith(each[0] + "/")]
        return _found([self._host + source + path[len(at) :] for at, source in at_or_above])

    def _names(self, path: str) -> list[str]:
        names: set[str] = set()
        for place, _ in self._sources(path):
            try:
                names.update(os.listdir(place))
            except OSError:
                continue  # not ours to list: in the container neither
        return sorted(names)

    def _entry(self, path: str) -> None:
        """Make what layers and host have at `path` appear in the container."""
        sources = self._sources(path)
        if not sources:
            return  # gone meanwhile, or a mount whose server is
        topmost, mode = sources[0][0], sources[0][1].st_mode
        self._made.append(path)
        target = self.root + path
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(topmost), target)
        elif stat.S_ISDIR(mode):
            self._directory(path, [source for source in sources if stat.S_ISDIR(source[1].st_mode)])
        elif stat.S_ISREG(mode):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            _bind_read_only(topmost, target)

    def _directory(self, path: str, sources: list[_Source]) -> None:
        if [place for place, _ in sources] == [path] and self._mounts.get(path) in mountinfo.PSEUDO:
            return
        target = self.root + path
        _make_like(sources[0][1], target)
        opened = [(fd, place, found) for place, found in sources if (fd := _open_readable(place)) is not None]
        try:
            if opened:
                self._fill(path, opened)
        finally:
            for fd, _, _ in opened:
                os.close(fd)

    def _fill(self, path: str, opened: list[tuple[int, str, os.stat_result]]) -> None:
        """Show in the new directory at `path` what is in those of layers and host."""
        places = [place for _, place, _ in opened]
        if path in places and path in self._above_mounts:
            names = self._names(path)
            if len(names) <= _MAX_ENTRIES:
                for name in names:
                    self._entry(f"{path}/{name}")
                return
        elif places == [path] and _is_empty(opened[0][0], opened[0][2]):
            return
        elif self._try_overlay([fd for fd, _, _ in opened], opened[0][2], self.root + path) == 0:
            self.mounted.append(path)
            return
        _bind_read_only(places[0], self.root + path)

    def _overlay_nested(self, path: str) -> None:
        """Overlay layers at a path below a top-level directory, on top of what the container has there."""
        target = os.path.realpath(path)
        lowers = [place for place, found in self._from_layers(path) if stat.S_ISDIR(found.st_mode)]
        os.makedirs(target, 0o755, exist_ok=True)
        # overlayfs nests two deep only: on a host whose root is one already, the layer stands alone
        if not self._overlay([*lowers, target], target) and not self._overlay(lowers, target):
            _bind_read_only(lowers[0], target)

    def _new_directory(self, mode: int = 0o755) -> str:
        if self._upper_fd < 0:
            self._open_upper()
        self._count += 1
        path = f"{self._upper}/{self._count}"
        os.mkdir(path, mode)
        return path

    def _overlay(self, lowers: list[str], path: str) -> bool:
        """Mount an overlay at `path`; return whether the kernel took it."""
        if self._overlay_paths(lowers, self.root + path) != 0:
            return False
        self.mounted.append(path)
        return True

    def _overlay_paths(self, lowers: list[str], target: str) -> int:
        """As `_try_overlay`, of directories that are named."""
        like = os.stat(lowers[0])
        fds: list[int] = []
        try:
            for name in lowers:
                fds.append(os.open(name, _PATH))
            return self._try_overlay(fds, like, target)
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            for fd in fds:
                os.close(fd)

    def _try_overlay(self, lowers: list[int], like: os.stat_result, target: str) -> int:
        """Mount an overlay of open directories, with the attributes of the topmost, `like`.

        Return 0, or the error number.
        """
        try:
            try:
                upper = self._mount_overlay(lowers, target, like)
                self._is_upper_chosen = True
            except OSError:
                if self._is_upper_chosen or not self._choose_upper():
                    raise
                upper = self._mount_overlay(lowers, target, like)
        except OSError as error:
            return error.errno or errno.EIO
        self._uppers[target.removeprefix(self.root) or "/"] = upper
        return 0

    def _mount_overlay(self, lowers: list[int], target: str, like: os.stat_result | None = None) -> str:
        """Mount an overlay of open directories; return its upper directory. Raises OSError."""
        upper, work = (
            self._new_directory(stat.S_IMODE(like.st_mode) if like else 0o755),
            self._new_directory(),
        )
        if like is not None:
            _copy_attributes(like, upper)
        own = by_fd(self._upper_fd)
        options = (
            f"lowerdir={':'.join(map(by_fd, lowers))},upperdir={own}/{os.path.basename(upper)},"
            f"workdir={own}/{os.path.basename(work)},userxattr"
        )
        try:
            # `volatile` (Linux 5.10) skips syncs of files that are deleted with the pod.
            syscalls.mount("overlay", target, "overlay", 0, options + ",volatile")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            syscalls.mount("overlay", target, "overlay", 0, options)
        return upper


def _found(places: list[str]) -> list[_Source]:
    """Return those of the places where something is, and what."""
    found = []
    for place in places:
        try:
            found.append((place, os.lstat(place)))
        except OSError:
            continue
    return found


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _nearest_directory(path: str) -> str:
    """Return the deepest directory above `path` that exists."""
    while not os.path.isdir(path := os.path.dirname(path)):
        pass
    return path


def _is_changeable(directory: str) -> bool:
    """Return whether an entry can be made there.

    Tried where the owner may have no number here, for with overlayfs no permission bit tells; otherwise not, for what
    overlayfs makes it copies the directories above for.
    """
    found = os.stat(directory)
    if _OVERFLOW not in (found.st_uid, found.st_gid):
        return os.access(directory, os.W_OK | os.X_OK)
    probe = f"{directory}/.trainshed"
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return True


def _open_readable(directory: str) -> int | None:
    """Return a descriptor of a directory, None where its names may not be read."""
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def _is_empty(directory: int, found: os.stat_result) -> bool:
    if found.st_nlink > 2:  # of its own name, of `.`, and of the `..` of directories in it
        return False
    try:
        return not os.listdir(directory)
    except OSError:
        return False


def _bind_read_only(source: str, target: str) -> None:
    try:
        syscalls.mount(source, target, "", MS_BIND | MS_REC)
        syscalls.make_read_only(target)
    except OSError:
        return  # an unreadable mount of the host: the container has an empty file or directory there


def _make_like(found: os.stat_result, target: str) -> None:
    """Make a directory with the attributes of another."""
    try:
        os.mkdir(target, stat.S_IMODE(found.st_mode))
    except FileExistsError:
        pass
    _copy_attributes(found, target)


def _copy_attributes(found: os.stat_result, target: str) -> None:
    """Give `target` the mode and, where this user namespace can, the owner of what was `found`."""
    made = os.stat(target)
    # An owner without a number here shows as the overflow id, which may itself stand for somebody.
    uid, gid = (0 if one == _OVERFLOW else one for one in (found.st_uid, found.st_gid))
    if (made.st_uid, made.st_gid) != (uid, gid):
        try:
            os.chown(target, uid, gid)
        except OSError:
            pass
    elif made.st_mode == found.st_mode:
        return
    os.chmod(target, stat.S_IMODE(found.st_mode))
