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
from trainshed.cluster.sandbox.linux import mountinfo, syscalls
from trainshed.cluster.sandbox.linux.syscalls import MS_BIND, MS_REC

WRITTEN = "written.json"
"""In the private directory of a root that is to be packed: what `note_writes` notes."""
FRESH = ("/tmp", "/run", "/var/tmp")
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
        self._mounts = mountinfo.read_mounts()

    def build(self) -> None:
        """Mount everything below `self.root`. Raises OSError."""
        os.makedirs(self.root, 0o755, exist_ok=True)
        self._choose_upper()
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
                self._try_overlay([target], target)

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
        missing = [os.path.realpath(point) for point in mount_points]
        parents = {_nearest_directory(path) for path in missing if not os.path.exists(path)}
        for path in sorted(path for path in parents if not _is_changeable(path)):
            self._overlay([source for source in self._sources(path) if _is_directory(source)], path)

    def check_overlay(self) -> None:
        """Mount and unmount an overlay of empty directories. Raises OSError with what the kernel says."""
        os.makedirs(self._upper, 0o700, exist_ok=True)
        lower, merged = self._new_directory(), self._new_directory()
        number = self._try_overlay([lower], merged)
        if number:
            raise OSError(number, os.strerror(number))
        syscalls.unmount(merged)
        self._uppers.clear()

    def _choose_upper(self) -> None:
        """Keep writes in memory when the state directory is on no possible upper (overlayfs, NFS, 9p)."""
        try:
            self.check_overlay()
        except OSError:
            syscalls.mount("tmpfs", self._upper, "tmpfs", 0, "mode=0700")

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

    def _sources(self, path: str) -> list[str]:
        """Return what is to appear at `path`, topmost first: from layers at or above it, then the host's."""
        return [*self._from_layers(path), *filter(os.path.lexists, [self._host + (path or "/")])]

    def _from_layers(self, path: str) -> list[str]:
        """Return what layers at or above `path` have there, topmost first."""
        at_or_above = [each for each in self._layers if path == each[0] or path.startswith(each[0] + "/")]
        places = [self._host + source + path[len(at) :] for at, source in at_or_above]
        return [place for place in places if os.path.lexists(place)]

    def _names(self, path: str) -> list[str]:
        names: set[str] = set()
        for source in self._sources(path):
            try:
                names.update(os.listdir(source))
            except OSError:
                continue  # not ours to list: in the container neither
        return sorted(names)

    def _entry(self, path: str) -> None:
        """Make what layers and host have at `path` appear in the container."""
        sources = self._sources(path)
        try:
            mode = os.lstat(sources[0]).st_mode
        except (OSError, IndexError):
            return  # gone meanwhile, or a mount whose server is
        self._made.append(path)
        target = self.root + path
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(sources[0]), target)
        elif stat.S_ISDIR(mode):
            self._directory(path, [source for source in sources if _is_directory(source)])
        elif stat.S_ISREG(mode):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            _bind_read_only(sources[0], target)

    def _directory(self, path: str, sources: list[str]) -> None:
        if self._mounts.get(path) in mountinfo.PSEUDO and sources == [path]:
            return
        target = self.root + path
        os.makedirs(target, exist_ok=True)
        _copy_attributes(sources[0], target)
        sources = [source for source in sources if _is_readable(source)]
        if not sources:
            return
        if path in sources and mountinfo.below(self._mounts, path):
            names = self._names(path)
            if len(names) <= _MAX_ENTRIES:
                for name in names:
                    self._entry(f"{path}/{name}")
                return
        elif (sources == [path] and _is_empty(path)) or self._overlay(sources, path):
            return
        _bind_read_only(sources[0], target)

    def _overlay_nested(self, path: str) -> None:
        """Overlay layers at a path below a top-level directory, on top of what the container has there."""
        target = os.path.realpath(path)
        lowers = [source for source in self._from_layers(path) if _is_directory(source)]
        os.makedirs(target, 0o755, exist_ok=True)
        # overlayfs nests two deep only: on a host whose root is one already, the layer stands alone
        if not self._overlay([*lowers, target], target) and not self._overlay(lowers, target):
            _bind_read_only(lowers[0], target)

    def _new_directory(self) -> str:
        self._count += 1
        path = f"{self._upper}/{self._count}"
        os.mkdir(path, 0o755)
        return path

    def _overlay(self, lowers: list[str], path: str) -> bool:
        """Mount an overlay at `path`; return whether the kernel took it."""
        if self._try_overlay(lowers, self.root + path) != 0:
            return False
        self.mounted.append(path)
        return True

    def _try_overlay(self, lowers: list[str], target: str) -> int:
        """Return 0, or the error number."""
        upper, work = self._new_directory(), self._new_directory()
        _copy_attributes(lowers[0], upper)
        fds: list[int] = []
        try:
            for name in (upper, work, *lowers):
                fds.append(os.open(name, os.O_PATH | os.O_CLOEXEC))
            names = [by_fd(fd) for fd in fds]
            options = f"lowerdir={':'.join(names[2:])},upperdir={names[0]},workdir={names[1]},userxattr"
            try:
                # `volatile` (Linux 5.10) skips syncs of files that are deleted with the pod.
                syscalls.mount("overlay", target, "overlay", 0, options + ",volatile")
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                syscalls.mount("overlay", target, "overlay", 0, options)
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            for fd in fds:
                os.close(fd)
        self._uppers[target.removeprefix(self.root) or "/"] = upper
        return 0


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _nearest_directory(path: str) -> str:
    """Return the deepest directory above `path` that exists."""
    while not os.path.isdir(path := os.path.dirname(path)):
        pass
    return path


def _is_changeable(directory: str) -> bool:
    """Return whether an entry can be made there. Tried, for with overlayfs no permission bit tells."""
    probe = f"{directory}/.trainshed"
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return True


def _is_readable(directory: str) -> bool:
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _is_empty(path: str) -> bool:
    try:
        return not os.listdir(path)
    except OSError:
        return False


def _bind_read_only(source: str, target: str) -> None:
    try:
        syscalls.mount(source, target, "", MS_BIND | MS_REC)
        syscalls.make_read_only(target)
    except OSError:
        return  # an unreadable mount of the host: the container has an empty file or directory there


def _copy_attributes(source: str, target: str) -> None:
    """Give `target` the mode and, where this user namespace can, the owner of `source`."""
    found = os.stat(source)
    # An owner without a number here shows as the overflow id, which may itself stand for somebody.
    uid, gid = (0 if one == _OVERFLOW else one for one in (found.st_uid, found.st_gid))
    try:
        os.chown(target, uid, gid)
    except OSError:
        pass
    os.chmod(target, stat.S_IMODE(found.st_mode))
