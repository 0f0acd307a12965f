"""`dpi run`: events of files, of a file that grows or of a broker become releases in a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

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
from dpi.domain import Product
from dpi.errors import OptionError
from dpi.reader import Releases
from dpi.release import Release
from dpi.report.empty_check import WARNING, looks_empty
from dpi.settings.declaration import CLOCK, EVENTS, OUTPUT, STORE, Flags, Setting
from dpi.settings.domains import DomainSettings
from dpi.settings.rules import read_size
from dpi.settings.streams import StreamSettings, StreamTerms
from dpi.sources import FollowedEvents
from dpi.store import store_exists
from dpi.store.spent import sentences, spent_in
from dpi.stream import Stream
from dpi.stream.live import follow as follow_stream

JUDGED = 200
"""So many releases tell whether they look like nobody."""


def run(
    domain: Annotated[DomainSettings, Flags("domain other amount")],
    terms: Annotated[StreamTerms, Flags("epsilon slot from zone lateness per-slot season ids name")],
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
    or compression, are said in dpi.toml, or by --config KEY=VALUE: docs/options.md lists them.

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
    meant = domain.read([] if any("://" in name for name in named) else named)
    meant.encode({part: [] for part in meant.parts} if isinstance(meant, Product) else [])  # or its key is missing
    if domain.amount is not None:
        if columns.value is not None:
            raise OptionError(
                "`amount` names the column that is summed: leave out `value`.", options=("value", "amount")
            )
        columns = replace(columns, value=[domain.amount])
    live = broker.open(columns, named, meant)
    follow = follow or live is not None
    if dry_run and live is not None:
        raise OptionError("`--dry-run` is for files: a broker is followed.")
    events = columns.open(named, meant) if live is None else None
    if terms.begin is None or (end is None and not follow):
        raise OptionError(
            "the period is public and never read off the data: give `--from` and `--to`, for example --from 2026-01-01 "
            "--to 2026-02-01 (with `--follow`, `--to` may be left out)."
        )
    held, store = read_size(memory, "memory"), where.place
    signer, settings, slots = where.signer, StreamSettings(domain=meant, **vars(terms)), terms.slots
    first, last = find_period(slots, terms.begin, end)
    file = None if out is None else OutFile(out, terms.name, slots, first, last)
    if file is not None:
        file.check_at(store, grows=follow)
    where.check()
    if dry_run or not store_exists(store):
        options = settings.make_options().resolved({})
        if dry_run and events is not None:
            with Signals():
                rehearse(events, meant, slots, first, last, options.ids)
            note(f"budget, unless the store's ledger has another policy: {options.budget!r}.")
            return
    begun = change and (follow or "next")  # a file gives its slots whole
    with Signals() as signals, engine.open() as driven, where.open(signer) as opened:
        new = terms.name not in opened.streams()
        if new:
            note_shared(opened, settings.make_options(opened.key).ledger)
        stream = settings.open(opened, change=begun, signer=signer, engine=driven)
        following = find_first_slot(stream, slots, first)
        if following > first and not json:
            note(f"{following - first} slots of the period are released already; going on after them.")
        with nullcontext() if file is None else file.open(opened) as hand:
            try:
                source = live or events
                if follow and source is not None:
                    _follow(stream, source, None if last is None else slots.start(last), hand, signals)
                elif events is not None and last is not None:
                    play(stream, events, last, signals, hand, held)
            except Interrupted as stop:
                text = f"stopped after {stream.next_slot - following} slots; the same command goes on where it stopped."
                raise Interrupted(stop.number, text) from None
        _summarise(stream, following, store, out, json, new=new)


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
    say(f"Budget: {stream.budget!r}.", *([stream.guarantee] if new else []))
    if out is not None:
        say(f"Releases: {out}")
    if empty:
        say(f"{WARNING} The curator can check with `dpi run … --dry-run`.")
    named = ("--stream", stream.name) if len(stream.store.streams()) > 1 else ()
    say(*next_command(store, "report", store, *named))
