"""Events, stores, engines and streams as a command line names them: what `run`, `demo` and `domain` share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

from dpi._version import load_plugin
from dpi.certificates.declared import declared, name_stream, told_until
from dpi.certificates.signature import Signer
from dpi.cli._errors import check_folder
from dpi.cli.output import note
from dpi.cli.signals import Signals
from dpi.display.progress import Meter
from dpi.domain import Domain, Product
from dpi.engine import BucketEngine, local, pool
from dpi.errors import OptionError, meant
from dpi.events.slots import Slots
from dpi.reader import Releases
from dpi.release import Release
from dpi.settings.declaration import EVENTS, STORE, Setting
from dpi.settings.streams import StoreSettings
from dpi.sources import FileEvents, FollowedEvents, TableEvents, broker, read
from dpi.store import Store, open_store
from dpi.store.opening import remove_unused, witness_beside
from dpi.stream import Stream

ANEW = (
    "a new store begins. Every user has all of ε once more: what an earlier store has published about the same users "
    "adds to it."
)
END = Setting("TIME", "End of the public period.", "Period and clock", name="to")


@dataclass(frozen=True, kw_only=True)
class EventSettings:
    """Which columns are what, and how lines are read."""

    user: Annotated[str, Setting("COLUMN", "Column of user ids: integers or texts.", EVENTS)] = "user"
    time: Annotated[str, Setting("COLUMN", "Column of times: ISO 8601, or numbers with --unit.", EVENTS)] = "time"
    value: Annotated[
        list[str] | None,
        Setting("COLUMN", "Column of values (value), or PART=COLUMN for each part of a product.", EVENTS),
    ] = None
    unit: Annotated[str | None, Setting("UNIT", "Unit of times that are numbers: s, ms, us, ns.", EVENTS)] = None
    arrived: Annotated[
        str | None, Setting("COLUMN", "Column with the time at which an event was received.", EVENTS)
    ] = None
    format: Annotated[str | None, Setting("FORMAT", "Format of the files: csv, ndjson, parquet or arrow.", EVENTS)] = (
        None
    )
    separator: Annotated[str | None, Setting("CHARACTER", r"Separator of CSV; \t is a tab.", EVENTS)] = None
    columns: Annotated[
        str | None, Setting("NAME,…", "Names of the columns of a CSV file without a header, in order.", EVENTS)
    ] = None

    def open(self, files: Sequence[str], domain: Domain) -> FileEvents:
        """Return the events of files."""
        return read(
            files,
            user=self.user,
            time=self.time,
            value=self.columns_of(domain),
            arrived=self.arrived,
            unit=self.unit,
            format=self.format,
            separator="\t" if self.separator == r"\t" else self.separator,  # a shell has no easy tab
            columns=None if self.columns is None else self.columns.split(","),
        )

    def columns_of(self, domain: Domain) -> str | dict[str, str]:
        """Return the column of values, or that of each part of a product."""
        said = self.value or []
        if not isinstance(domain, Product):
            if len(said) > 1:
                raise OptionError("`value` may be repeated for a product domain alone.")
            return said[0] if said else "value"
        named = dict(text.partition("=")[::2] for text in said)
        if named.keys() != domain.parts.keys() or not all(named.values()):
            wanted = " ".join(f"--value {part}=COLUMN" for part in domain.parts)
            raise OptionError(f"a product domain needs a column for each part: {wanted}.")
        return named


@dataclass(frozen=True, kw_only=True)
class BrokerSettings:
    """What the address of a broker does not say."""

    table: Annotated[str | None, Setting("NAME", "Table of a database, to which rows are only added.", EVENTS)] = None
    id: Annotated[str | None, Setting("COLUMN", "Increasing column of that table (id).", EVENTS)] = None
    password_file: Annotated[
        Path | None, Setting("FILE", "File with the broker's password; or DPI_BROKER_PASSWORD.", EVENTS)
    ] = None

    def open(self, columns: EventSettings, named: Sequence[str], domain: Domain) -> FollowedEvents | None:
        """Return the events of the broker that one of the names is the address of; None if they name files."""
        options = ("table", "id", "password_file")
        if not any("://" in name for name in named):
            if self.table or self.id or self.password_file:
                raise OptionError("`table`, `id` and `password_file` are for a broker.", options=options)
            if not named:
                raise OptionError("name the files of events, or the address of a broker.")
            return None
        if len(named) > 1:
            raise OptionError("events come from files or from one broker: leave out the others.")
        if columns.format or columns.separator or columns.columns:
            raise OptionError(
                "`format`, `separator` and `columns` are for files: messages are JSON.",
                options=("format", "separator", "columns"),
            )
        return broker(
            named[0],
            user=columns.user,
            time=columns.time,
            value=columns.columns_of(domain),
            arrived=columns.arrived,
            unit=columns.unit,
            table=self.table,
            id=self.id or "id",
            password_file=self.password_file,
        )


@dataclass(frozen=True, kw_only=True)
class OpenedStoreSettings(StoreSettings):
    """The same for a command that opens the store itself."""

    charge_lost: Annotated[bool, Setting("", "Continue from an old copy; every account is charged for it.", STORE)] = (
        False
    )
    new_witness: Annotated[
        bool, Setting("", "Begin another witness: the old one is lost, and this store is the newest.", STORE)
    ] = False
    wait: Annotated[float, Setting("SECONDS", "Seconds to wait for another process.", STORE)] = 0.0

    @property
    def signer(self) -> Signer | None:
        """What signs the chain, if anything does."""
        if self.sign is not None and not self.sign.exists():
            raise OptionError(f"there is no signing key {self.sign}: make one with `dpi keys {self.sign}`.")
        return None if self.sign is None else Signer.open(self.sign)

    def check(self) -> None:
        """Refuse files that cannot be made, before any is."""
        for option, path in (("key_file", self.key_file), ("witness", self.witness)):
            if path is not None:
                check_folder(path, option)

    @contextmanager
    def open(self, signer: Signer | None) -> Iterator[Store]:
        """Give the store, for writing.

        A store that a command makes, and never uses because it fails, is taken back with all that was made for it. An
        interruption is no failure: the same command goes on.
        """
        path = Path(self.place)
        key = path.with_name(path.name + ".key") if self.key_file is None else self.key_file
        witness = witness_beside(self.place) if self.witness is None else self.witness
        beside = [file for file in (key, witness, witness.with_name(witness.name + ".lock")) if not file.exists()]
        made = "://" not in self.place and not path.exists()
        if self.new:
            note(ANEW)
        try:
            with open_store(
                self.place,
                key_file=self.key_file,
                wait=self.wait,
                witness=False if self.no_witness else self.witness,
                charge_lost=self.charge_lost,
                new_witness=self.new_witness,
                new=self.new,
                signer=signer,
            ) as store:
                yield store
        except Exception:
            if made:
                remove_unused(path, beside)
            raise


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Who works on the accounts."""

    engine: Annotated[str | None, Setting("NAME", "Engine: local, pool (processes) or spark.", STORE)] = None
    path: Annotated[Path | None, Setting("FOLDER", "Folder of bucket files; STORE.buckets unless given.", STORE)] = None
    workers: Annotated[int | None, Setting("N", "Processes of a pool; one per core unless given.", STORE)] = None

    def open(self) -> AbstractContextManager[BucketEngine | None]:
        """Give the engine while it is needed; None if the stream has all accounts in memory."""
        for option, given in (("path", self.path), ("workers", self.workers)):
            if self.engine is None and given is not None:
                text = f"`{option}` is for an engine: give `engine` as well."
                raise OptionError(text, options=(option, "engine"))
        if self.workers is not None and self.engine != "pool":
            raise OptionError("`workers` is for the engine `pool`.")
        match self.engine:
            case None:
                return nullcontext()
            case "local":
                return local(self.path)
            case "pool":
                return pool(self.workers, self.path)
            case "spark":
                start = cast("Callable[..., BucketEngine]", load_plugin("dpi.executors", "spark", "spark"))
                return start(path=self.path)
        known = meant(self.engine, ("local", "pool", "spark"))
        raise OptionError(f"there is no engine {self.engine!r}{known}")


