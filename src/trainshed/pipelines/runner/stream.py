"""A kernel's standard streams, for programs that a cell starts and libraries in C, too: what these write arrives once.

ipykernel takes what is written past Python's streams, sends it as the cell's output, and writes it to the process's own
streams as well. Those are the step's log, where the runner writes all output of cells.
"""

from __future__ import annotations

import codecs
import os
import sys

from ipykernel.iostream import OutStream

_PIECE_BYTES = 64 * 1024


class Stream(OutStream):
    """`sys.stdout` or `sys.stderr` of a kernel."""

    def _watch_pipe_fd(self) -> None:
        """Send what is written past this object, at once: what writes it may be about to die."""
        if self._fid is None:
            return
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        try:
            while (piece := os.read(self._fid, _PIECE_BYTES)) and self._should_watch:
                self.write(decode(piece))
                self.flush()  # type: ignore[no-untyped-call]
        except Exception:  # the base class reports it at its next use
            self._exc = sys.exc_info()
