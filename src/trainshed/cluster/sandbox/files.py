"""State files that survive `kill -9`, and trees that must go."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED, _NAMED_LENGTH = 3, 300
"""How many of the things that could not be deleted are named, and how much of each name."""
SANDBOX = "sandbox.json"
"""In a pod's `sandbox` directory: what its shim last said of it."""


_GET_FLAGS, _SET_FLAGS, _TOP_OF_TREES = 0x80086601, 0x40086602, 0x00020000
"""FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL of linux/fs.h, where a `long` has eight bytes; ext4(5), chattr(1)."""


def spread(directory: str | os.PathLike[str]) -> None:
    """Have ext4 put what is made in each directory below into a group of blocks of its own; elsewhere do nothing.

    Without a journal it passes over whatever was deleted in a group within the last minute, one by one, for each file
    that it makes (`recently_deleted` in fs/ext4/ialloc.c): a pod has 200, which go with it.
    """
    try:
        fd = os.open(directory, _DIRECTORY)
    except OSError:
        return
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(8))[:4], sys.byteorder)
        if not flags & _TOP_OF_TREES:
            fcntl.ioctl(fd, _SET_FLAGS, (flags | _TOP_OF_TREES).to_bytes(4, sys.byteorder) + bytes(4))
    except OSError:
        return  # no flags there, or not this one
    finally:
        os.close(fd)


def is_no_room(error: OSError) -> bool:
    """Return whether nothing can be written: the disk is full, the quota used up, or it is mounted read-only."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def write_atomic(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace the file at `path`: whatever is killed when, a reader finds the old or the new content, whole.

    Nothing is synced to the disk: these files tell of processes, which a loss of power ends, too, and what
    is to be remembered beyond that is in the API, whose store is synced. Two syncs for every start and end
    of a container took more time than the starts.
    """
    temporary = f"{path}.tmp.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.replace(temporary, path)


def lock(
    path: str | os.PathLike[str], *, create: bool = True, shared: bool = False, wait: bool = False
) -> int:
    """Return a descriptor that holds the lock at `path`, which forks share.

    Raises BlockingIOError where another holds it and `wait` is false, FileNotFoundError where there is none and none is
    made.
    """
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_state(path: str, state: Message) -> None:
    """Write a JSON object atomically."""
    write_atomic(path, json.dumps(state).encode())


def read_state(path: str) -> Message | None:
    """Return the JSON object at `path`; None when there is none or it is not one."""
    try:
        with open(path, "rb") as file:
            state: Message = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return state


def make_directory(path: str) -> None:
    """Create a directory and the parents it lacks, all for their owner only; an existing one keeps its mode."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        make_directory(path)


def remove_tree(path: str) -> None:
    """Delete a directory with everything below, whatever modes a pod gave it; follows no symbolic link.

    Trees may be deeper than a path is long, a process has descriptors or the interpreter stack: only the directory
    being emptied is open, and the way back up leads through its `..`.

    Raises:
        OSError: something cannot be deleted; the rest is. The text names what is left and why; PermissionError where
            that may be another's.
    """
    parent, name = os.path.split(path)
    try:
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    _remove_below(descriptor, name, parent)


def remove_tree_at(parent: int, name: str) -> None:
    """As `remove_tree`, of the directory `name` in the open directory `parent`."""
    _remove_below(os.open(".", _DIRECTORY, dir_fd=parent), name, "")


def _remove_below(current: int, name: str, shown: str) -> None:
    """Delete `name` in the directory `current`, which is closed; `shown` is what errors call it."""
    names, above, kept = [name], list[_Level](), _Kept(shown)
    try:
        while True:
            inner = _unlink_files(current, names, above, kept)
            if inner:
                try:
                    below = _open_writable(current, inner)
                except OSError as error:
                    kept.add(error, above, inner)
                    continue
                above.append(_Level(inner, os.fstat(current), names, len(kept)))
                current = _replace(current, below)
                names = os.listdir(current)
                continue
            if not above:
                break
            level = above.pop()
            # Not the descriptor of before: there may be more levels than a process may have open.
            current = _replace(current, os.open("..", _DIRECTORY, dir_fd=current))
            if not os.path.samestat(os.fstat(current), level.found):
                raise OSError(errno.EBUSY, "a directory was moved while it was deleted", f"{shown}/{name}")
            if len(kept) == level.kept:
                try:
                    os.rmdir(level.name, dir_fd=current)
                except OSError as error:
                    kept.add(error, above, level.name)
            names = level.left
    finally:
        os.close(current)
    kept.raise_if_any()


class _Level:
    """A directory that waits for the directory `name` in it to be emptied; then the names in `left` follow.

    `kept`: how much was left behind before that.
    """

    __slots__ = ("found", "kept", "left", "name")

    def __init__(self, name: str, found: os.stat_result, left: list[str], kept: int) -> None:
        self.name = name
        self.found = found
        self.left = left
        self.kept = kept


class _Kept:
    """What could not be deleted below `parent`: the first few by name, the others by number."""

    def __init__(self, parent: str) -> None:
        self._parent = parent
        self._count = 0
        self._number = 0
        self._told: list[str] = []

    def __len__(self) -> int:
        return self._count

    def add(self, error: OSError, above: list[_Level], name: str) -> None:
        """Note a name in the directory that `above` leads to."""
        self._count += 1
        if not self._number or isinstance(error, PermissionError):
            self._number = error.errno or errno.EIO
        if len(self._told) < _NAMED:
            place = "/".join([self._parent, *(level.name for level in above), name])
            self._told.append(f"{place[:_NAMED_LENGTH]}: {error.strerror or error}")

    def raise_if_any(self) -> None:
        """Raise OSError if anything was kept."""
        if self._count:
            more = f" and {self._count - len(self._told)} more" if self._count > len(self._told) else ""
            raise OSError(self._number, "; ".join(self._told) + more)


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new


def _unlink(directory: int, name: str) -> bool:
    """Delete what is no directory, or an empty one; return whether it is one that is not.

    Most of a pod's directories are empty mount points: not to open them is most of the work saved.
    """
    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
            os.unlink(name, dir_fd=directory)
            return False
        os.rmdir(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return True
    return False


def _unlink_files(directory: int, names: list[str], above: list[_Level], kept: _Kept) -> str:
    """Delete files off the end of `names` up to the first directory among them, which is returned."""
    while names:
        name = names.pop()
        try:
            if _unlink(directory, name):
                return name
        except OSError as error:
            kept.add(error, above, name)
    return ""


def _open_writable(directory: int, name: str) -> int:
    """Open a directory, giving its owner all rights."""
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
        inner = os.open(name, _DIRECTORY, dir_fd=directory)
    if stat.S_IMODE(os.fstat(inner).st_mode) & 0o700 != 0o700:
        os.fchmod(inner, 0o700)
    return inner