def note_shared(store: Store, ledger: str | None) -> None:
    """Say, before a stream with this ledger is declared, whose later releases have no newcomers because of it."""
    for name in told_until(declared(store.streams()), ledger):
        of = name_stream(name)
        note(f"later releases of {of} have no numbers of newcomers, because the new stream shares its ε.")


def find_first_slot(stream: Stream, slots: Slots, first: int) -> int:
    """Return the slot to go on with; refuse a period that would leave out a slot, for every slot is released."""
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


def find_period(slots: Slots, begin: str, end: str | None) -> tuple[int, int | None]:
    """Return the first slot of a public period, and the one after its last, if it has an end."""
    first = slots.boundary(begin, "--from")
    last = None if end is None else slots.boundary(end, "--to")
    if last is not None and last <= first:
        raise OptionError("`--to` must be after `--from`.")
    return first, last


def play(
    stream: Stream,
    events: FileEvents | TableEvents,
    end: int,
    signals: Signals,
    hand: Callable[[Release], None] | None = None,
    memory: int = 1 << 30,
) -> None:
    """Release every slot from the stream's next one to before `end` from events that are all there; hand each out."""
    first = stream.next_slot
    if first >= end:
        return
    meter = Meter(events.size, end - first)

    def released() -> Generator[None, None, None]:
        with closing(stream.play(events, first, end, memory=memory, progress=meter.read)) as slots:
            for number, rows in slots:
                with signals.deferred():
                    release = stream.release_rows(rows, slot=number)
                    if hand is not None:
                        hand(release)
                yield

    for _ in meter.watch(released()):
        pass
