"""The command line as something that an analyst can reach: what commands say and leave, whatever the rows are.

Releases cannot be forced on a process from outside, and noise differs from run to run. So what is compared here is what
must not depend on the data at all: exit codes, complaints, summaries without a release, names and permissions of the
files that a run leaves, how many releases it wrote, and what is public in each of them. The rows of the user who is in
one of the two files come with lines that cannot be read: of the far future, with a broken time, with too few fields,
with an open quote.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import dpi
from dpi_audit.neighbours import TARGET, Neighbours, Rows, pair
from dpi_audit.reach import MARKER, Surface, run_process
from dpi_audit.session import StreamSession

PROGRAM = (sys.executable, "-m", "dpi.cli")
PUBLIC = ("slot", "start", "epsilon", "epsilon_spent", "guarantee", "domain")
"""What a release holds besides noise."""
PUBLIC_OUTPUT = {
    "run": ("store", "stream", "released", "last_slot", "last_start", "epsilon_spent", "guarantee", "out"),
    "verify": (
        "intact", "whole", "missing", "entries", "problems", "slots", "signed", "accounts_checked", "epsilon_spent",
        "epsilon_spent_by_all",
    ),
    "export": ("export", "store", "streams", "entries"),
    "ledger": ("store", "keep", "dropped", "thinned"),
}  # fmt: skip
"""What commands say besides what they make of noise."""

_EVENTS = ("--value", "value", "--domain", "values.txt", "--slot", "1h", "--from", "2026-01-01", "--per-slot", "0.25")
_END = ("--to", "2026-01-01T02:00")
_RUN = ("run", "events.csv", *_EVENTS, *_END, "--store", "visits.db", "--out", "releases.ndjson")
_ONE = ("--time", "at", "--epsilon", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "dry run": (*_RUN, *_ONE, "--dry-run"),
    "run": (*_RUN, *_ONE, "--json"),
    "run again": (*_RUN, *_ONE, "--json"),
    "run without a column": (*_RUN, "--time", "when", "--epsilon", "1"),
    "run with another ε": (*_RUN, "--time", "at", "--epsilon", "2"),
    "query of no slot": ("query", "visits.db", "total", "--slot", "7"),
    "verify": ("verify", "visits.db", "--json"),
    "export": ("export", "visits.db", "public.db", "--json"),
    "compact": ("ledger", "compact", "visits.db", "--keep-measurements", "1", "--json"),
    "export again": ("export", "visits.db", "public.db"),
    "verify of the export": ("verify", "public.db", "--json"),
    "run on the export": ("run", "events.csv", *_EVENTS, *_END, *_ONE, "--store", "public.db"),
    "ledger of the export": ("ledger", "public.db", "--user", "other-1"),
}


def command_line(values: Sequence[object], program: Sequence[str] = PROGRAM) -> Surface:
    """Return a surface: the commands above, one after the other, on a file with the rows of the last slot."""

    def commands(session: StreamSession) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            return _seen(Path(folder), session.rows, values, program)

    return commands


def odd_rows(slots: int, values: Sequence[object]) -> Neighbours:
    """Put the user first and last, with 400 rows, values that are not there and values that nobody has listed."""
    others = tuple((f"other-{i}", values[i % len(values)]) for i in range(6))
    flood = tuple((TARGET, values[i % len(values)]) for i in range(400))
    bad: Rows = ((TARGET, None), (TARGET, float("nan")), (TARGET, "no such value"))
    return pair("odd rows", [(*bad, *flood[:200], *others, *flood[200:], *bad) for _ in range(slots)])


def _seen(folder: Path, rows: Rows, values: Sequence[object], program: Sequence[str]) -> dict[str, bytes]:
    (folder / "values.txt").write_text("".join(f"{value}\n" for value in values))
    (folder / "events.csv").write_text(_lines(rows))
    home = {**os.environ, "PYTHONPATH": str(Path(dpi.__file__).parents[1])}
    seen: dict[str, bytes] = {}
    for name, words in COMMANDS.items():
        out = run_process([*program, *words], folder=folder, environment=home)
        if words[-1] == "--json":  # without what hashes noise, or is made of the released totals
            out["stdout"] = _only(out["stdout"], PUBLIC_OUTPUT[words[0]])
        if name == "dry run":
            out["stderr"] = b""  # for the curator alone; an analyst sees the exit code and the files
        seen |= {f"{name}, {part}": data for part, data in out.items()}
    left = sorted(path for path in folder.iterdir() if path.name != "events.csv")
    seen["files"] = "".join(f"{path.name} {path.stat().st_mode:o}\n" for path in left).encode()
    releases = (folder / "releases.ndjson").read_bytes().splitlines() if (folder / "releases.ndjson").exists() else []
    seen["releases.ndjson"] = b"\n".join(_only(line, PUBLIC) for line in releases)
    return seen


def _lines(rows: Rows) -> str:
    """Events of the first hour; each line stands by itself."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["user", "at", "value"])
    for user, value in rows:
        lines.writerow([user, "2026-01-01T00:10:00", value])
        if MARKER.decode() in str(user):
            lines.writerow([user, "9999-12-31T00:00:00", value])
            lines.writerow([user, "soon", value])
            lines.writerow([user])
            text.write(f'"{user},2026-01-01T00:20:00,{value}\n')
    return text.getvalue()


def _only(text: bytes, keys: Sequence[str]) -> bytes:
    """Return some members of a JSON object; a text that is none stays as it is."""
    try:
        members = json.loads(text)
    except ValueError:
        return text
    return json.dumps({key: members.get(key) for key in keys}).encode()
