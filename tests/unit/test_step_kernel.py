"""What a step's kernel says of its own end stays out of the step's log."""

from __future__ import annotations

import errno
import logging
import sys

import pytest
from zmq.error import ZMQError

from trainshed.pipelines.runner.kernel import _says_more_than_its_end


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    caught = None
    if error is not None:
        try:
            raise error
        except type(error):
            caught = sys.exc_info()
    return logging.LogRecord("IPKernelApp", logging.ERROR, __file__, 1, message, None, caught)


@pytest.mark.parametrize(
    "line, said",
    [
        (record("KeyboardInterrupt caught in kernel."), False),
        (record("Exception in message handler:", ZMQError(errno.ENOTSOCK)), False),
        (record("Exception in message handler:", ZMQError(errno.EAGAIN)), True),
        (record("Exception in message handler:", ValueError("x")), True),
        (record("Unknown message type: 'x'"), True),
    ],
)
def test_only_the_interruption_is_left_out(line: logging.LogRecord, said: bool) -> None:
    assert _says_more_than_its_end(line) is said
