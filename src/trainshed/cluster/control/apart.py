"""What a start does once by libraries that would stay in memory for as long as the process: a child does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from trainshed.cluster.control.errors import CannotStart
from trainshed.cluster.paths import StateError


class _Raised(msgspec.Struct, array_like=True):
    """An exception, as it is told from one process to another: its type by name, what it is made of, its notes."""

    kind: str
    arguments: tuple[str | int | None, ...]
    notes: list[str]


_KINDS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (StateError, CannotStart, OSError)}
"""What somebody waits for. Any other is a defect, of which the text and the place are told."""


@contextmanager
def apart(work: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Run `work` in a fork of this process, until the end of the block at most; nothing of it is left.

    Yields what returns when the work is done, and raises what it raised; so does the end of the block, even where the
    block fails: the work began before. Only where this process has a single thread, as at its start: a fork has no
    other, nor lets go what others hold.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _work(work, write)
    os.close(write)
    outcome = open(read, "rb")  # noqa: SIM115 - closed by `wait`

    def wait() -> None:
        if outcome.closed:
            return
        with outcome:
            raised = outcome.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if raised:
            raise _exception(msgspec.json.decode(raised, type=_Raised))
        if status != 0:
            raise RuntimeError(f"a process of the start ended with {status}")

    try:
        yield wait
    finally:
        wait()


def _work(work: Callable[[], object], outcome: int) -> None:
    status = 1
    try:
        work()
        status = 0
    except Exception as error:
        import traceback

        error.add_note(traceback.format_exc())
        with open(outcome, "wb") as file:
            file.write(msgspec.json.encode(_told(error)))
    finally:
        os._exit(status)


def _told(error: Exception) -> _Raised:
    kind, arguments = type(error).__name__, (str(error),)
    if isinstance(error, StateError | CannotStart):
        return _Raised(kind, (*arguments, error.hint), error.__notes__)
    if isinstance(error, OSError):
        where = error.filename if error.filename is None else os.fsdecode(error.filename)
        return _Raised("OSError", (error.errno, error.strerror, where), error.__notes__)
    return _Raised(kind, arguments, error.__notes__)


def _exception(told: _Raised) -> Exception:
    kind = _KINDS.get(told.kind)
    error = RuntimeError(f"{told.kind}: {told.arguments[0]}") if kind is None else kind(*told.arguments)
    for note in told.notes:
        error.add_note(note)
    return error
