"""`domain --discover`: values of events that many users have, found privately, as a domain file.

What it prints and writes is made of what was released. Sees files of events on their way into a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpi.certificates.declared import DeclaredOptions
from dpi.certificates.signature import Signer
from dpi.cli.ending import FOUND, fail
from dpi.cli.output import document, next_command, note, number, say, table
from dpi.cli.progress import Bars
from dpi.cli.reading import EventOptions
from dpi.cli.signals import Interrupted, Signals
from dpi.cli.streaming import ClockOptions, StoreOptions, first_slot, play
from dpi.discovery import Discovery
from dpi.domain import Texts
from dpi.domain import file as domain_file
from dpi.errors import OptionError
from dpi.store import MemoryStore, Store, store_exists

SHOWN = 20
"""Values that are printed; the file has all."""
MEMORY = 1 << 30


@dataclass(frozen=True)
class DiscoveryOptions:
    """What is looked for, and what it may cost."""

    store: str | None
    epsilon: str | None
    quota: str
    slots: int
    failure: str
    most: int
    length: int
    alphabet: str
    characters: str | None

    @property
    def texts(self) -> Texts:
        """The universe of values."""
        return Texts(self.length, self.alphabet, characters=self.characters)

    def open(self, clock: ClockOptions, store: Store, name: str, begin: str, signer: Signer | None) -> Discovery:
        """The discovery in a store: a new one begins at `begin`, one that is there goes on where it stopped."""
        known = store.streams().get(name)
        begun = None if known is None else DeclaredOptions.from_text(known).start
        return Discovery(
            texts=self.texts,
            epsilon=str(self.epsilon),
            store=store,
            quota=self.quota,
            slots=self.slots,
            failure=self.failure,
            most=self.most,
            slot=clock.slot,
            origin=clock.origin,
            zone=clock.zone,
            start=begin if known is None else None if begun is None else clock.slots.start(begun),
            name=name,
            signer=signer,
        )


def discover(
    files: Sequence[str],
    said: EventOptions,
    options: DiscoveryOptions,
    where: StoreOptions,
    clock: ClockOptions | None,
    period: tuple[str | None, str | None],
    sign: Path | None,
    out: Path,
    other: str | None,
    json: bool,
) -> None:
    """Look at every slot of the period that was not looked at yet, and write a domain of all that was found so far."""
    begin, end = period
    if options.store is None or options.epsilon is None:
        raise OptionError(
            "discovery is paid from the accounts that later releases are paid from: give `--store` and `--epsilon`, "
            "those of the `dpi run` that will use the values."
        )
    if clock is None or begin is None or end is None:
        raise OptionError(
            "the period is public and never read off the data: give `--slot`, `--from` and `--to`, for example --slot "
            "week --from 2026-01-05 --to 2026-01-12."
        )
    if not files:
        raise OptionError("name the files of events.")
    first, last = clock.slots.boundary(begin, "--from"), clock.slots.boundary(end, "--to")
    if last <= first:
        raise OptionError("`--to` must be after `--from`.")
    domain_file.check_replaceable(out)
    if sign is not None and not sign.exists():
        raise OptionError(f"there is no signing key {sign}: make one with `dpi keys {sign}`.")
    signer = None if sign is None else Signer.open(sign)
    events = said.open(files, options.texts)
    where.check()
    if not store_exists(where.store):
        options.open(clock, MemoryStore(), where.name, begin, None)  # refuses options before a store is made
    with Signals() as signals, where.new_or_nothing(), where.open(signer) as store:
        discovery = options.open(clock, store, where.name, begin, signer)
        following = first_slot(discovery.stream, clock.slots, first)
        if following > first and not json:
            note(f"{min(following, last) - first} slots of the period were looked at already; nobody pays again.")
        try:
            with Bars(events.size, max(last - following, 0)) as bars:
                play(discovery.stream, events, last, None, signals, bars, MEMORY)
        except Interrupted as stop:
            text = f"stopped after {discovery.stream.next_slot - following} slots; the same command goes on there."
            raise Interrupted(stop.number, text) from None
        following_run = _run(files, said, where, clock, (begin, end), sign, out, options.epsilon)
        _tell(discovery, next_command(where.store, *following_run), out, other, json)


def _run(
    files: Sequence[str],
    said: EventOptions,
    where: StoreOptions,
    clock: ClockOptions,
    period: tuple[str, str],
    sign: Path | None,
    out: Path,
    epsilon: str,
) -> list[str]:
    """The `run` of the same events that uses the domain, with all that was said of them, their clock and the store."""
    told: dict[str, object] = {
        "--user": said.user, "--time": said.time, "--value": said.value[0] if said.value else None, "--unit": said.unit,
        "--format": said.format, "--separator": said.separator, "--columns": said.columns, "--domain": out,
        "--slot": clock.slot, "--zone": clock.zone, "--origin": clock.origin, "--from": period[0], "--to": period[1],
        "--epsilon": epsilon, "--store": where.store, "--key-file": where.key_file, "--witness": where.witness,
        "--sign": sign,
    }  # fmt: skip
    return ["run", *files, *(word for flag, part in told.items() if part is not None for word in (flag, str(part)))]


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _tell(discovery: Discovery, following: Sequence[str], out: Path, other: str | None, json: bool) -> None:
    """Write the domain, and say what was found: made of releases alone."""
    found, needed = discovery.found, discovery.thresholds
    if found.users.keys() <= {other}:
        fail(
            f"no value was found, and no domain is written: a slot has {number(discovery.cost)} of ε, so a value of "
            f"{_bytes(min(needed))} must have about {number(min(needed.values()))} users in it, one of "
            f"{_bytes(max(needed))} {number(max(needed.values()))}. Look over longer slots, at more users, with a "
            "larger `--quota` or a shorter `--length`: with another `--name` and so a quota of its own, which the same "
            "users pay out of what they have left, and never with a new store.",
            FOUND,
        )
    made = found.domain(other)
    domain_file.write(out, made)
    if json:
        document(
            {
                "file": str(out),
                "bins": made.size,
                "digest": made.digest,
                "users": dict(found.users),
                "failure": found.failure,
                "failure_of": "one slot",
                "epsilon": discovery.cost,
                "thresholds": {str(length): users for length, users in needed.items()},
                "guarantee": discovery.stream.guarantee,
            }
        )
        return
    largest = sorted(found.users.items(), key=lambda pair: -pair[1])
    table(("value", "users"), [(value, number(users)) for value, users in largest[:SHOWN]])
    if len(largest) > SHOWN:
        say(f"… and {len(largest) - SHOWN:,} more.")
    say(
        f"{out}: {made}, {made.size:,} bins.",
        f"Numbers of users have noise of ± {number(1 / discovery.cost)}; those that just passed are too high on "
        f"average. Of the values of one slot at most {found.failure:g}, on average, are nobody's.",
        discovery.stream.guarantee,
        *following,
    )
