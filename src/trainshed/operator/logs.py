"""Structured logs on stderr: a constant message and its key-values, as JSON lines or for people."""

from __future__ import annotations

import logging
import sys
import time
import traceback

import msgspec

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    """One JSON object per record: level, ts, logger, msg, then what `extra` gave."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "level": record.levelname.lower(),
            "ts": f"{moment}.{int(record.msecs):03d}Z",
            "logger": record.name,
            "msg": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["stacktrace"] = "".join(traceback.format_exception(*record.exc_info))
        return _encode(line).decode()


class ConsoleFormatter(logging.Formatter):
    """`12:00:00 INFO message key=value`, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = "".join(f" {key}={value}" for key, value in _extra(record).items())
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{moment} {record.levelname} {record.getMessage()}{pairs}"
        if record.exc_info and record.exc_info[0] is not None:
            line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return line


def configure(level: str, encoding: str) -> None:
    """Send this process's logs to stderr; `level` is debug, info, warn or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if encoding == "json" else ConsoleFormatter())
    logging.basicConfig(level=logging.getLevelNamesMapping()[level.upper()], handlers=[handler], force=True)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}
