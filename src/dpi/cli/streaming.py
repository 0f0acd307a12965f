"""Opening a stream in a store, and releasing the slots of a file: what `run` and `demo` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dpi.budget import Converging, Ledger
from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.cli.options import ANEW
from dpi.cli.outfile import OutFile
from dpi.cli.output import note
from dpi.cli.progress import Bars
from dpi.cli.signals import Signals
from dpi.domain import Domain, Product
from dpi.engine import BucketEngine
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.histogram.compression import normalise
from dpi.mechanism.base import Mechanism
from dpi.reader import Releases
from dpi.settings.compressions import Keyed
from dpi.sources import FileEvents
from dpi.store import MemoryStore, Store, open_store, store_exists
from dpi.store.cleanup import remove_unused
from dpi.store.opening import witness_beside
from dpi.stream import Stream
from dpi.stream.accumulation import PrefixTree
from dpi.stream.registration import Change


@dataclass(frozen=True)
class ClockOptions:
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
class StoreOptions:
    """Where a stream is kept, and under which name."""

    store: str
    name: str = ""
    key_file: Path | None = None
    witness: Path | None = None
    charge_lost: bool = False
    new_witness: bool = False
    wait: float = 0.0
    no_witness: bool = False
    new: bool = False

    def check(self) -> None:
        """Refuse files that cannot be made, before any is."""
        if self.no_witness and self.witness is not None:
            raise OptionError("give `--witness` or `--no-witness`, not both.")
        for option, path in (("--key-file", self.key_file), ("--witness", self.witness)):
            if path is not None and not path.absolute().parent.is_dir():
                raise OptionError(f"`{option}` must lie in a folder that exists. Got {str(path)!r}.")

    @contextmanager
    def new_or_nothing(self) -> Iterator[None]:
        """A store that a command makes, and never uses because it fails, is taken back with all that was made for it.

        An interruption is no failure: the same command goes on.
        """
        path = Path(self.store)
        key = path.with_name(path.name + ".key") if self.key_file is None else self.key_file
        witness = witness_beside(self.store) if self.witness is None else self.witness
        beside = (key, witness, witness.with_name(witness.name + ".lock"))
        made = [file for file in beside if not file.exists()]
        new = "://" not in self.store and not path.exists()
        try:
            yield
        except Exception:
            if new:
                remove_unused(path, made)
            raise

    def open(self, signer: Signer | None = None) -> Store:
        """The store, for writing."""
        if self.new:
            note(ANEW)
        return open_store(
            self.store,
            key_file=self.key_file,
            wait=self.wait,
            witness=False if self.no_witness else self.witness,
            charge_lost=self.charge_lost,
            new_witness=self.new_witness,
            new=self.new,
            signer=signer,
        )


@contextmanager
def opened(
    where: StoreOptions,
    clock: ClockOptions,
    begin: str,
    *,
    domain: Domain,
    epsilon: str,
    budget: Ledger | Converging,
    mechanism: Mechanism[object],
    compression: Keyed | None = None,
    accumulate: PrefixTree | None = None,
    separate: bool = False,
    change: Change = False,
    signer: Signer | None = None,
    engine: BucketEngine | None = None,
    dry: bool = False,
) -> Iterator[Stream]:
    """The stream in its store; a new one begins at `begin`, one that is there goes on where it stopped.

    Options that no stream takes are refused before a new store is made, and a new one is taken back if the command
    fails before it is used. With `dry` there is no store but one in memory,
    which is thrown away.
    """
    slots = clock.slots
    slots.boundary(begin, "--from")
    domain.encode({part: [] for part in domain.parts} if isinstance(domain, Product) else [])  # or its key is missing
    where.check()

    def made(store: Store, start: str | datetime | None, engine: BucketEngine | None = None) -> Stream:
        return Stream(
            domain=domain,
            epsilon=epsilon,
            slot=clock.slot,
            origin=clock.origin,
            zone=clock.zone,
            lateness=clock.lateness,
            start=start,
            budget=budget,
            mechanism=mechanism,
            compression=normalise if compression is None else compression(store.key),
            accumulate=accumulate,
            store=store,
            name=where.name,
            separate=separate,
            change=change,
            signer=signer,
            engine=engine,
        )

    if dry:
        yield made(MemoryStore(), begin)
        return
    if not store_exists(where.store):
        made(MemoryStore(), begin)
    with where.new_or_nothing(), where.open(signer) as store:
        known = store.streams().get(where.name)
        begun = None if known is None else DeclaredOptions.from_text(known).start
        yield made(store, begin if known is None else None if begun is None else slots.start(begun), engine)


def first_slot(stream: Stream, slots: Slots, first: int) -> int:
    """The slot to go on with; refuses a period that would leave out a slot, for every slot is released."""
    following = stream.next_slot
    if first > following:
        raise OptionError(
            f"every slot is released: the next one begins at {slots.start(following).isoformat()}, so `--from` must "
            "not be after it."
        )
    begun = stream.setting.start
    oldest = begun if begun is not None else next((r.slot for r in Releases(stream.store, stream.name)), first)
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
    signals: Signals,
    bars: Bars,
    memory: int,
) -> None:
    """Release every slot from the stream's next one to before `end`, from a file's events."""
    first = stream.next_slot
    if stream.slots is None or first >= end:
        return
    slots = stream.play(events, first, end, memory=memory, progress=bars.read)
    try:
        for number, rows in slots:
            with signals.deferred():
                release = stream.release_rows(rows, slot=number)
                if out is not None:
                    out.add(release)
            bars.released(number + 1 - first)
    finally:
        slots.close()  # removes what was spilled to disk
