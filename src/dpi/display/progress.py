"""How far a long piece of work is: bytes read and slots released, which are public. Rows are not, and are not shown.

In a notebook one line is written and then replaced (IPython alone does that, no widgets are needed); in a terminal
bars are drawn on standard error. Elsewhere, as in a file of logs, nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeVar

from dpi.display.card import HUE
from dpi.display.markup import element

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.progress import Progress

T = TypeVar("T")

_OFTEN = 0.1
"""Seconds between two pictures in a notebook: each is sent to the browser."""


class Meter:
    """How many bytes of `size` have been read (0 if it is not known), and how many of `slots` slots are released."""

    def __init__(self, size: int, slots: int) -> None:
        self.size, self.slots = size, slots
        self.done, self.closed = 0, 0
        self._picture: _Picture | None = None

    def read(self, done: int) -> None:
        """Bytes read so far."""
        self.done = done
        self._draw()

    def released(self, closed: int) -> None:
        """Slots released so far."""
        self.closed = closed
        self._draw()

    def watch(self, releases: Generator[T, None, None]) -> Generator[T, None, None]:
        """The same releases; what is shown stands from the first question for one until the end, or until it is left.

        A generator's own time is all that is measured: nothing is drawn before the first release is asked for.
        """
        with closing(releases), self._shown():
            for closed, release in enumerate(releases, start=1):
                self.released(closed)
                yield release

    @contextmanager
    def _shown(self) -> Generator[None, None, None]:
        with _picture(self) as self._picture:
            try:
                yield
            finally:
                self._picture = None

    def _draw(self) -> None:
        if self._picture is not None:
            self._picture.draw(self)

    # In words.

    @property
    def reading(self) -> str:
        """What is said about bytes; nothing where none are read."""
        if not self.done:
            return ""
        return f"{self.done / 1e6:,.1f}" + (f" of {self.size / 1e6:,.1f} MB read" if self.size else " MB read")

    @property
    def releasing(self) -> str:
        """What is said about slots."""
        return f"{self.closed:,} of {self.slots:,} slots released"

    @property
    def part(self) -> float:
        """How much of what can be counted is over: the bytes until a slot is released, then the slots."""
        if self.closed or not self.size:
            return self.closed / max(self.slots, 1)
        return min(self.done / self.size, 1.0)

    def __repr__(self) -> str:
        return ", ".join(filter(None, (self.reading, self.releasing)))

    def _repr_html_(self) -> str:
        fill = element("span", style=f"display:block;height:100%;width:{100 * self.part:.1f}%;background:{HUE}")
        room = "display:inline-block;width:16em;height:.7em;border:1px solid;margin-right:.8em;vertical-align:middle"
        return element("div", element("span", fill, style=room), repr(self))


class _Picture(Protocol):
    def draw(self, meter: Meter) -> None:
        """Show how far it is."""


def _picture(meter: Meter) -> AbstractContextManager[_Picture | None]:
    if (show := _notebook()) is not None:
        return _InNotebook.open(show, meter)
    if sys.stderr.isatty():
        return _OnTerminal.open()
    return nullcontext()


class _Handle(Protocol):
    def update(self, shown: object) -> None:
        """Put another picture into the same place."""


class _Display(Protocol):
    def __call__(self, shown: object, *, display_id: bool) -> _Handle | None:
        """Show an object below the cell, and say how it can be replaced."""


def _notebook() -> _Display | None:
    """How a notebook shows things; None elsewhere, as in IPython's own terminal."""
    module = sys.modules.get("IPython")  # nobody is in a notebook who has not imported it
    if module is None or not hasattr(module.get_ipython(), "kernel"):
        return None
    from IPython.display import display

    shown: _Display = display
    return shown


class _InNotebook:
    def __init__(self, handle: _Handle | None) -> None:
        self._handle, self._next = handle, 0.0

    @classmethod
    @contextmanager
    def open(cls, show: _Display, meter: Meter) -> Generator[_InNotebook, None, None]:
        picture = cls(show(meter, display_id=True))
        try:
            yield picture
        finally:
            picture._replace(meter)

    def draw(self, meter: Meter) -> None:
        if time.monotonic() >= self._next:
            self._replace(meter)

    def _replace(self, meter: Meter) -> None:
        if self._handle is not None:
            self._handle.update(meter)
        self._next = time.monotonic() + _OFTEN


class _OnTerminal:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=1.0, said="")

    @classmethod
    @contextmanager
    def open(cls) -> Generator[_OnTerminal, None, None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
        console = Console(stderr=True, highlight=False)
        with Progress(*columns, console=console, transient=True) as progress:
            yield cls(progress)

    def draw(self, meter: Meter) -> None:
        self._progress.update(self._task, completed=meter.part, said=repr(meter))
