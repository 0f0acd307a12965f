"""Opening a stream in a store, and releasing the slots of a file: what `run` and `demo` share."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpi.brain.base import Brain
from dpi.budget import Converging, Ledger
from dpi.cli.compressions import Keyed
from dpi.cli.interruption import Interruption
from dpi.cli.outfile import OutFile
from dpi.cli.progress import Bars
from dpi.cli.stored import Stored
from dpi.compression import normalise
from dpi.domain import Domain
from dpi.errors import OptionError
from dpi.prefix_tree import PrefixTree
from dpi.signature import Signer
from dpi.slots import Slots
from dpi.sources import FileEvents
from dpi.store import Store, open_store
from dpi.stream import Stream


@dataclass(frozen=True)
class Clockwork:
    """The public clock of a stream, as a command line says it."""

    slot: str
    origin: str = "1970-01-01"
    zone: str = "UTC"
    lateness: str = "0s"

    @property
    def slots(self) -> Slots:
        """The slots."""
        return Slots(self.slot, origin=self.origin, zone=self.zone, lateness=self.lateness)


@dataclass(frozen=True)
class Shelf:
    """Where a stream is kept, and under which name."""

    store: str
    name: str = ""
    key_file: Path | None = None
    witness: Path | None = None
    charge_lost: bool = False
    new_witness: bool = False
    wait: float = 0.0

    def open(self, signer: Signer | None = None) -> Store:
        """The store, for writing."""
        return open_store(
            self.store,
            key_file=self.key_file,
            wait=self.wait,
            witness=self.witness,
            charge_lost=self.charge_lost,
            new_witness=self.new_witness,
            signer=signer,
        )


@contextmanager
def opened(
    shelf: Shelf,
    clockwork: Clockwork,
    begin: str,
    *,
    domain: Domain,
    epsilon: str,
    budget: Ledger | Converging,
    brain: Brain[object],
    compression: Keyed | None = None,
    accumulate: PrefixTree | None = None,
    separate: bool = False,
    change: bool = False,
    signer: Signer | None = None,
) -> Iterator[Stream]:
    """The stream in its store; a new one begins at `begin`, one that is there goes on where it stopped."""
    slots = clockwork.slots
    slots.border(begin, "--from")
    with shelf.open(signer) as store:
        known = store.streams().get(shelf.name)
        begun = None if known is None else json.loads(known)["start"]
        start = begin if known is None else None if begun is None else slots.start(begun)
        yield Stream(
            domain=domain,
            epsilon=epsilon,
            slot=clockwork.slot,
            origin=clockwork.origin,
            zone=clockwork.zone,
            lateness=clockwork.lateness,
            start=start,
            budget=budget,
            brain=brain,
            compression=normalise if compression is None else compression(store.key),
            accumulate=accumulate,
            store=store,
            name=shelf.name,
            separate=separate,
            change=change,
            signer=signer,
        )


def first_slot(stream: Stream, slots: Slots, first: int) -> int:
    """The slot to go on with; refuses a period that would leave out a slot, for every slot is released."""
    following = stream.next_slot
    if first > following:
        raise OptionError(
            f"every slot is released: the next one begins at {slots.start(following).isoformat()}, so `--from` must "
            "not be after it."
        )
    begun = json.loads(stream.store.streams()[stream.name])["start"]
    oldest = begun if begun is not None else next((r.slot for r in Stored(stream.store, stream.name).releases()), first)
    if first < oldest:
        raise OptionError(
            f"the stream in the store begins at {slots.start(oldest).isoformat()}, so `--from` must not be before it."
        )
    return following


def play(
    stream: Stream,
    events: FileEvents,
    end: int,
    out: OutFile | None,
    interruption: Interruption,
    bars: Bars,
    memory: int,
) -> None:
    """Release every slot from the stream's next one to before `end`, from a file's events."""
    first = stream.next_slot
    if stream.slots is None or first >= end:
        return
    slots = events.slots(stream.slots, first, end, memory=memory, progress=bars.read)
    try:
        for number, users, values in slots:
            with interruption.whole():
                release = stream.release(users, values, slot=number)
                if out is not None:
                    out.add(release)
            bars.released(number + 1 - first)
    finally:
        if isinstance(slots, Generator):
            slots.close()  # removes what was spilled to disk
