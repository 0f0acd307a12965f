"""Ctrl-C and SIGTERM: at once while files are read, at the end of the slot while one is being released.

Nothing depends on it: a store survives a kill at any point. It only makes the common case tidy.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """The command was asked to stop, and has."""

    def __init__(self, number: int, text: str = "stopped.") -> None:
        super().__init__(text)
        self.number = number

    @property
    def code(self) -> int:
        """What a shell expects of a program that a signal has ended."""
        return 128 + self.number


class Signals:
    """Raises `Interrupted` when a signal comes, but not in the middle of what is `deferred`.

    >>> import os
    >>> done = []
    >>> try:
    ...     with Signals() as signals:
    ...         with signals.deferred():
    ...             os.kill(os.getpid(), signal.SIGTERM)
    ...             done.append("this slot")
    ...         done.append("the next")
    ... except Interrupted as stop:
    ...     print(done, stop.code)
    ['this slot'] 143
    """

    def __init__(self) -> None:
        self._deferred = False
        self._pending: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._deferred and self._pending is None:
            self._pending = number
        else:  # a second one is in a hurry
            raise Interrupted(number)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Finish what is done in here before a signal is heeded."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self._pending is not None:
            raise Interrupted(self._pending)
