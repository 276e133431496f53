"""What `Runtime.start` runs for sandboxd: goes on in it, run by an interpreter that pods cannot write to.

It has little of the program, which that interpreter takes in anew. Where there is none such, this one goes on.
"""

from __future__ import annotations

import os
import sys

from trainshed.cluster.sandbox import bootstrap
from trainshed.cluster.sandbox.linux import interpreter

DAEMON = "trainshed.cluster.sandbox.daemon.sandboxd"


def main(argv: list[str]) -> int:
    """Become `sandboxd <run directory> <pods directory> <descriptor to close>`; return only where it could not.

    Outside the sandboxes' user namespace: what forks from it stays out of reach for capabilities within
    (ptrace(2), "Ptrace access mode checking", dumpable).
    """
    try:
        program, keeper = interpreter.open_read_only()
    except OSError as error:
        os.write(2, f"the interpreter is within reach of pods: {error}\n".encode())
        from trainshed.cluster.sandbox.daemon import sandboxd

        return sandboxd.main(argv)
    os.set_inheritable(keeper.fileno(), True)
    os.execve(
        program,
        [sys.executable, "-I", "-S", bootstrap.__file__, DAEMON, *argv, str(keeper.fileno())],
        dict(os.environ),
    )
