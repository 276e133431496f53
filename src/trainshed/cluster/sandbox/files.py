"""State files that survive `kill -9`, and trees that must go."""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message


SANDBOX = "sandbox.json"
"""In a pod's `sandbox` directory: what its shim last said of it."""


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


def make_directory(path: str, mode: int = 0o700) -> None:
    """Create a directory and its parents; an existing one keeps its mode."""
    try:
        os.makedirs(path, mode)
    except FileExistsError:
        return


def remove_tree(path: str) -> None:
    """Delete a directory with everything below, whatever modes a pod gave it; follows no symbolic link."""
    parent, name = os.path.split(path)
    try:
        directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        _remove_entry(directory, name)
    finally:
        os.close(directory)


def _remove_entry(directory: int, name: str) -> None:
    try:
        mode = os.lstat(name, dir_fd=directory).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=directory)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        inner = os.open(name, flags, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
        inner = os.open(name, flags, dir_fd=directory)
    try:
        if stat.S_IMODE(mode) & 0o700 != 0o700:
            os.fchmod(inner, 0o700)
        for entry in os.listdir(inner):
            _remove_entry(inner, entry)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=directory)
