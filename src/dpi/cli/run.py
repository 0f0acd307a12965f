"""`dpi run`: events of files, or of a file that grows, become releases in a store."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from dpi.cli import budgets, compressions
from dpi.cli.config import Config
from dpi.cli.domains import read_domain
from dpi.cli.following import follow as follow_file
from dpi.cli.interruption import Interrupted, Interruption
from dpi.cli.options import DomainKeys, Json, KeyFile
from dpi.cli.outfile import OutFile, check
from dpi.cli.output import address, document, note, say
from dpi.cli.playing import Clockwork, Shelf, first_slot, opened, play
from dpi.cli.progress import Bars
from dpi.cli.stored import Stored
from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.signature import Signer
from dpi.stream import Stream

EVENTS, CLOCK, BUDGET, STORE, OUTPUT = "Events", "Period and clock", "Privacy", "Store", "Output"


def run(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", show_default=False, help="Parquet, Arrow, CSV, NDJSON; patterns; - for stdin."),
    ],
    domain: Annotated[
        Path, typer.Option("--domain", metavar="FILE", rich_help_panel=EVENTS, help="Values, one a line, or JSON.")
    ],
    epsilon: Annotated[
        str, typer.Option("--epsilon", metavar="NUMBER", rich_help_panel=BUDGET, help="ε per user, for ever.")
    ],
    slot: Annotated[
        str, typer.Option("--slot", metavar="DURATION", rich_help_panel=CLOCK, help="Such as 1h, 1d, 30s.")
    ],
    store: Annotated[
        str, typer.Option("--store", metavar="STORE", rich_help_panel=STORE, help="A path, or postgresql://…")
    ],
    user: Annotated[
        str, typer.Option("--user", metavar="COLUMN", rich_help_panel=EVENTS, help="Who: integers or texts.")
    ] = "user",
    time: Annotated[
        str, typer.Option("--time", metavar="COLUMN", rich_help_panel=EVENTS, help="When: ISO 8601, or see --unit.")
    ] = "time",
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="COLUMN",
            rich_help_panel=EVENTS,
            help="A column (value), or PART=COLUMN for each part of a product.",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", metavar="UNIT", rich_help_panel=EVENTS, help="Of times that are numbers: s, ms, us, ns."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", rich_help_panel=EVENTS, help="csv, ndjson, parquet or arrow."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", metavar="CHARACTER", rich_help_panel=EVENTS, help="Of CSV.")
    ] = None,
    other: Annotated[
        str | None,
        typer.Option("--other", metavar="NAME", rich_help_panel=EVENTS, help="Bin of values that are not listed."),
    ] = None,
    domain_key: DomainKeys = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", rich_help_panel=CLOCK, help="Beginning of the public period."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", rich_help_panel=CLOCK, help="End of it; may be left out with --follow."),
    ] = None,
    zone: Annotated[
        str,
        typer.Option("--zone", metavar="ZONE", rich_help_panel=CLOCK, help="Of times that name none, and of slots."),
    ] = "UTC",
    origin: Annotated[
        str, typer.Option("--origin", metavar="TIME", rich_help_panel=CLOCK, help="Slots are counted from here.")
    ] = "1970-01-01",
    lateness: Annotated[
        str,
        typer.Option(
            "--lateness", metavar="DURATION", rich_help_panel=CLOCK, help="A slot closes so long after its end."
        ),
    ] = "0s",
    follow: Annotated[
        bool, typer.Option("--follow", rich_help_panel=CLOCK, help="Go on as the file grows, by the system's clock.")
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
        int | None,
        typer.Option("--every", metavar="N", rich_help_panel=BUDGET, help="Spend most of it in every N-th slot."),
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
            help="Of accounts: spend-first, or less in each slot of a user: fade, fade:zeta:2.",
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
    brain: Annotated[
        str, typer.Option("--brain", metavar="NAME", rich_help_panel=BUDGET, help="boosted or published.")
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
        bool, typer.Option("--change", rich_help_panel=STORE, help="Go on with other options, and certify it.")
    ] = False,
    key_file: KeyFile = None,
    witness: Annotated[
        Path | None,
        typer.Option("--witness", metavar="FILE", rich_help_panel=STORE, help="Remembers the chain's head, elsewhere."),
    ] = None,
    charge_lost: Annotated[
        bool,
        typer.Option("--charge-lost", rich_help_panel=STORE, help="Go on with an old copy; everybody pays for it."),
    ] = False,
    new_witness: Annotated[
        bool,
        typer.Option("--new-witness", rich_help_panel=STORE, help="The old one is lost, and this store the newest."),
    ] = False,
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="FILE", rich_help_panel=STORE, help="Private key; see dpi keys.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", rich_help_panel=STORE, help="For another process.")
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", rich_help_panel=OUTPUT, help="Releases: .parquet, .ndjson or .jsonl."),
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
      dpi run --config dpi.toml
    """
    begin = _period(begin, end, follow)
    meant = read_domain(domain, other, domain_key)
    from dpi.sources import read

    events = read(files, user=user, time=time, value=columns(meant, value), unit=unit, format=form, separator=separator)
    held = budgets.size(memory)
    if out is not None:
        check(out, grows=follow)
    if sign is not None and not sign.exists():
        raise OptionError(f"there is no signing key {sign}: make one with `dpi keys {sign}`.")
    clockwork = Clockwork(slot, origin, zone, lateness)
    first = clockwork.slots.border(begin, "--from")
    last = None if end is None else clockwork.slots.border(end, "--to")
    if last is not None and last <= first:
        raise OptionError("`--to` must be after `--from`.")
    chosen = budgets.budget(
        per_slot=per_slot,
        slots=slots,
        every=every,
        period=period,
        policy=policy,
        returning=not not_returning,
        converging=converging,
        drawn=draw,
    )
    with (
        Interruption() as interruption,
        opened(
            Shelf(store, name, key_file, witness, charge_lost, new_witness, wait),
            clockwork,
            begin,
            domain=meant,
            epsilon=epsilon,
            budget=chosen,
            brain=budgets.brain(brain, season),
            compression=compressions.compression(compression),
            accumulate=compressions.accumulate(accumulate),
            separate=separate,
            change=change,
            signer=None if sign is None else Signer.open(sign),
        ) as stream,
    ):
        following = first_slot(stream, clockwork.slots, first)
        if following > first and not json:
            note(f"{following - first} slots of the period are released already; going on after them.")
        handing = nullcontext() if out is None else OutFile(out, Stored(stream.store, name), first, last)
        with handing as file:
            try:
                if follow:
                    follow_file(stream, events, last, file, interruption)
                elif last is not None:
                    with Bars(events.size, max(last - following, 0)) as bars:
                        play(stream, events, last, file, interruption, bars, held)
            except Interrupted as stop:
                text = f"stopped after {stream.next_slot - following} slots; the same command goes on where it stopped."
                raise Interrupted(stop.number, text) from None
        _summary(stream, following, store, out, json)


