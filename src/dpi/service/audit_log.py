"""The log of administrative acts: who did what, one line each, and no line can be changed or dropped unseen.

A line is an entry of a chain as certificates are (`dpi.certificates.chain`): it states the digest of the line before
it. Lines are only ever added, under a lock, and are on disk before the act is answered. Who can write the file could
write another chain; so ship it elsewhere, or note its head, which `check` gives, now and then. Of replicas each has a
file of its own.

Sees names of tokens and of streams, as the administrator wrote them, and public options; no event, no id, no secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpi.certificates.chain import Entry, Head, Link, extend, text_digest
from dpi.errors import StateError, StoreError
from dpi.files import lock_alone, make_durable

KINDS = frozenset(
    {
        "token created", "token revoked", "stream proposed", "stream opened", "stream changed", "stream stopped",
        "term begun", "term lost",
    }
)  # fmt: skip
"""All that is noted."""
PROGRAM = "program"  # the actor where no token was asked for
_TAIL = 1 << 16  # bytes at the end of a file, in which its last line is


@dataclass(frozen=True)
class AuditLog:
    """The acts in a file, which appears with the first one.

    >>> import tempfile
    >>> log = AuditLog(Path(tempfile.mkdtemp()) / "acts.ndjson")
    >>> log.note("token created", by="admin 1f", about={"id": "2e", "role": "analyst"})
    >>> [(each["act"], each["by"]) for each in log.entries()], log.check().sequence
    ([('token created', 'admin 1f')], 0)
    """

    path: Path

    def note(self, act: str, *, by: str = PROGRAM, about: Entry | None = None) -> None:
        """Add a line, durably."""
        if act not in KINDS:
            raise ValueError(f"unknown act {act!r}")
        facts: Entry = {"act": act, "by": by, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        with self._lock() as descriptor:
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, _TAIL, max(0, size - _TAIL))
            whole = tail[: tail.rfind(b"\n") + 1]
            torn = len(tail) - len(whole)
            if torn:  # a line that a crash cut off was never answered
                os.ftruncate(descriptor, size - torn)
            last = whole.splitlines()[-1] if whole else b""
            head = _read_line(last).head if last else Head()
            link = extend(head, facts if about is None else facts | {"about": about})
            line = json.dumps({"text": link.text, "digest": link.digest}, ensure_ascii=False).encode() + b"\n"
            os.pwrite(descriptor, line, size - torn)
            make_durable(descriptor)

    def entries(self) -> Iterator[Entry]:
        """Give all acts, in order."""
        return (link.entry for link in self._read())

    def check(self) -> Head:
        """Return the head of the chain; raises `StateError` at the first line that was changed, dropped or put in."""
        head = Head()
        for link in self._read():
            entry = link.entry
            follows = entry.get("previous") == head.digest and entry.get("sequence") == head.sequence + 1
            if not follows or link.digest != text_digest(link.text):
                raise StateError(
                    f"the log of acts was changed: line {head.sequence + 2} does not follow from those before."
                )
            head = link.head
        return head

    def _read(self) -> Iterator[Link]:
        try:
            with self.path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield _read_line(line)
        except FileNotFoundError:
            return

    @contextmanager
    def _lock(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                lock_alone(descriptor)
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(f"the log of acts {self.path} cannot be written: {error.strerror}.") from None


def _read_line(line: bytes) -> Link:
    try:
        entry = json.loads(line)
        return Link(str(entry["text"]), str(entry["digest"]))
    except (ValueError, KeyError, TypeError):
        raise StateError("the log of acts was changed: a line is no entry.") from None
