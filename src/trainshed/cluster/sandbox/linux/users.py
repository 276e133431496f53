"""Who a container of an image runs as, by the image's own /etc/passwd and /etc/group.

Read in the container's root, by a process that can reach nothing else. The rules are those of OCI's runtimes
(image-spec, config.md, `User`): a number needs no entry, a name does.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

_MAX_BYTES = 1 << 20
_MAX_ID = (1 << 31) - 1


class UnknownUser(Exception):
    """The image has no such user or group."""


class User:
    """Numbers of a user, its further groups, and its home directory."""

    __slots__ = ("gid", "groups", "home", "uid")

    def __init__(self, uid: int, gid: int, groups: list[int], home: str) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.home = home


def of_container(spec: Message) -> User:
    """Return the user that a container's first process or a joining one becomes. Raises UnknownUser."""
    if not spec["root"] and not spec["user"]:
        return User(spec["uid"] or 0, spec["gid"] or 0, [], "/root")
    text = str(spec["uid"]) if spec["uid"] is not None else spec["user"]
    user = resolve(text, _read("/etc/passwd"), _read("/etc/group"))
    if spec["gid"] is not None:
        user.gid = spec["gid"]
    return user


def resolve(text: str, passwd: str, group: str) -> User:
    """Return the user that `name|uid[:group|gid]` means by the contents of these files. Raises UnknownUser."""
    wanted, _, wanted_group = text.partition(":")
    wanted = wanted or "0"
    users = [fields for fields in _lines(passwd, 7) if fields[2].isdigit() and fields[3].isdigit()]
    found = next((f for f in users if f[0] == wanted), None) or next(
        (f for f in users if f[2] == wanted), None
    )
    if found is None and not _is_id(wanted):
        raise UnknownUser(f"unable to find user {wanted}: no matching entries in passwd file")
    uid = int(found[2] if found else wanted)
    gid = int(found[3]) if found else 0
    groups = [fields for fields in _lines(group, 4) if fields[2].isdigit()]
    if wanted_group:
        named = next((f for f in groups if wanted_group in (f[0], f[2])), None)
        if named is None and not _is_id(wanted_group):
            raise UnknownUser(f"unable to find group {wanted_group}: no matching entries in group file")
        further: list[int] = []
        gid = int(named[2] if named else wanted_group)
    else:
        further = [int(f[2]) for f in groups if found is not None and found[0] in f[3].split(",")]
    return User(uid, gid, further, (found[5] if found else "") or "/")


def _is_id(text: str) -> bool:
    return text.isdigit() and int(text) <= _MAX_ID


def _lines(text: str, fields: int) -> list[list[str]]:
    lines = [line.strip().split(":") for line in text.splitlines() if not line.startswith("#")]
    return [line for line in lines if len(line) >= fields]


def _read(path: str) -> str:
    """Return the beginning of a file of the image, which may be anything but there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, _MAX_BYTES).decode(errors="replace")
    finally:
        os.close(fd)
