"""What a start does once by libraries that would stay in memory for as long as the process: a child does it."""

from __future__ import annotations

import os
from collections.abc import Callable


def run_apart(work: Callable[[], object]) -> None:
    """Run `work` in a fork of this process and return when it is done, with nothing of it left; raise what it raises.

    Only where this process has a single thread, as at its start: a fork has no other, nor lets go what others hold.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _work(work, write)
    os.close(write)
    with open(read, "rb") as outcome:
        raised = outcome.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if raised:
        import pickle

        raise pickle.loads(raised)  # noqa: S301 - our own child wrote it
    if status != 0:
        raise RuntimeError(f"a process of the start ended with {status}")


def _work(work: Callable[[], object], outcome: int) -> None:
    status = 1
    try:
        work()
        status = 0
    except Exception as error:
        import pickle
        import traceback

        error.add_note(traceback.format_exc())
        with open(outcome, "wb") as file:
            pickle.dump(error, file)
    finally:
        os._exit(status)
