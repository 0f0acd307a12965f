"""`dpi run`: events of files, of a file that grows or of a broker become releases in a store."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.signature import Signer
from dpi.cli import engines
from dpi.cli.config import Config
from dpi.cli.dry_run import rehearse
from dpi.cli.following import follow as follow_file
from dpi.cli.options import (
    BUDGET,
    CLOCK,
    EVENTS,
    OUTPUT,
    STORE,
    Begin,
    Broker,
    BucketPath,
    Columns,
    DomainKeys,
    Format,
    Id,
    Json,
    KeyFile,
    NewStore,
    NoWitness,
    Origin,
    Other,
    PasswordFile,
    Separator,
    SigningKey,
    Table,
    Time,
    Unit,
    User,
    Value,
    WitnessFile,
    Zone,
)
from dpi.cli.outfile import OutFile, check
from dpi.cli.output import note
from dpi.cli.progress import Bars
from dpi.cli.reading import BrokerOptions, EventOptions
from dpi.cli.replacing import Replacing
from dpi.cli.signals import Interrupted, Signals
from dpi.cli.streaming import ClockOptions, StoreOptions, first_slot, opened, play
from dpi.cli.summary import summary
from dpi.errors import OptionError
from dpi.reader import Releases
from dpi.settings import budgets, compressions
from dpi.settings.domains import read_domain


def run(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", show_default=False, help="Parquet, Arrow, CSV, NDJSON; patterns; - for stdin."
        ),
    ] = None,
    *,
    domain: Annotated[
        Path, typer.Option("--domain", metavar="FILE", rich_help_panel=EVENTS, help="Values, one a line, or JSON.")
    ],
    epsilon: Annotated[
        str, typer.Option("--epsilon", metavar="NUMBER", rich_help_panel=BUDGET, help="ε per user, for ever.")
    ],
    slot: Annotated[
        str,
        typer.Option(
            "--slot",
            metavar="DURATION",
            rich_help_panel=CLOCK,
            help="Such as 1h, 1d, 1w; or day, week, month, of the calendar in --zone.",
        ),
    ],
    store: Annotated[
        str, typer.Option("--store", metavar="STORE", rich_help_panel=STORE, help="A path, or postgresql://…")
    ],
    from_broker: Broker = None,
    table: Table = None,
    id_column: Id = None,
    password_file: PasswordFile = None,
    user: User = "user",
    time: Time = "time",
    value: Value = None,
    unit: Unit = None,
    arrived: Annotated[
        str | None,
        typer.Option(
            "--arrived",
            metavar="COLUMN",
            rich_help_panel=EVENTS,
            help="When an event was received, as recorded by whoever did; decides with --follow.",
        ),
    ] = None,
    form: Format = None,
    separator: Separator = None,
    columns: Columns = None,
    other: Other = None,
    domain_key: DomainKeys = None,
    begin: Begin = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", rich_help_panel=CLOCK, help="End of it; may be left out with --follow."),
    ] = None,
    zone: Zone = "UTC",
    origin: Origin = "1970-01-01",
    lateness: Annotated[
        str,
        typer.Option(
            "--lateness", metavar="DURATION", rich_help_panel=CLOCK, help="A slot closes so long after its end."
        ),
    ] = "0s",
    follow: Annotated[
        bool, typer.Option("--follow", rich_help_panel=CLOCK, help="Go on as the file grows, by the system's clock.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=EVENTS,
            help="Read and tell the curator whether rows can be read; pay and write nothing. Private.",
        ),
    ] = False,
    per_slot: Annotated[
        str | None,
        typer.Option(
            "--per-slot",
            metavar="NUMBER",
            rich_help_panel=BUDGET,
            help="What a slot costs; chosen from the releases unless given.",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option("--slots", metavar="N", rich_help_panel=BUDGET, help="Instead: how many slots an account pays."),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="N",
            rich_help_panel=BUDGET,
            help="Spend most of it in every N-th slot; auto: in as few as the releases' drift allows.",
        ),
    ] = None,
    period: Annotated[
        int | None,
        typer.Option(
            "--period",
            metavar="N",
            rich_help_panel=BUDGET,
            help="Refill accounts every N slots: ε per epoch of N slots.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="RULE",
            rich_help_panel=BUDGET,
            help="Of accounts: auto (the default), clocked, spend-first, or less in each slot (fade, fade:zeta:2).",
        ),
    ] = None,
    quota: Annotated[
        str | None,
        typer.Option(
            "--quota",
            metavar="PART",
            rich_help_panel=BUDGET,
            help="The part of every user's ε that is for this stream alone, such as 0.25; may grow by --change.",
        ),
    ] = None,
    not_returning: Annotated[
        bool,
        typer.Option(
            "--not-returning",
            rich_help_panel=BUDGET,
            help="Nobody comes back once their account is empty; for accuracy, privacy does not rest on it.",
        ),
    ] = False,
    converging: Annotated[
        str | None,
        typer.Option(
            "--converging",
            metavar="SERIES",
            rich_help_panel=BUDGET,
            help="No accounts: log-squared, zeta:2, geometric:0.5, spence:0.1,0.1.",
        ),
    ] = None,
    draw: Annotated[
        str | None,
        typer.Option("--draw", metavar="RULE", rich_help_panel=BUDGET, help="in-order, rba:1e8, ranges:0.1,0.001."),
    ] = None,
    mechanism: Annotated[
        str, typer.Option("--mechanism", metavar="NAME", rich_help_panel=BUDGET, help="boosted or published.")
    ] = "boosted",
    season: Annotated[
        int | None,
        typer.Option(
            "--season", metavar="N", rich_help_panel=BUDGET, help="A period that is known, in slots, such as 24."
        ),
    ] = None,
    compression: Annotated[
        str,
        typer.Option(
            "--compression",
            metavar="RULE",
            rich_help_panel=BUDGET,
            help="One user in a slot: normalise, truncate:5 (at most 5 events), whole-pdf.",
        ),
    ] = "normalise",
    accumulate: Annotated[
        str,
        typer.Option(
            "--accumulate",
            metavar="RULE",
            rich_help_panel=BUDGET,
            help="The PDF of all slots: slots, or tree:0.025 (what a tree of sums costs a slot).",
        ),
    ] = "slots",
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", rich_help_panel=STORE, help="Of the stream, if the store has several."),
    ] = "",
    separate: Annotated[
        bool, typer.Option("--separate", rich_help_panel=STORE, help="An ε of its own, which adds to that of others.")
    ] = False,
    change: Annotated[
        bool,
        typer.Option(
            "--change", rich_help_panel=STORE, help="Go on with other options from a slot on that has not begun."
        ),
    ] = False,
    key_file: KeyFile = None,
    witness: WitnessFile = None,
    no_witness: NoWitness = False,
    new: NewStore = False,
    charge_lost: Annotated[
        bool,
        typer.Option("--charge-lost", rich_help_panel=STORE, help="Go on with an old copy; everybody pays for it."),
    ] = False,
    new_witness: Annotated[
        bool,
        typer.Option("--new-witness", rich_help_panel=STORE, help="The old one is lost, and this store the newest."),
    ] = False,
    sign: SigningKey = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", rich_help_panel=STORE, help="For another process.")
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", rich_help_panel=OUTPUT, help="Releases: .parquet, .ndjson or .jsonl."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            rich_help_panel=STORE,
            help="Accounts in buckets of files: local (bucket by bucket), pool (processes) or spark.",
        ),
    ] = None,
    path: BucketPath = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", rich_help_panel=STORE, help="Processes of a pool; one for each core."),
    ] = None,
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", rich_help_panel=OUTPUT, help="Events held at a time.")
    ] = "1GiB",
    json: Json = False,
    config: Config = None,
) -> None:
    """Release every slot of a public period from files of events, or go on where the store stopped.

    The store remembers every user's account, so that running again, or running another stream, keeps the one ε. Rows
    that cannot be read are dropped, each by itself.

    Examples:
      dpi run visits.parquet --user user --time at --value country
          --domain countries.txt --slot 1h --from 2026-01-01 --to 2026-02-01
          --epsilon 1 --store visits.db --out releases.parquet
      dpi run log.ndjson --follow --from 2026-01-01 --domain pages.json
          --slot 1m --lateness 10s --epsilon 1 --store live.db --out live.ndjson
      dpi run --from-broker kafka://localhost:9092/visits --from 2026-01-01
          --domain pages.json --slot 1m --lateness 10s --epsilon 1 --store live.db
      dpi run --from-broker postgresql://db/shop --table orders --id id …
      dpi run --config dpi.toml --dry-run
      dpi run --config dpi.toml
    """
    if dry_run and json:
        raise OptionError("what `--dry-run` says is private and for a person, on standard error: leave out `--json`.")
    follow = follow or from_broker is not None
    begin, named = _period(begin, end, follow), files or []
    meant = read_domain(domain, other, domain_key, named)
    said = EventOptions(user, time, value, unit, arrived, form, separator, columns)
    live = BrokerOptions(from_broker, table, id_column, password_file).open(said, named, meant, dry=dry_run)
    events = said.open(named, meant) if live is None else None
    held = budgets.size(memory)
    if out is not None:
        check(out, grows=follow)
    if sign is not None and not sign.exists():
        raise OptionError(f"there is no signing key {sign}: make one with `dpi keys {sign}`.")
    clock = ClockOptions(slot, origin, zone, lateness)
    first = clock.slots.boundary(begin, "--from")
    last = None if end is None else clock.slots.boundary(end, "--to")
    if last is not None and last <= first:
        raise OptionError("`--to` must be after `--from`.")
    chosen = budgets.budget(
        per_slot=per_slot,
        slots=slots,
        every=every,
        period=period,
        policy=policy,
        returning=not not_returning,
        quota=quota,
        converging=converging,
        drawn=draw,
    )
    if out is not None:
        Replacing(out, name, clock.slots, first, last).check_at(store)
    with (
        Signals() as signals,
        engines.engine(None if dry_run else engine, path, workers) as driven,
        opened(
            StoreOptions(store, name, key_file, witness, charge_lost, new_witness, wait, no_witness, new),
            clock,
            begin,
            domain=meant,
            epsilon=epsilon,
            budget=chosen,
            mechanism=budgets.mechanism(mechanism, season),
            compression=compressions.compression(compression),
            accumulate=compressions.accumulate(accumulate),
            separate=separate,
            change=change and (follow or "next"),  # a file gives its slots whole
            signer=None if sign is None else Signer.open(sign),
            engine=driven,
            dry=dry_run,
        ) as stream,
    ):
        if dry_run and events is not None:
            rehearse(events, meant, clock.slots, first, last)
            note(f"budget, unless the store's ledger has another policy: {stream.budget!r}.")
            return
        following = first_slot(stream, clock.slots, first)
        if following > first and not json:
            note(f"{following - first} slots of the period are released already; going on after them.")
        handing = nullcontext() if out is None else OutFile(out, Releases(stream.store, name), first, last)
        with handing as file:
            try:
                source = live or events
                if follow and source is not None:
                    upto = None if last is None else clock.slots.start(last)
                    follow_file(stream, source, upto, file, signals)
                elif events is not None and last is not None:
                    with Bars(events.size, max(last - following, 0)) as bars:
                        play(stream, events, last, file, signals, bars, held)
            except Interrupted as stop:
                text = f"stopped after {stream.next_slot - following} slots; the same command goes on where it stopped."
                raise Interrupted(stop.number, text) from None
        summary(stream, following, store, out, json)


def _period(begin: str | None, end: str | None, follow: bool) -> str:
    if begin is None or (end is None and not follow):
        raise OptionError(
            "the period is public and never read off the data: give `--from` and `--to`, for example --from 2026-01-01 "
            "--to 2026-02-01 (with `--follow`, `--to` may be left out)."
        )
    return begin
