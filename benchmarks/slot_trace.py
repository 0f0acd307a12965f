"""The way of one slot of `dpi run`: how many calls of our functions it takes, and how often these move between rooms.

    python benchmarks/slot_trace.py [--files] [--functions N]

A file of 400 rows in four slots is played into a new store in a file, by the command itself. Counted is what happens
between one release that is stored and the next: calls of functions that are defined in dpi, and moves, which are calls
of a function of one room (a first-level package or module of dpi) by one of another, whatever of other libraries is
between. A comprehension, and a generator that goes on, is a call, as Python 3.11 has it. Noise comes from a seeded
source, so that two runs count the same. The numbers are means over the three slots after the first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from unittest.mock import patch

import numpy as np

import dpi

HOME = str(Path(dpi.__file__).parent) + "/"
ROWS, SLOTS, VALUES = 400, 4, ("DE", "FR", "GB", "IT")


@dataclass
class Trace:
    """Calls and moves in all slots after the first."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By file and function."""
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By the rooms of caller and callee."""
    slots: int = 0

    @property
    def by_slot(self) -> tuple[float, float]:
        """Calls and moves of a slot."""
        return self.calls.total() / self.slots, self.moves.total() / self.slots


def room(file: str) -> str:
    """The first-level package or module of a file."""
    return file.partition("/")[0].removesuffix(".py")


def write_events(path: Path) -> None:
    """Write events of a few users over the slots, in the order of time."""
    rng = np.random.default_rng(1)
    lines = ["user,time,value"]
    for row in range(ROWS):
        minute = row * SLOTS * 60 // ROWS
        moment = f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
        lines.append(f"user-{rng.integers(0, 60)},{moment},{VALUES[rng.integers(0, len(VALUES))]}")
    path.write_text("\n".join(lines) + "\n")


def trace_run(folder: Path) -> Trace:
    """Run the command on a new store, and return what the slots after the first took."""
    from dpi.cli.app import app
    from dpi.noise.source import SystemSource, UnsafeSeededSource

    write_events(folder / "events.csv")
    (folder / "domain.txt").write_text("\n".join(VALUES) + "\n")
    arguments = ["run", str(folder / "events.csv"), "--domain", str(folder / "domain.txt"), "--slot", "1h"]
    arguments += ["--from", "2026-01-01", "--to", "2026-01-01T04:00", "--epsilon", "1"]
    arguments += ["--store", str(folder / "store.db")]
    trace, published = Trace(slots=SLOTS - 1), 0
    files: dict[CodeType, str | None] = {}
    frames: list[tuple[FrameType, str]] = []

    def heard(frame: FrameType, event: str, _: object) -> None:
        nonlocal published
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in files:
            files[code] = code.co_filename[len(HOME) :] if code.co_filename.startswith(HOME) else None
        file = files[code]
        if file is None:
            return
        if event == "return":
            if frames and frames[-1][0] is frame:
                frames.pop()
            published += code.co_name == "publish" and room(file) == "store"
            return
        caller = room(frames[-1][1]) if frames else room(file)
        frames.append((frame, file))
        if 0 < published < SLOTS:  # before the first all events are read, and the last is followed by the command's end
            trace.calls[file, code.co_qualname] += 1
            if caller != room(file):
                trace.moves[caller, room(file)] += 1

    seeded, before = UnsafeSeededSource(1), sys.getprofile()
    with (
        patch.object(SystemSource, "words", lambda _, count: seeded.words(count)),
        suppress(SystemExit),
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
    ):
        sys.setprofile(heard)
        try:
            app(arguments)
        finally:
            sys.setprofile(before)
    return trace


def main() -> None:
    """Print the calls and moves of a slot, by room."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true", help="files, and moves from room to room, as well")
    parser.add_argument("--functions", type=int, default=0, help="the N functions that are called most often")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = trace_run(Path(folder))
    print("| room | calls | moves into it | files |")
    print("|---|---:|---:|---:|")
    for name in sorted({room(file) for file, _ in trace.calls}):
        calls = sum(number for (file, _), number in trace.calls.items() if room(file) == name)
        moves = sum(number for (_, into), number in trace.moves.items() if into == name)
        files = {file for file, _ in trace.calls if room(file) == name}
        print(f"| {name} | {calls / trace.slots:.0f} | {moves / trace.slots:.0f} | {len(files)} |")
    total, moved = trace.by_slot
    print(f"| **all** | **{total:,.0f}** | **{moved:.0f}** | {len({file for file, _ in trace.calls})} |")
    if chosen.files:
        by_file = Counter[str]()
        for (file, _), number in trace.calls.items():
            by_file[file] += number
        print(*(f"{number / trace.slots:7.1f}  {file}" for file, number in by_file.most_common()), sep="\n")
        for (one, other), number in trace.moves.most_common():
            print(f"{number / trace.slots:7.1f}  {one} → {other}")
    for (file, name), number in trace.calls.most_common(chosen.functions):
        print(f"{number / trace.slots:7.1f}  {file}  {name}")


if __name__ == "__main__":
    main()
