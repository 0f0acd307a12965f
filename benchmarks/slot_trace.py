"""The way of one slot of `dpi run`: how many calls of our functions it takes, and how often these move between rooms.

    python benchmarks/slot_trace.py [--files] [--functions N]

A file of 400 rows in four slots is played into a new store in a file, by the command itself. Counted is what happens
between one release that is stored and the next: calls of functions that are defined in dpi, and moves, which are calls
of a function of one room (a first-level package or module of dpi) by one of another, whatever of other libraries is
between. A generator that goes on is a call. The numbers are those of the middle of the last three slots.
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
from statistics import median_low
from types import CodeType, FrameType

import numpy as np

import dpi

HOME = str(Path(dpi.__file__).parent) + "/"
ROWS, SLOTS, VALUES = 400, 4, ("DE", "FR", "GB", "IT")


@dataclass
class Slot:
    """Calls and moves from one stored release to the next."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By file and function."""
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By the rooms of caller and callee."""


def room(file: str) -> str:
    """The first-level package or module of a file."""
    return file[len(HOME) :].partition("/")[0].removesuffix(".py")


def write_events(path: Path) -> None:
    """Write events of a few users over the slots, in the order of time."""
    rng = np.random.default_rng(1)
    lines = ["user,time,value"]
    for row in range(ROWS):
        minute = row * SLOTS * 60 // ROWS
        moment = f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
        lines.append(f"user-{rng.integers(0, 60)},{moment},{VALUES[rng.integers(0, len(VALUES))]}")
    path.write_text("\n".join(lines) + "\n")


def trace_slots(folder: Path) -> list[Slot]:
    """Run the command on a new store, and return what each slot after the first took."""
    from dpi.cli.app import app

    write_events(folder / "events.csv")
    (folder / "domain.txt").write_text("\n".join(VALUES) + "\n")
    arguments = ["run", str(folder / "events.csv"), "--domain", str(folder / "domain.txt"), "--slot", "1h"]
    arguments += ["--from", "2026-01-01", "--to", "2026-01-01T04:00", "--epsilon", "1"]
    arguments += ["--store", str(folder / "store.db")]
    slots: list[Slot] = []
    files: dict[CodeType, str | None] = {}
    frames: list[tuple[FrameType, str]] = []

    def ours(code: CodeType) -> str | None:
        if code not in files:
            files[code] = code.co_filename if code.co_filename.startswith(HOME) else None
        return files[code]

    def heard(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        file = ours(frame.f_code)
        if file is None:
            return
        if event == "return":
            if frames and frames[-1][0] is frame:
                frames.pop()
            if frame.f_code.co_name == "publish" and room(file) == "store":
                slots.append(Slot())
            return
        caller = room(frames[-1][1]) if frames else room(file)
        frames.append((frame, file))
        if slots:
            slots[-1].calls[file[len(HOME) :], frame.f_code.co_qualname] += 1
            if caller != room(file):
                slots[-1].moves[caller, room(file)] += 1

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        with suppress(SystemExit), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            app(arguments)
    finally:
        sys.setprofile(before)
    return slots[: SLOTS - 1]  # what follows the last release is the end of the command


def trace_slot() -> Slot:
    """Return the slot in the middle by its calls."""
    with tempfile.TemporaryDirectory() as folder:
        slots = trace_slots(Path(folder))
    calls = median_low([slot.calls.total() for slot in slots])
    return next(slot for slot in slots if slot.calls.total() == calls)


def main() -> None:
    """Print the calls and moves of a slot, by room."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true", help="by file as well")
    parser.add_argument("--functions", type=int, default=0, help="the N functions that are called most often")
    chosen = parser.parse_args()
    slot = trace_slot()
    rooms = sorted({room(HOME + file) for file, _ in slot.calls})
    print("| room | calls | moves into it | files |")
    print("|---|---:|---:|---:|")
    for name in rooms:
        calls = sum(number for (file, _), number in slot.calls.items() if room(HOME + file) == name)
        moves = sum(number for (_, into), number in slot.moves.items() if into == name)
        files = {file for file, _ in slot.calls if room(HOME + file) == name}
        print(f"| {name} | {calls:,} | {moves} | {len(files)} |")
    print(f"| all | {slot.calls.total():,} | {slot.moves.total()} | {len({file for file, _ in slot.calls})} |")
    if chosen.files:
        by_file = Counter[str]()
        for (file, _), number in slot.calls.items():
            by_file[file] += number
        print(*(f"{number:6,}  {file}" for file, number in by_file.most_common()), sep="\n")
        print(*(f"{number:6,}  {a} → {b}" for (a, b), number in slot.moves.most_common()), sep="\n")
    for (file, name), number in slot.calls.most_common(chosen.functions):
        print(f"{number:6,}  {file}  {name}")


if __name__ == "__main__":
    main()
