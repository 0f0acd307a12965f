"""Whole lines out of a stream of bytes, whatever the blocks in which it arrives.

A line ends at a newline byte and nowhere else: not at a quote, not at a broken character. So no line decides where
another one begins. A line that is too long is dropped by its own length alone; memory holds at most one such line.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers

LONGEST_LINE = 1 << 20
"""Bytes of the longest line that is read, unless told otherwise."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines:
    r"""Cuts blocks of bytes into whole lines.

    >>> lines = Lines()
    >>> lines.feed(b"one\ntw"), lines.feed(b"o\r\nthr"), lines.finish()
    (b'one\n', b'two\n', b'thr\n')
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = b""
        self._skipping = False
        self._fed = 0
        self.consumed = 0
        """Bytes up to the end of the last whole line: from here on a reader can resume."""

    def feed(self, block: bytes) -> bytes:
        """The lines that are whole now, each with its newline; a carriage return before it is dropped."""
        end = block.rfind(b"\n") + 1
        whole, rest = block[:end], block[end:]
        if end:
            self.consumed = self._fed + end
            whole = whole[whole.find(b"\n") + 1 :] if self._skipping else self._rest + whole
            self._rest, self._skipping = b"", False
        self._fed += len(block)
        self._hold(rest)
        kept = not_longer(whole, self._longest)
        return kept.replace(b"\r\n", b"\n") if b"\r" in kept else kept

    def _hold(self, rest: bytes) -> None:
        """Keep the start of a line that is not whole yet, unless it is already too long."""
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > self._longest + 1:  # a carriage return is not part of the line
                self._rest, self._skipping = b"", True

    def finish(self) -> bytes:
        """The last line, if it has no newline."""
        return self.feed(b"\n") if self._rest else b""


def not_longer(lines: bytes, longest: int) -> bytes:
    """The lines of at most `longest` bytes, without counting what ends them."""
    start = 0
    while len(lines) - start > longest:  # from line to line, as far as a short one can be
        end = lines.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            break
        start = end + 1
    else:
        return lines
    text = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    sizes = np.diff(ends, prepend=-1)
    kept = sizes - 1 - (text[ends - 1] == ord("\r")) <= longest
    return lines if kept.all() else text[np.repeat(kept, sizes)].tobytes()


def counts_by_line(where: npt.NDArray[np.bool_], ends: Integers) -> Integers:
    """How many of the marked bytes lie in each line; `ends` are where the newlines are."""
    return np.diff(np.searchsorted(np.flatnonzero(where), ends), prepend=0)


def readable(lines: bytes) -> bytes:
    """The lines that are UTF-8 without a NUL byte; the others are dropped, each by itself."""
    if _is_readable(lines):
        return lines
    return b"".join(line + b"\n" for line in lines.split(b"\n")[:-1] if _is_readable(line))


def _is_readable(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeError:
        return False
    return b"\0" not in line