def _period(begin: str | None, end: str | None, follow: bool) -> str:
    if begin is None or (end is None and not follow):
        raise OptionError(
            "the period is public and never read off the data: give `--from` and `--to`, for example --from 2026-01-01 "
            "--to 2026-02-01 (with `--follow`, `--to` may be left out)."
        )
    return begin


def columns(domain: Domain, value: list[str] | None) -> str | dict[str, str]:
    """The column of values, or of each part of a product."""
    if not isinstance(domain, Product):
        if value is not None and len(value) > 1:
            raise OptionError("`--value` may be repeated for a product domain alone.")
        return value[0] if value else "value"
    named = dict(text.partition("=")[::2] for text in value or ())
    if named.keys() != domain.parts.keys() or not all(named.values()):
        wanted = " ".join(f"--value {part}=COLUMN" for part in domain.parts)
        raise OptionError(f"a product domain needs a column for each part: {wanted}.")
    return named


def _summary(stream: Stream, following: int, store: str, out: Path | None, json: bool) -> None:
    """What was released: public facts only."""
    stored = Stored(stream.store, stream.name)
    reached = stream.store.reached(stream.name)
    newest = None if reached is None else stored.slot(reached[0])
    released = 0 if newest is None else max(newest.slot + 1 - following, 0)
    if json:
        document(
            {
                "store": address(store),
                "stream": stream.name,
                "released": released,
                "last_slot": None if newest is None else newest.slot,
                "last_start": None if newest is None else newest.start,
                "epsilon_spent": 0.0 if newest is None else newest.epsilon_spent,
                "guarantee": stream.guarantee,
                "out": None if out is None else str(out),
            }
        )
        return
    say(f"{released} slots released." if newest is None else f"{released} slots released, up to {newest.start}.")
    if newest is not None:
        say(
            "Most frequent in the last one: "
            + ", ".join(f"{label} {share:.3f}" for label, share in newest.top(3))
            + "."
        )
        say(f"Spent so far: at most {newest.epsilon_spent:.4g} per user.")
    say(stream.guarantee)
    if out is not None:
        say(f"Releases: {out}")
    say(f"Next: dpi report {address(store)}")
