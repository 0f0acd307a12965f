"""What `run` says at its end: public facts only, made from releases."""

from __future__ import annotations

from pathlib import Path

from dpi.cli.output import address, document, next_command, say
from dpi.reader import Releases
from dpi.report.empty_check import WARNING, looks_empty
from dpi.store.spent import sentences, spent_in
from dpi.stream import Stream

JUDGED = 200
"""So many releases tell whether they look like nobody."""


def summary(stream: Stream, following: int, store: str, out: Path | None, json: bool) -> None:
    """What was released: public facts only."""
    stored = Releases(stream.store, stream.name)
    newest = stored.newest if len(stored) else None
    released = 0 if newest is None else max(newest.slot + 1 - following, 0)
    nobody = released > 0 and _nobody(stored, following, following + released)
    if json:
        document(
            {
                "store": address(store),
                "stream": stream.name,
                "released": released,
                "last_slot": None if newest is None else newest.slot,
                "last_start": None if newest is None else newest.start_text,
                "epsilon_spent": 0.0 if newest is None else newest.epsilon_spent,
                "budget": repr(stream.budget),
                "looks_empty": nobody,
                "guarantee": stream.guarantee,
                "out": None if out is None else str(out),
            }
        )
        return
    say(f"{released} slots released." if newest is None else f"{released} slots released, up to {newest.start_text}.")
    if newest is not None:
        say(
            "Most frequent in the last one: "
            + ", ".join(f"{label} {share:.3f}" for label, share in newest.top(3))
            + "."
        )
        say(sentences(newest.epsilon_spent, spent_in(stream.store), len(stream.store.streams())))
    say(f"Budget: {stream.budget!r}.", stream.guarantee)
    if out is not None:
        say(f"Releases: {out}")
    if nobody:
        say(f"{WARNING} `dpi run … --dry-run` tells the curator.")
    named = ("--stream", stream.name) if len(stream.store.streams()) > 1 else ()
    say(*next_command(store, "report", store, *named))


def _nobody(stored: Releases, first: int, end: int) -> bool:
    """Whether the newest releases of a run look like nobody: a function of releases."""
    return looks_empty(stored.between(max(first, end - JUDGED), end))
