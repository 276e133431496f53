"""The last words of a daemon: every uncaught exception goes to its log file."""

from __future__ import annotations

import os
import sys


def record() -> None:
    """Write the exception being handled to stderr, which is the log file."""
    import traceback  # only now: a daemon that does not crash need not hold it

    os.write(2, f"{os.getpid()} {' '.join(sys.argv)}\n{traceback.format_exc()}".encode())
