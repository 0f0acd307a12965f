"""Inputs without positions that are followed: a thread takes what comes to an encrypted file, and does nothing else.

Such are standard input, and messages of MQTT (`dpi.sources.brokers._mqtt`). A sender of events is never held up by what
is done with others' events, and how much had arrived at a moment is known without reading it. The key is made for one
run and lives in memory, so what a kill leaves on the disk is ciphertext. What is read is removed, a file at a time.
There is no position from which it could be read again: what had arrived and was not yet stored when the program ended
is lost.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from io import FileIO

from dpi.sources._inputs import StandardInput
from dpi.sources.live import BLOCK, Block, Done, LiveInput, Reach
from dpi.sources.textual import LineReader, Parser, Textual

CHUNK = 1 << 26
"""Bytes after which another file is begun."""


class _Chunk:
    """A file without a name, which is gone when it is closed."""

    def __init__(self) -> None:
        self.file: FileIO = tempfile.TemporaryFile(prefix="dpi-", buffering=0)  # noqa: SIM115 - closed when read
        self.size = self.read = 0


class Spooled(LiveInput):
    """What a thread takes to an encrypted file as it comes, and a reader reads from there."""

    def __init__(self, name: str, parser: Parser, longest: int, done: Done) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        cipher = Cipher(AES256(os.urandom(32)), CTR(bytes(16)))  # a key of its own, so one counter from zero
        self._encrypt, self._decrypt = cipher.encryptor(), cipher.decryptor()
        self.name, self._done = name, done
        self._reader = LineReader(longest, parser)
        self._identity = f"pipe {secrets.token_hex(8)}"
        self._chunks: deque[_Chunk] = deque()
        self._written = self._read = 0  # bytes of all chunks ever
        self._grown = threading.Condition()
        self._error: BaseException | None = None

    def _write(self, block: bytes) -> None:
        """Take some bytes; the caller has `_grown`."""
        if not self._chunks or self._chunks[-1].size >= CHUNK:
            self._chunks.append(_Chunk())
        chunk = self._chunks[-1]
        data = memoryview(self._encrypt.update(block))
        while data:
            data = data[chunk.file.write(data) :]
        chunk.size += len(block)
        self._written += len(block)
        self._grown.notify_all()

    def _waiting(self) -> int:
        """Return how many bytes have come that are not taken yet."""
        return 0

    def reached(self) -> tuple[Reach, ...]:
        """Return how many bytes have come."""
        with self._grown:
            return (Reach(self._identity, 0, self._written + (0 if self.ended else self._waiting())),)

    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """Return the lines that were whole then; the end of the input ends its last line."""
        for reach in upto:
            producer = f"{self.name} {reach.identity}"
            if reach.identity != self._identity:  # of an earlier run
                self.lost = self.lost or max(self._done(producer), 0) < reach.offset
                continue
            while block := self._next(reach.offset - self._read):
                if (frame := self._reader.feed(block)) is not None:
                    yield Block(frame, producer, self._reader.consumed)
            if self._error is not None and self._read == self._written:
                raise self._error

    def _next(self, size: int) -> bytes:
        """Return up to `size` bytes of those that have come, if there are any. A chunk that is read is removed."""
        with self._grown:
            self._grown.wait_for(lambda: self._read < self._written or self.ended or size <= 0)
            if size <= 0 or self._read == self._written:
                return b""
            chunk = self._chunks[0]
            while chunk.read == chunk.size:
                self._chunks.popleft().file.close()
                chunk = self._chunks[0]
            data = os.pread(chunk.file.fileno(), min(size, BLOCK, chunk.size - chunk.read), chunk.read)
        chunk.read += len(data)
        self._read += len(data)
        return self._decrypt.update(data)

    def close(self) -> None:
        """Remove what was written."""
        while self._chunks:
            self._chunks.popleft().file.close()


class Spool(Spooled):
    """Standard input."""

    def __init__(self, source: Textual, stdin: StandardInput, names: Sequence[str], done: Done) -> None:
        super().__init__("-", source.parser(names), source.longest, done)
        self._stdin = stdin
        self._thread: threading.Thread | None = None

    def start(self, wake: threading.Event) -> None:
        """Take everything from now on, in a thread of its own."""
        self._stdin.take()
        outlet, self._closed = os.pipe()  # one end hears that the other is closed
        self._thread = threading.Thread(target=self._take, args=(wake, outlet), name="dpi standard input", daemon=True)
        self._thread.start()

    def _take(self, wake: threading.Event, closed: int) -> None:
        try:
            more = True
            while more and self._stdin.wait(closed):
                with self._grown:
                    block = self._stdin.some()
                    more = bool(block)
                    self._write(block or b"\n")  # a last line ends where the input does: it belongs to that moment
        except BaseException as error:  # told to whoever reads
            self._error = error
        with self._grown:
            self.ended = True
            self._grown.notify_all()
        os.close(closed)
        wake.set()

    def _waiting(self) -> int:
        """Return what still lies in the pipe: it has come."""
        return self._stdin.waiting()

    def close(self) -> None:
        """Take no more, and remove what was written."""
        if self._thread is not None:
            os.close(self._closed)
            self._thread.join()
            self._thread = None
        super().close()
