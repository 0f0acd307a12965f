"""`dpi domain`: a domain file, from public lists and numbers, or from values that are discovered privately.

What a discovery prints and writes is made of what was released. Sees files of events on their way into a stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.cli._errors import FOUND, Failure, check_folder
from dpi.cli.options import Config, Json
from dpi.cli.output import answer, document, next_command, note, number, say, table
from dpi.cli.signals import Interrupted, Signals
from dpi.cli.streams import END, EventSettings, OpenedStoreSettings, find_first_slot, find_period, note_shared, play
from dpi.discovery import Discovery
from dpi.domain import Bins, Categories, Domain, Hashed, Product, Texts
from dpi.domain import file as domain_file
from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.events.slots import Slots
from dpi.settings.declaration import EVENTS, PRIVACY, STORE, Flags, Setting
from dpi.settings.domains import DOMAIN_KEY, domain_keys, read_key
from dpi.settings.streams import BEGIN, ORIGIN, SLOT, ZONE
from dpi.store import MemoryStore, Store, store_exists

MOST_BINS = 1 << 20
SHOWN = 20
"""Values that are printed; the file has all."""


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings:
    """What is looked for, when, and what it may cost."""

    epsilon: Annotated[str | None, Setting("NUMBER", "ε per user, for the whole store.", PRIVACY)] = None
    slot: Annotated[str | None, SLOT] = None
    begin: Annotated[str | None, BEGIN] = None
    end: Annotated[str | None, END] = None
    zone: Annotated[str, ZONE] = "UTC"
    origin: Annotated[str, ORIGIN] = "1970-01-01"
    name: Annotated[str, Setting("NAME", "Name of the discovery in the store.", STORE)] = "discovery"
    quota: Annotated[str, Setting("PART", "Part of ε for the discovery.", PRIVACY)] = "0.2"
    slots: Annotated[int, Setting("N", "Number of slots in which a user takes part.", PRIVACY)] = 1
    failure: Annotated[str, Setting("NUMBER", "Mean number of false values per slot, at most.", PRIVACY)] = "0.001"
    most: Annotated[int, Setting("N", "Largest number of values that a slot shows.", PRIVACY)] = 1024
    length: Annotated[int, Setting("BYTES", "Longest value, in bytes.", EVENTS)] = 32
    alphabet: Annotated[str, Setting("NAME", "Characters of values: text, ascii, digits.", EVENTS)] = "text"
    characters: Annotated[str | None, Setting("TEXT", "Instead of the alphabet: these characters.", EVENTS)] = None

    @property
    def texts(self) -> Texts:
        """The universe of values."""
        return Texts(self.length, self.alphabet, characters=self.characters)

    @property
    def clock(self) -> Slots:
        """The public clock."""
        return Slots(str(self.slot), origin=self.origin, zone=self.zone)

    def open(self, store: Store, signer: Signer | None) -> Discovery:
        """Return the discovery in a store: a new one begins at `from`, one that is there goes on where it stopped."""
        known = store.streams().get(self.name)
        begun = None if known is None else DeclaredOptions.from_text(known).start
        return Discovery(
            texts=self.texts,
            epsilon=str(self.epsilon),
            store=store,
            quota=self.quota,
            slots=self.slots,
            failure=self.failure,
            most=self.most,
            slot=self.slot,
            origin=self.origin,
            zone=self.zone,
            start=self.begin if known is None else None if begun is None else self.clock.start(begun),
            name=self.name,
            signer=signer,
        )


def domain(
    columns: Annotated[EventSettings, Flags("time value")],
    looked: Annotated[DiscoverySettings, Flags("epsilon slot from to")],
    where: Annotated[OpenedStoreSettings, Flags("store key-file")],
    values: Annotated[
        list[str] | None, Setting("VALUE", "The values; with --discover, files of events.", argument=True)
    ] = None,
    lists: Annotated[
        list[Path] | None, Setting("FILE", "A public list with one value a line. May be repeated.", name="list")
    ] = None,
    out: Annotated[Path, Setting("FILE", "The domain file.", short="-o")] = Path("domain.json"),
    other: Annotated[str, Setting("NAME", "Name of the bin for values that are not listed.")] = "other",
    no_other: Annotated[bool, Setting("", "Drop values that are not listed.", flag=False)] = False,
    as_values: Annotated[
        bool, Setting("", "Accept lists with lines that look like records of data.", flag=False)
    ] = False,
    bins: Annotated[str | None, Setting("EDGES", "Ordered bins: 0,10,100 or 0:100:10 (from:to:step).")] = None,
    hashed: Annotated[
        int | None, Setting("N", "N hashed buckets for values that cannot be listed; needs --key-file.")
    ] = None,
    product: Annotated[
        list[str] | None, Setting("PART=FILE", "Combinations of domain files. Repeat it for each part.")
    ] = None,
    domain_key: Annotated[list[Path] | None, replace(DOMAIN_KEY, flag=False)] = None,
    discover: Annotated[bool, Setting("", "Find frequent values in events; users pay from their accounts.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write a domain file. A domain is public: make it from a public list, or discover it; never copy it from events.

    Examples:
      dpi domain DE FR IT --other elsewhere -o countries.json
      dpi domain --list iso-3166.txt -o countries.json
      dpi domain --bins 0:100:10 -o ages.json
      dpi domain --hashed 4096 --key-file urls.key -o urls.json
      dpi domain --product country=countries.json --product age=ages.json -o pairs.json
      dpi domain --discover visits.parquet --value page --slot week --from 2026-01-05
          --to 2026-01-12 --epsilon 1 --config quota=0.2 --store visits.db -o pages.json
    """
    kinds = [bool(values or lists) and not discover, bins is not None, hashed is not None, bool(product), discover]
    if sum(kinds) != 1 or (discover and lists):
        raise OptionError("give either values or `--list`, or `--bins`, `--hashed`, `--product` or `--discover`.")
    _check_files(where, out, hashed=hashed is not None, discover=discover)
    check_folder(out, "--out")
    rest = None if no_other else other
    if discover:
        _discover(values or [], columns, looked, where, out, rest, json)
        return
    made: Domain
    if bins is not None:
        made = Bins(edges(bins))
    elif hashed is not None:
        made = _hashed(hashed, where.key_file)
    elif product:
        made = _product(product, domain_keys(domain_key))
    else:
        made = Categories(_listed(values or [], lists or [], as_values=as_values), other=rest)
    domain_file.write(out, made)
    told = {"file": str(out), "bins": made.size, "digest": made.digest}
    answer(json, told, f"{out}: {made}, {made.size:,} bins.")


