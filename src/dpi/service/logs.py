"""Logs for the operator: one JSON object a line, made of fields that hold nothing private.

A line says what happened, when, and public or operational facts: a stream's name, a slot, a route as it is declared, a
status, seconds, a kind of error. What came in a request is never in it: no path, query, header, body, producer or user;
and no text of an error that is not this package's own, for such a text may quote a row. Of an unforeseen one the kind
and the place in the code are told.

What a line says of time and size is the curator's alone: how many batches came, and how long a slot took to close, is
made from events. Hand logs to nobody who is an analyst.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TextIO

from dpi.errors import AboutOptions, BudgetExceeded, ClockError, OptionError
from dpi.files import OWNER

NAME = "dpi.service"
FIELDS = frozenset(
    {
        "attempt", "delay", "entry", "error", "fingerprint", "host", "kind", "late", "lease", "limits", "method",
        "place", "port", "reason", "role", "route", "seconds", "slot", "slots", "status", "stream", "term",
    }
)  # fmt: skip
"""All fields that a line can have besides `at`, `level` and `event`."""
_SAFE = (
    "Started server process", "Waiting for application", "Application ", "Finished server process", "Shutting down",
    "Uvicorn running", "Invalid HTTP request received", "Waiting for ", "Cancel ", "Exceeded concurrency",
)  # fmt: skip
"""How the server's own messages begin that hold no text of a request."""

_logger = logging.getLogger(NAME)


def tell(event: str, level: int = logging.INFO, **fields: object) -> None:
    """Write a line."""
    _logger.log(level, event, extra={"fields": fields})


def failed(event: str, error: BaseException, **fields: object) -> None:
    """Write a line about an error: its text if it is one of ours, whose texts hold nothing private."""
    tell(event, logging.ERROR, **fields, **_said(error))


def _said(error: BaseException) -> dict[str, str]:
    said = {"kind": type(error).__name__}
    if isinstance(error, AboutOptions | ClockError | BudgetExceeded):
        return {**said, "error": str(error)}
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        said["place"] = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno} {frames[-1].name}"
    return said


class Lines(logging.Formatter):
    """Makes a line of a record; of a record by others, only what is known to be harmless."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if record.name == NAME:
            fields = getattr(record, "fields", {})
            unknown = set(fields) - FIELDS
            if unknown:
                raise ValueError("a line has a field that nobody has thought about")
            return json.dumps(line | {"event": record.msg} | fields, ensure_ascii=False, default=str)
        message = record.msg if isinstance(record.msg, str) else ""
        line["event"] = message.splitlines()[0] if message.startswith(_SAFE) and not record.args else record.name
        if record.exc_info and record.exc_info[1] is not None:
            line |= _said(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


class LogFile(WatchedFileHandler):
    """A file for its owner only; one that was renamed, as logrotate does, is left, and a new one is begun."""

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, OWNER)

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)


def set_up(stream: TextIO | None = None, *, path: Path | None = None) -> None:
    """Send everything that this process logs to a file or a stream, standard error unless given, as such lines."""
    try:
        handler = logging.StreamHandler(sys.stderr if stream is None else stream) if path is None else LogFile(path)
    except OSError as error:
        raise OptionError(f"the log {path} cannot be written: {error.strerror}.") from None
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _logger.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
