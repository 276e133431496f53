"""Landlock: what a process and its children may do with files, whatever their user may (Linux 5.13, landlock(7)).

It takes no rights and no namespace. Rights are granted below directories; what nothing grants is refused with EACCES.
From Linux 6.12 on those in such a domain signal nobody outside it and connect to nobody's abstract sockets; tracing of
others is refused from the first version on.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
"""To remove and to make files and directories of any kind."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCOPED = 0b11  # abstract sockets, signals
_SCOPES_FROM, _NETWORK_FROM = 6, 4
_ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP)
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Access:
    """Who may do what: all of the file system is read but what is below `hidden`, where `visible` places are.

    `writable` places may be written to; where one is below `hidden`, it is visible. All paths are free of symbolic
    links.
    """

    __slots__ = ("hidden", "visible", "writable")

    def __init__(self, hidden: Iterable[str], visible: Iterable[str], writable: Iterable[str]) -> None:
        self.hidden = tuple(hidden)
        self.visible = tuple(visible)
        self.writable = tuple(writable)


def version() -> int:
    """Return the version of Landlock's interface that this kernel has; 0 for none."""
    try:
        return syscalls.landlock_version()
    except OSError as error:
        if error.errno in _ABSENT or error.errno == errno.EPERM:
            return 0
        raise


def confine(access: Access) -> bool:
    """Put this process and what it forks into a domain with this access; return whether there is one.

    Takes no_new_privs. Raises OSError.
    """
    found = version()
    if not found:
        return False
    handled = _handled(found)
    attributes = struct.pack("=Q", handled)
    if found >= _NETWORK_FROM:
        attributes += struct.pack("=Q", 0)
    if found >= _SCOPES_FROM:
        attributes += struct.pack("=Q", _SCOPED)
    ruleset = syscalls.landlock_create_ruleset(attributes)
    try:
        _grant(ruleset, "/", _READ_DIR)  # names alone: a directory on the way to a hidden one is listed, too
        for path in around(access.hidden, "/"):
            _grant(ruleset, path, _READ & handled)
        for path in access.visible:
            _grant(ruleset, path, _READ & handled)
        kept = [*access.hidden, *(path for path in access.visible if path not in access.writable)]
        for writable in access.writable:
            for path in around(kept, writable):
                _grant(ruleset, path, handled)
        syscalls.landlock_restrict_self(ruleset)
    finally:
        os.close(ruleset)
    return True


def _handled(found: int) -> int:
    rights = _READ | _WRITE_FILE | _CHANGE_DIRECTORY
    if found >= 2:
        rights |= _REFER
    if found >= 3:
        rights |= _TRUNCATE
    return rights


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, _PLACE)
    except OSError:
        return  # it has gone, or nobody may look for it
    try:
        mode = os.fstat(place).st_mode
        if stat.S_ISLNK(mode):
            return  # what it leads to is granted where it is, if it is
        if not stat.S_ISDIR(mode):
            rights &= _OF_FILES
        if rights:
            syscalls.landlock_add_rule(ruleset, struct.pack("=Qi", rights, place))
    except OSError as error:
        if error.errno not in (errno.EBADFD, errno.EINVAL):  # a file that is in no file system
            raise
    finally:
        os.close(place)


def around(hidden: Iterable[str], top: str) -> Iterator[str]:
    """Yield places that together hold everything below `top` but what is below `hidden` directories there.

    A `top` that is in one of those itself is asked for by name, and yielded.
    """
    kept = [os.path.realpath(path) for path in hidden]
    waiting = [os.path.realpath(top)]
    while waiting:
        directory = waiting.pop()
        inside = [path for path in kept if path.startswith(directory.rstrip("/") + "/")]
        if not inside:
            yield directory
            continue
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            path = os.path.join(directory, name)
            if path not in kept:
                waiting.append(path)