def edges(text: str) -> list[float]:
    """Return the edges of bins.

    >>> edges("0,10,100"), edges("0:1:0.25")
    ([0.0, 10.0, 100.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    try:
        if ":" not in text:
            return [float(edge) for edge in text.split(",")]
        low, high, step = (float(number) for number in text.split(":"))
        count = math.floor((high - low) / step + 1e-9)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise OptionError(
            f"`--bins` must be edges such as 0,10,100, or from:to:step such as 0:100:10. Got {text!r}."
        ) from None
    if not (0 < count <= MOST_BINS and step > 0):
        raise OptionError(f"`--bins` must have a step above 0, and at most 2^20 bins. Got {text!r}.")
    return [low + index * step for index in range(count + 1)]


def _check_files(where: OpenedStoreSettings, out: Path, *, hashed: bool, discover: bool) -> None:
    """Refuse files that this kind of domain has no use for, and a name that no domain file has."""
    if where.key_file is not None and not hashed and not discover:
        raise OptionError("`--key-file` is for `--hashed` and `--discover`.")
    if where.store is not None and not discover:
        raise OptionError("`--store` is for `--discover`: any other domain is made of public things alone.")
    if out.suffix != ".json":
        raise OptionError(f"`--out` must end in .json: other files are read as lists of values. Got {str(out)!r}.")


def _hashed(buckets: int, key_file: Path | None) -> Hashed:
    """Return a domain of hashed buckets, with the key of the file; made if there is none."""
    if key_file is None:
        raise OptionError("`--hashed` needs `--key-file`, where the key of the buckets is kept.")
    Hashed(buckets, bytes(KEY_BYTES))  # refuses a number of buckets before a key is made
    return Hashed(buckets, read_key(key_file, make=True))


def _listed(values: Sequence[str], lists: Sequence[Path], *, as_values: bool) -> list[str]:
    """Return the values and those of the lists, each of which stands once."""
    read = [value for path in lists for value in domain_file.read_list(path, as_values=as_values)]
    if len({*read, *values}) < len(read) + len({*values}):
        raise OptionError("every value must be listed once: one stands in two lists, or in a list and as VALUE.")
    return [*values, *read]


def _product(texts: list[str], keys: dict[str, bytes]) -> Product:
    parts: dict[str, Domain] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path or name in parts:
            raise OptionError("`--product` must be PART=FILE, each part once, for example country=countries.json.")
        parts[name] = domain_file.read(path, keys=keys)
    return Product(**parts)


def _discover(
    files: Sequence[str],
    columns: EventSettings,
    looked: DiscoverySettings,
    where: OpenedStoreSettings,
    out: Path,
    other: str | None,
    json: bool,
) -> None:
    """Look at every slot of the period that was not looked at yet, and write a domain of all that was found so far."""
    if where.store is None or looked.epsilon is None:
        raise OptionError(
            "discovery is paid from the accounts that later releases are paid from: give `--store` and `--epsilon`, "
            "those of the `dpi run` that will use the values."
        )
    if looked.slot is None or looked.begin is None or looked.end is None:
        raise OptionError(
            "the period is public and never read off the data: give `--slot`, `--from` and `--to`, for example --slot "
            "week --from 2026-01-05 --to 2026-01-12."
        )
    if not files:
        raise OptionError("name the files of events.")
    first, last = find_period(looked.clock, looked.begin, looked.end)
    assert last is not None  # noqa: S101 - the period has an end
    domain_file.check_replaceable(out)
    signer = where.signer
    events = columns.open(files, looked.texts)
    where.check()
    if not store_exists(where.place):
        looked.open(MemoryStore(), None)  # refuses options before a store is made
    with Signals() as signals, where.open(signer) as store:
        if looked.name not in store.streams():
            note_shared(store, "")
        discovery = looked.open(store, signer)
        following = find_first_slot(discovery.stream, looked.clock, first)
        if following > first and not json:
            note(f"{min(following, last) - first} slots of the period were searched already; they cost nothing now.")
        try:
            play(discovery.stream, events, last, signals)
        except Interrupted as stop:
            text = f"stopped after {discovery.stream.next_slot - following} slots; the same command goes on there."
            raise Interrupted(stop.number, text) from None
        _tell(discovery, next_command(where.place, *_run(files, columns, where, looked, out)), out, other, json)


def _run(
    files: Sequence[str], columns: EventSettings, where: OpenedStoreSettings, looked: DiscoverySettings, out: Path
) -> list[str]:
    """Return the `run` of the same events that uses the domain, with all that was said of them, clock and store."""
    flags = {
        "--user": columns.user, "--time": columns.time, "--value": columns.value[0] if columns.value else None,
        "--unit": columns.unit, "--domain": out, "--slot": looked.slot, "--zone": looked.zone, "--from": looked.begin,
        "--to": looked.end, "--epsilon": looked.epsilon, "--store": where.store, "--witness": where.witness,
    }  # fmt: skip
    keys = {
        "format": columns.format, "separator": columns.separator, "columns": columns.columns, "origin": looked.origin,
        "key-file": where.key_file, "sign": where.sign,
    }  # fmt: skip
    told = [word for flag, part in flags.items() if part is not None for word in (flag, str(part))]
    return [
        "run",
        *files,
        *told,
        *(w for key, part in keys.items() if part is not None for w in ("--config", f"{key}={part}")),
    ]


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _tell(discovery: Discovery, following: Sequence[str], out: Path, other: str | None, json: bool) -> None:
    """Write the domain, and say what was found: made of releases alone."""
    values, needed = discovery.found, discovery.thresholds
    if values.users.keys() <= {other}:
        raise Failure(
            f"no value was found, and no domain is written: with {number(discovery.cost)} of ε for a slot, a value of "
            f"{_bytes(min(needed))} needs about {number(min(needed.values()))} users in it, one of "
            f"{_bytes(max(needed))} {number(max(needed.values()))}. Take longer slots, more users, a larger `quota` or "
            "a shorter `length`, under another `name` and never with a new store: users pay from what they have left.",
            FOUND,
        )
    made = values.domain(other)
    domain_file.write(out, made)
    if json:
        document(
            {
                "file": str(out),
                "bins": made.size,
                "digest": made.digest,
                "users": dict(values.users),
                "failure": values.failure,
                "failure_of": "one slot",
                "epsilon": discovery.cost,
                "thresholds": {str(length): users for length, users in needed.items()},
                "guarantee": discovery.stream.guarantee,
            }
        )
        return
    largest = sorted(values.users.items(), key=lambda pair: -pair[1])
    table(("value", "users"), [(value, number(users)) for value, users in largest[:SHOWN]])
    if len(largest) > SHOWN:
        say(f"… and {len(largest) - SHOWN:,} more.")
    say(
        f"{out}: {made}, {made.size:,} bins.",
        f"Numbers of users have noise of ± {number(1 / discovery.cost)}; numbers close to the threshold are too "
        f"high on average. On average, at most {values.failure:g} values of a slot have no user.",
        discovery.stream.guarantee,
        *following,
    )
