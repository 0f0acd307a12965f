"""Progress bars on standard error, if that is a terminal. They show bytes, slots, steps: public, unlike rows.

Where standard error is no terminal, a command that takes minutes may say a line now and then.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dpi.cli.output import note

EVERY = 10.0
"""Seconds between two lines of progress."""


class _OnTerminal:
    """Bars that are drawn while a `with` lasts, and leave nothing behind."""

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Bars(_OnTerminal):
    """How many bytes were read and how many slots were released."""

    def __init__(self, size: int, slots: int, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._size, self._slots = size, slots
        self._reading = self._progress.add_task("reading", total=size or None, done="")
        self._releasing = self._progress.add_task("releasing", total=slots, visible=slots > 0, done=f"0/{slots} slots")

    def read(self, done: int) -> None:
        """Bytes read so far."""
        of = f"/{self._size / 1e6:,.0f}" if self._size else ""
        self._progress.update(self._reading, completed=done, done=f"{done / 1e6:,.0f}{of} MB")

    def released(self, done: int) -> None:
        """Slots released so far."""
        self._progress.update(self._releasing, completed=done, done=f"{done}/{self._slots} slots")


class Steps(_OnTerminal):
    """How many of some steps are over, and which one was last; with `lines`, also where there is no terminal."""

    def __init__(self, name: str, steps: int, *, lines: bool = False) -> None:
        super().__init__()
        self._name, self._steps, self._over = name, steps, 0
        self._said = time.monotonic() if lines and self._progress.disable else None
        self._task = self._progress.add_task(name, total=steps, done=f"0/{steps}")

    def over(self, done: int, what: str = "") -> None:
        """So many are over."""
        self._over = done
        text = f"{done}/{self._steps} {what}".rstrip()
        self._progress.update(self._task, completed=done, done=text)
        if self._said is not None and time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            note(f"{self._name}: {text}")

    def another(self, what: str = "") -> None:
        """One more is over."""
        self.over(self._over + 1, what)
