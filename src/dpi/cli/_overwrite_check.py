"""Whether a run may put its file of releases in the place of one that is there: only if no release is lost by it.

A release in a file says by its certificate which entry of which chain it is. So a file may be replaced if each release
in it is one of the same stream of the same store, and in the period that the run writes. What is decided here is
public: certificates, names and periods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpi.errors import OptionError, StateError
from dpi.events.slots import Slots
from dpi.store import Store, open_store, store_exists

TEXT = (".ndjson", ".jsonl")
"""Suffixes of files with a line for each release."""


@dataclass(frozen=True)
class OverwriteCheck:
    """A run that writes the releases of a period, from slot `first` to before `end`, of one stream to a file."""

    path: Path
    name: str
    slots: Slots
    first: int
    end: int | None

    def check_at(self, target: str) -> None:
        """The same before a store is opened for writing, so that a run that is refused makes and changes nothing.

        A store that cannot be read yet, because an older program has written it, is looked at when it is open.
        """
        if not store_exists(target):
            self.check(None)
            return
        with suppress(StateError), open_store(target, read_only=True) as store:
            self.check(store)

    def check(self, store: Store | None) -> None:
        """Refuse to replace a file that holds anything else; `store` is None if it is not there yet."""
        held: list[int] = []
        head = -1 if store is None else store.head().sequence
        for stream, slot, sequence, digest in _certificates(self.path):
            if (
                store is None
                or stream != self.name
                or not 0 <= sequence <= head
                or store.link(sequence).digest != digest
            ):
                raise OptionError(
                    f"`--out` {str(self.path)!r} holds releases that are not of this stream of this store: it is not "
                    "replaced. Name another file, or move it away."
                )
            held.append(slot)
        if held and (min(held) < self.first or (self.end is not None and max(held) >= self.end)):
            begin, last = (self.slots.start(slot).isoformat() for slot in (min(held), max(held)))
            raise OptionError(
                f"`--out` {str(self.path)!r} holds the slots from {begin} to the one at {last}, and some of them lie "
                "outside `--from` … `--to`: it is not cut. Give a period that has them all, or another file."
            )


def _certificates(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """Stream, slot, entry and digest of each release in a file; a last line that a crash has cut is none."""
    damaged = OptionError(f"`--out` {str(path)!r} is damaged, and it is not replaced: move it away.")
    if not path.exists():
        return
    for text, last in _texts(path):
        try:
            certificate = json.loads(text)
            stream, digest = certificate["stream"], certificate["digest"]
            numbers = certificate["slot"], certificate["sequence"]
        except (ValueError, KeyError, TypeError):
            if last:
                return
            raise damaged from None
        if not isinstance(stream, str) or not isinstance(digest, str) or not all(type(n) is int for n in numbers):
            raise damaged
        yield stream, *numbers, digest


def _texts(path: Path) -> Iterator[tuple[str, bool]]:
    """The certificate of each release as text, and whether it is the last one of a file of lines."""
    if path.suffix in TEXT:
        with path.open(encoding="utf-8", errors="replace") as file:
            line = file.readline()
            while line:
                following = file.readline()
                if line.strip():
                    yield _certificate(line), not following
                line = following
        return
    import polars as pl

    yield from ((str(text), False) for text in pl.read_parquet(path, columns=["certificate"])["certificate"])


def _certificate(line: str) -> str:
    """The certificate in a line; empty if there is none."""
    try:
        return json.dumps(json.loads(line)["certificate"])
    except (ValueError, KeyError, TypeError):
        return ""
