"""How far a long piece of work is: bytes read and slots released, which are public. Rows are not, and are not shown.

In a notebook one line is written and then replaced (IPython alone does that, no widgets are needed); in a terminal
bars are drawn on standard error. Elsewhere, as in a file of logs, nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, TypeVar

from dpi.display.card import HUE
from dpi.display.markup import element

T = TypeVar("T")
Draw = Callable[[], None]
_OFTEN = 0.1  # seconds between two pictures in a notebook: each is sent to the browser


class Meter:
    """How many bytes of `size` have been read (0 if it is not known), and how many of `slots` slots are released."""

    def __init__(self, size: int, slots: int) -> None:
        self.size, self.slots = size, slots
        self.done, self.closed = 0, 0
        self._draw: Draw | None = None

    def read(self, done: int) -> None:
        """Note the bytes read so far."""
        self.done = done
        if self._draw is not None:
            self._draw()

    def released(self, closed: int) -> None:
        """Note the slots released so far."""
        self.closed = closed
        if self._draw is not None:
            self._draw()

    def watch(self, releases: Generator[T, None, None]) -> Generator[T, None, None]:
        """Return the same releases; what is shown stands from the first question for one until the end.

        A generator's own time is all that is measured: nothing is drawn before the first release is asked for.
        """
        with closing(releases), _picture(self) as self._draw:
            try:
                for closed, release in enumerate(releases, start=1):
                    self.released(closed)
                    yield release
            finally:
                self._draw = None

    @property
    def part(self) -> float:
        """How much of what can be counted is over: the bytes until a slot is released, then the slots."""
        if self.closed or not self.size:
            return self.closed / max(self.slots, 1)
        return min(self.done / self.size, 1.0)

    def __repr__(self) -> str:
        size = f" of {self.size / 1e6:,.1f}" if self.size else ""
        reading = f"{self.done / 1e6:,.1f}{size} MB read, " if self.done else ""
        return f"{reading}{self.closed:,} of {self.slots:,} slots released"

    def _repr_html_(self) -> str:
        fill = element("span", style=f"display:block;height:100%;width:{100 * self.part:.1f}%;background:{HUE}")
        room = "display:inline-block;width:16em;height:.7em;border:1px solid;margin-right:.8em;vertical-align:middle"
        return element("div", element("span", fill, style=room), repr(self))


def _picture(meter: Meter) -> AbstractContextManager[Draw | None]:
    module = sys.modules.get("IPython")  # a notebook has imported it; IPython's own terminal has no kernel
    if module is not None and hasattr(module.get_ipython(), "kernel"):
        return _notebook(meter)
    return _terminal(meter) if sys.stderr.isatty() else nullcontext()


@contextmanager
def _notebook(meter: Meter) -> Generator[Draw, None, None]:
    from IPython.display import display

    handle: Any = display(meter, display_id=True)
    due = 0.0

    def replace() -> None:
        nonlocal due
        if handle is not None:
            handle.update(meter)
        due = time.monotonic() + _OFTEN

    try:
        yield lambda: replace() if time.monotonic() >= due else None
    finally:
        replace()


@contextmanager
def _terminal(meter: Meter) -> Generator[Draw, None, None]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0, said="")
        yield lambda: progress.update(task, completed=meter.part, said=repr(meter))
