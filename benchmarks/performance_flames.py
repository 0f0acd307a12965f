"""Where the time of a whole run goes: a flame graph of small slots, and one of a large slot.

A timer of the processor interrupts every millisecond, and the stack of that moment gets the processor time since the
one before it: a long call of numpy or polars delays the interrupt, and is charged in full when it returns. Only names
of modules and functions are kept, no path of a machine and no argument.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType

import numpy as np
import polars as pl

import dpi
from measure import SLOT, Cell, record

HOME = str(Path(dpi.__file__).parent)
Stack = tuple[str, ...]
Stacks = dict[Stack, float]
STYLE = """
  text { font: 11px ui-monospace, monospace; fill: #1f2933 } .paper { fill: #ffffff }
  rect { stroke: #ffffff; stroke-width: .5 } .ours { fill: #f4c6a5 } .others { fill: #c9d6e3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .paper { fill: #1c2128 } rect { stroke: #1c2128 }
    .ours { fill: #8a4b2f } .others { fill: #3d4f61 }
  }
"""
WIDTH, ROW, LETTER, THINNEST = 1000, 17, 6.7, 0.004


def label(frame: FrameType) -> str:
    """A function of ours by module; of others, the package alone."""
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    if file.startswith(HOME):
        return f"dpi{file[len(HOME) : -len('.py')]}:{name}".replace("\\", "/")
    return str(frame.f_globals.get("__name__", "?")).partition(".")[0]


@dataclass
class Sampler:
    """Processor seconds by stack, of what runs within `with`."""

    stacks: Stacks = field(default_factory=lambda: defaultdict(float))
    last: float = 0.0

    def heard(self, _: int, frame: FrameType | None) -> None:
        """Charge the stack of this moment."""
        now, names = time.process_time(), list[str]()
        while frame is not None:
            name = label(frame)
            if not names or names[-1] != name:
                names.append(name)
            frame = frame.f_back
        stack = tuple(name for name in reversed(names) if not name.startswith(("__main__", "performance", "runpy")))
        self.stacks[stack] += now - self.last
        self.last = now

    def __enter__(self) -> Sampler:
        self.last = time.process_time()
        signal.signal(signal.SIGPROF, self.heard)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def drawn(stacks: Stacks, about: str) -> str:
    """The flame graph: callers below, callees above, widths are processor time."""
    total = sum(stacks.values())
    deepest, boxes = 0, list[str]()

    def draw(depth: int, left: float, below: Stack, inside: dict[Stack, float]) -> None:
        nonlocal deepest
        names: dict[str, float] = {}
        for stack, seconds in inside.items():
            if len(stack) > depth:
                names[stack[depth]] = names.get(stack[depth], 0.0) + seconds
        for name, seconds in sorted(names.items(), key=lambda pair: -pair[1]):
            share = seconds / total
            if share < THINNEST:
                continue
            deepest = max(deepest, depth)
            width, kind = WIDTH * share, "ours" if name.startswith("dpi") else "others"
            short = name.rpartition(":")[2] if name.startswith("dpi/") else name
            room = int(width / LETTER) - 1
            text = name if len(name) <= room else short if len(short) <= room else short[:room] if room > 3 else ""
            place = f'x="{left:.1f}" y="{{{depth}}}" width="{width:.1f}" height="{ROW}"'
            boxes.append(f'<g><title>{escape(name)}: {share:.1%}</title><rect class="{kind}" {place}/>')
            boxes.append(f'<text x="{left + 3:.1f}" y="{{{depth}+}}">{escape(text)}</text></g>')
            here = (*below, name)
            draw(depth + 1, left, here, {s: each for s, each in inside.items() if s[: depth + 1] == here})
            left += width

    draw(0, 0.0, (), dict(stacks))
    height = (deepest + 1) * ROW + 4
    body = "\n".join(boxes)
    for depth in range(deepest + 1):
        y = height - (depth + 1) * ROW - 2
        body = body.replace(f"{{{depth}}}", str(y)).replace(f"{{{depth}+}}", str(y + 12))
    size = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(about)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
    return f"{head}\n<style>{STYLE}</style>\n{paper}\n{body}\n</svg>\n"


def small(slots: int) -> Stacks:
    """Slots of 100 bins and 2,000 events in a file of SQLite, after 20 others."""
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    names = np.array([f"v{bin}" for bin in range(100)])
    sampler = Sampler()
    with (
        tempfile.TemporaryDirectory() as folder,
        dpi.Stream(domain=dpi.Categories(names), epsilon=2, store=Path(folder) / "store.db") as stream,
    ):
        for slot in range(20 + slots):
            ids, values = rng.integers(0, 4000, 2000), names[rng.integers(0, 100, 2000)]
            if slot < 20:
                stream.release(ids, values, slot=slot)
                continue
            with sampler:
                stream.release(ids, values, slot=slot)
    return sampler.stacks


def large(events: int) -> Stacks:
    """The second slot of a stream in memory: 1,000 bins, five events a user."""
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    stream, sampler = dpi.Stream(domain=dpi.Categories(range(1000)), epsilon=2), Sampler()
    for slot in range(2):
        ids, values = pl.Series(rng.integers(0, events // 5, events)), pl.Series(rng.integers(0, 1000, events))
        if slot:
            with sampler:
                stream.release(ids, values, slot=slot)
        else:
            stream.release(ids, values, slot=slot)
    return sampler.stacks


def heaviest(stacks: Stacks, most: int = 8) -> list[list[Cell]]:
    """Where time is spent itself, by function of ours: what others do counts for the one that asked."""
    own: dict[str, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        mine = [name for name in stack if name.startswith("dpi/")]
        own[mine[-1] if mine else "outside"] += seconds
    total = sum(own.values())
    heavy = sorted(own.items(), key=lambda pair: -pair[1])[:most]
    return [[f"`{name}`", round(100 * seconds / total)] for name, seconds in heavy]


def measure(quick: bool, pictures: Path) -> None:
    """The heaviest functions of both runs; the pictures are drawn beside them."""
    sys.setswitchinterval(1.0)
    slots, events = (100, 1_000_000) if quick else (400, 10_000_000)
    runs = {
        "small-slots": (f"{slots} small slots", small(slots)),
        "large-slot": (f"A slot of {events:,} events", large(events)),
    }
    for name, (about, stacks) in runs.items():
        drawing = drawn(stacks, f"Processor time: {about}")
        (pictures / f"performance-{name}.svg").write_text(drawing, encoding="utf-8")
        record(
            f"performance-{name}",
            parts=SLOT,
            about=f"{about}, by function of ours, with what it calls outside.",
            columns=["function", "share, %"],
            rows=heaviest(stacks),
        )
