"""`dpi run`: events of files, of a file that grows or of a broker become releases in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

from dpi.budget import Ledger
from dpi.cli._dry_run import rehearse
from dpi.cli._outfile import OutFile
from dpi.cli.options import Config, Json
from dpi.cli.output import address, document, next_command, note, say
from dpi.cli.signals import Interrupted, Signals
from dpi.cli.streams import (
    END,
    BrokerSettings,
    EngineSettings,
    EventSettings,
    OpenedStoreSettings,
    find_first_slot,
    find_period,
    note_shared,
    play,
)
from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.reader import Releases, streams_asked
from dpi.release import Release
from dpi.report.empty_check import WARNING, looks_empty
from dpi.settings.declaration import CLOCK, EVENTS, OUTPUT, STORE, Flags, Setting
from dpi.settings.domains import DomainSettings
from dpi.settings.rules import read_size
from dpi.settings.streams import StreamSettings, StreamTerms
from dpi.sources import FileEvents, FollowedEvents
from dpi.store import store_exists
from dpi.store.spent import sentences, spent_in
from dpi.stream import Stream
from dpi.stream.live import follow as follow_stream

JUDGED = 200
"""So many releases tell whether they look like nobody."""


def run(
    domain: Annotated[DomainSettings, Flags("domain other amount")],
    terms: Annotated[StreamTerms, Flags("epsilon slot from zone lateness per-slot people season ids name")],
    columns: Annotated[EventSettings, Flags("user time value unit")],
    broker: Annotated[BrokerSettings, Flags("")],
    where: Annotated[OpenedStoreSettings, Flags("store witness")],
    engine: Annotated[EngineSettings, Flags("engine")],
    files: Annotated[
        list[str] | None,
        Setting("FILE|ADDRESS", "Files, patterns, - for stdin; or a broker, kafka://…", argument=True),
    ] = None,
    end: Annotated[str | None, END] = None,
    follow: Annotated[bool, Setting("", "Continue as the file grows; the system's clock closes slots.", CLOCK)] = False,
    dry_run: Annotated[
        bool, Setting("", "Check whether rows can be read; pay and write nothing. The output is private.", EVENTS)
    ] = False,
    change: Annotated[bool, Setting("", "Continue with other options, from a slot that has not begun.", STORE)] = False,
    out: Annotated[Path | None, Setting("FILE", "File of releases: .parquet, .ndjson or .jsonl.", OUTPUT)] = None,
    memory: Annotated[str, Setting("SIZE", "Memory for events.", OUTPUT, flag=False)] = "1GiB",
    json: Json = False,
    config: Config = None,
) -> None:
    """Release every slot of a public period from files of events, or continue after the last released slot.

    The store remembers every user's account, so that running again, or running another stream, keeps the one ε. Rows
    that cannot be read are dropped, each by itself. More options, such as policy, quota, period, converging, mechanism
    or compression, are set in dpi.toml, or by --config KEY=VALUE: docs/cli.md lists them.

    Examples:
      dpi run visits.parquet --user user --time at --value country
          --domain countries.txt --slot 1h --from 2026-01-01 --to 2026-02-01
          --epsilon 1 --store visits.db --out releases.parquet
      dpi run orders.csv --amount revenue --slot 1d --from 2026-01-01
          --to 2026-02-01 --epsilon 1 --store orders.db
      dpi run log.ndjson --follow --from 2026-01-01 --domain pages.json
          --slot 1m --lateness 10s --epsilon 1 --store live.db --out live.ndjson
      dpi run kafka://localhost:9092/visits --from 2026-01-01
          --domain pages.json --slot 1m --lateness 10s --epsilon 1 --store live.db
      dpi run postgresql://db/shop --config table=orders …
      dpi run --config dpi.toml --dry-run
      dpi run --config dpi.toml --config converging=zeta:2
    """
    if dry_run and json:
        raise OptionError("`--dry-run` prints private lines for a person, on standard error: leave out `--json`.")
    named = files or []
    meant = _read_domain(domain, named)
    events = _open_events(named, meant, domain.amount, columns, broker)
    tried = _check_dry_run(events) if dry_run else None
    follow = follow or not isinstance(events, FileEvents)
    begin = _check_period(terms.begin, end, follow)
    held, store = read_size(memory, "memory"), where.place
    signer, settings, slots = where.signer, StreamSettings(domain=meant, **vars(terms)), terms.slots
    first, last = find_period(slots, begin, end)
    file = None if out is None else _check_out(OutFile(out, terms.name, slots, first, last), store, follow)
    where.check()
    if tried is not None:
        _rehearse(tried, settings, first, last)
        return
    if not store_exists(store):
        settings.make_options().resolved({})  # refused before there is a store
    begun = change and (follow or "next")  # a file gives its slots whole
    with Signals() as signals, engine.open() as driven, where.open(signer) as opened:
        new = terms.name not in opened.streams()
        if new:
            note_shared(opened, settings.make_options(opened.key).ledger)
        stream = settings.open(opened, change=begun, signer=signer, engine=driven)
        following = find_first_slot(stream, slots, first)
        if following > first and not json:
            note(f"{following - first} slots of the period are released already; going on after them.")
        with nullcontext() if file is None else file.open(opened) as hand, _counting(stream, following):
            if last is not None and not follow and isinstance(events, FileEvents):
                play(stream, events, last, signals, hand, held)
            else:
                _follow(stream, events, None if last is None else slots.start(last), hand, signals)
        _summarise(stream, following, store, out, json, new=new)


def _read_domain(settings: DomainSettings, named: Sequence[str]) -> Domain:
    """Return the domain that is asked for; a hashed part whose key is missing is refused here."""
    domain = settings.read([] if any("://" in name for name in named) else named)
    domain.encode({part: [] for part in domain.parts} if isinstance(domain, Product) else [])
    return domain


def _open_events(
    named: Sequence[str], domain: Domain, amount: str | None, columns: EventSettings, broker: BrokerSettings
) -> FollowedEvents:
    """Return the events of a broker, or those of files."""
    if amount is not None:
        if columns.value is not None:
            raise OptionError(
                "`amount` names the column that is summed: leave out `value`.", options=("value", "amount")
            )
        columns = replace(columns, value=[amount])
    return broker.open(columns, named, domain) or columns.open(named, domain)


def _check_dry_run(events: FollowedEvents) -> FileEvents:
    """Return the events of files, which alone can be read without being followed."""
    if not isinstance(events, FileEvents):
        raise OptionError("`--dry-run` is for files: a broker is followed.")
    return events


def _rehearse(events: FileEvents, settings: StreamSettings, first: int, last: int | None) -> None:
    """Say which rows of files can be read, and what budget the stream would have."""
    options = settings.make_options().resolved({})
    with Signals():
        rehearse(events, settings.domain, settings.slots, first, last, options.ids)
    note(f"budget, unless the store's ledger has another policy: {options.budget!r}.")


def _check_period(begin: str | None, end: str | None, follow: bool) -> str:
    """Return the beginning, where the period is given."""
    if begin is None or (end is None and not follow):
        raise OptionError(
            "the period is public and never read off the data: give `--from` and `--to`, for example --from 2026-01-01 "
            "--to 2026-02-01 (with `--follow`, `--to` may be left out)."
        )
    return begin


def _check_out(file: OutFile, store: str, follow: bool) -> OutFile:
    """Return a file of releases that can be written beside the store."""
    file.check_at(store, grows=follow)
    return file


@contextmanager
def _counting(stream: Stream, first: int) -> Iterator[None]:
    """Say how many slots were released, from the first one on, if the run is stopped."""
    try:
        yield
    except Interrupted as stop:
        text = f"stopped after {stream.next_slot - first} slots; the same command goes on where it stopped."
        raise Interrupted(stop.number, text) from None


def _follow(
    stream: Stream,
    events: FollowedEvents,
    end: datetime | None,
    hand: Callable[[Release], None] | None,
    signals: Signals,
) -> None:
    """Keep events as they arrive, and release slots as the clock closes them, up to `end`."""
    with closing(follow_stream(stream, events, end=end, whole=signals.deferred, tell=note)) as releases:
        for release in releases:
            if hand is not None:
                hand(release)


def _lasting(stream: Stream) -> list[str]:
    """Say for how many slots an account pays, where it runs out."""
    slots = stream.budget.lasts(stream.epsilon) if isinstance(stream.budget, Ledger) else None
    if slots is None:
        return []
    long = "1 slot" if slots == 1 else f"{slots:,} slots"
    return [f"An account pays for {long} of its user. Releases after these describe users who can still pay."]


def _summarise(stream: Stream, following: int, store: str, out: Path | None, json: bool, *, new: bool) -> None:
    """Say what was released and, of a new stream, what is promised: public facts only, made from releases."""
    stored = Releases(stream.store, stream.name)
    newest = stored.newest if len(stored) else None
    released = 0 if newest is None else max(newest.slot + 1 - following, 0)
    end = following + released
    empty = released > 0 and looks_empty(stored.between(max(following, end - JUDGED), end))
    if json:
        document(
            {
                "store": address(store),
                "stream": stream.name,
                "released": released,
                "last_slot": None if newest is None else newest.slot,
                "last_start": None if newest is None else newest.start_text,
                "epsilon_spent": 0.0 if newest is None else newest.epsilon_spent,
                "payers": newest is not None and newest.payers,
                "budget": repr(stream.budget),
                "looks_empty": empty,
                "guarantee": stream.guarantee,
                "out": None if out is None else str(out),
            }
        )
        return
    say(f"{released} slots released." if newest is None else f"{released} slots released, up to {newest.start_text}.")
    if newest is not None:
        best = ", ".join(f"{label} {share:.3f}" for label, share in newest.top(3))
        say(f"Most frequent in the last one: {best}.")
        say(sentences(newest.epsilon_spent, spent_in(stream.store), len(stream.store.streams())))
        if newest.scope is not None:
            say(newest.scope)
    say(f"Budget: {stream.budget!r}.", *([*_lasting(stream), stream.guarantee] if new else []))
    if out is not None:
        say(f"Releases: {out}")
    if empty:
        say(f"{WARNING} The curator can check with `dpi run … --dry-run`.")
    named = ("--stream", stream.name) if len(streams_asked(stream.store)) > 1 else ()
    say(*next_command(store, "report", store, *named))
