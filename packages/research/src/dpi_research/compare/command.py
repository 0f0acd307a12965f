"""`dpi compare`: DPI beside the systems of others, on a made-up stream or on events of files."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from dpi.cli.config import Config
from dpi.cli.options import (
    CLOCK,
    EVENTS,
    OUTPUT,
    Begin,
    Columns,
    DomainKeys,
    End,
    Format,
    Json,
    Origin,
    Other,
    Separator,
    Time,
    Unit,
    User,
    Value,
    Zone,
)
from dpi.cli.output import document, note, say
from dpi.cli.progress import Steps
from dpi.cli.reading import EventOptions
from dpi.domain import Bins, Domain
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.settings.domains import read_domain
from dpi.sources import Admission, FileEvents
from dpi_research.baselines import PublicFacts
from dpi_research.compare import Comparison, Terms, compare_named, compare_slots, published_tables
from dpi_research.compare.comparison import plot_error, plot_loss, plot_trade_off
from dpi_research.compare.run import KEY, USUAL, Mode, coded, mechanisms
from dpi_research.datasets.generators import Slot, stream_named

ERRORS: tuple[Literal["l1", "kl"], ...] = ("l1", "kl")


@dataclass(frozen=True)
class Played:
    """Events of files over a public period."""

    events: FileEvents
    domain: Domain
    clock: Slots
    begin: str
    end: str
    rows: int

    @property
    def period(self) -> tuple[int, int]:
        """Its first slot, and the one after its last."""
        first, last = self.clock.boundary(self.begin, "--from"), self.clock.boundary(self.end, "--to")
        if last <= first:
            raise OptionError("`--to` must be after `--from`.")
        return first, last

    def slots(self) -> Iterator[Slot]:
        """From the beginning."""
        return coded(self.events.slots(Admission(self.clock, self.domain, KEY, *self.period)), self.domain.size)


def compare_events(names: Sequence[str], played: Played, terms: Sequence[Terms]) -> list[Comparison]:
    """On events of files, for each of the terms."""
    first, last = played.period
    domain = played.domain
    facts = PublicFacts(1, domain.size, last - first, rows=played.rows, ordered=isinstance(domain, Bins))
    found = []
    for each in terms:
        with Steps("slots", last - first) as steps:
            slots, name = played.slots(), played.events.path
            found.append(compare_slots(names, slots, facts, each, stream=name, progress=steps.over))
    return found


def compare_made_up(
    names: Sequence[str], stream: str, terms: Sequence[Terms], slots: int, seed: int, churn: float | None
) -> list[Comparison]:
    """On a made-up stream, for each of the terms."""
    found = []
    for each in terms:
        with Steps("slots", slots) as steps:
            found.append(compare_named(names, stream, each, slots=slots, seed=seed, churn=churn, progress=steps.over))
    return found


def draw(found: Sequence[Comparison], folder: Path) -> None:
    """Loss and errors over time, for every ε, and error against loss, with a point for every ε."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in found:
        end = "" if len(found) == 1 else f"-epsilon-{result.epsilon:g}"
        plot_loss(result).savefig(folder / f"loss{end}.svg")
        for error in ERRORS:
            plot_error(result, error).savefig(folder / f"{error}{end}.svg")
    for error in ERRORS:
        plot_trade_off(found, error).savefig(folder / f"{error}-against-loss.svg")


TERMS, STREAM = "Terms", "A made-up stream"
SLOTS = 100
"""Of a made-up stream, unless told otherwise."""


def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MECHANISM|FILE",
            show_default=False,
            help="Systems by name, the usual ones if none; files of events.",
        ),
    ] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option("--epsilon", metavar="NUMBER", rich_help_panel=TERMS, help="ε (1). Repeat it for several."),
    ] = None,
    mode: Annotated[
        str,
        typer.Option("--mode", metavar="MODE", rich_help_panel=TERMS, help="user: ε per user for all. Or published."),
    ] = "user",
    cap: Annotated[
        int,
        typer.Option("--cap", metavar="N", rich_help_panel=TERMS, help="Records of a user that others use, in all."),
    ] = 10,
    records: Annotated[
        str | None,
        typer.Option("--records", metavar="NUMBER", rich_help_panel=TERMS, help="Of the user whose loss is stated."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", metavar="NUMBER", rich_help_panel=TERMS, help="State that loss at this δ."),
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", rich_help_panel=STREAM, help="Its name (published).")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", rich_help_panel=STREAM, help=f"How many ({SLOTS}).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", rich_help_panel=STREAM, help="Of the data (0).")
    ] = None,
    churn: Annotated[
        float | None,
        typer.Option(
            "--churn", metavar="SHARE", rich_help_panel=STREAM, help="Of users replaced in every slot, 0 … 1."
        ),
    ] = None,
    user: User = "user",
    time: Time = "time",
    value: Value = None,
    unit: Unit = None,
    form: Format = None,
    separator: Separator = None,
    columns: Columns = None,
    domain: Annotated[
        Path | None, typer.Option("--domain", metavar="FILE", rich_help_panel=EVENTS, help="Values, or JSON.")
    ] = None,
    other: Other = None,
    domain_key: DomainKeys = None,
    slot: Annotated[
        str | None, typer.Option("--slot", metavar="DURATION", rich_help_panel=CLOCK, help="Such as 1h, 1w, month.")
    ] = None,
    begin: Begin = None,
    end: End = None,
    zone: Zone = "UTC",
    origin: Origin = "1970-01-01",
    rows: Annotated[
        int,
        typer.Option("--rows", metavar="N", rich_help_panel=EVENTS, help="Declared: about so many events in a slot."),
    ] = 10_000,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="FOLDER", rich_help_panel=OUTPUT, help="Draw it there, as SVG."),
    ] = None,
    tables: Annotated[
        bool,
        typer.Option("--published-tables", rich_help_panel=OUTPUT, help="The published tables, recomputed; no stream."),
    ] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Compare systems at an equal guarantee, or as they were published: errors of every slot, and what a user loses.

    A word with a dot, a slash or a star is a file of events, any other a mechanism. What is printed is made from the
    true data: of private events it is for the curator alone.

    Examples:
      dpi compare
      dpi compare dpi hybrid pegasus --stream small20 --churn 0.05 --plots out
      dpi compare --mode published --delta 1e-6 --epsilon 0.1 --epsilon 1
      dpi compare dpi noisy visits.parquet --time at --value country
          --domain countries.txt --slot 1h --from 2026-01-01 --to 2026-02-01
      dpi compare --published-tables
    """
    if tables:
        recomputed = published_tables()
        if json:
            document(json_format.loads(recomputed.to_json()))
        else:
            print(recomputed.text())
        return
    names, files = sorted_words(words or ())
    terms = [Terms(each, _mode(mode), cap, _records(records, stream, files), delta) for each in epsilon or ["1"]]
    if files:
        if (stream, slots, seed, churn) != (None, None, None, None):
            raise OptionError("`--stream`, `--slots`, `--seed` and `--churn` are for a made-up stream, not for files.")
        if domain is None or slot is None or begin is None or end is None:
            raise OptionError("events of files need `--domain`, `--slot`, `--from` and `--to`, as in `dpi run`.")
        meant = read_domain(domain, other, domain_key, files)
        said = EventOptions(user, time, value, unit, format=form, separator=separator, columns=columns)
        events = said.open(files, meant)
        played = Played(events, meant, Slots(slot, origin=origin, zone=zone), begin, end, rows)
        note("errors are made from the true data: what follows is no release.")
        found = compare_events(names, played, terms)
    else:
        found = compare_made_up(
            names, stream or "published", terms, SLOTS if slots is None else slots, seed or 0, churn
        )
    if plots is not None:
        draw(found, plots)
    if json:
        document({"comparisons": [json_format.loads(result.to_json()) for result in found]})
        return
    print("\n\n".join(result.table() for result in found))
    if plots is not None:
        say("", f"Look at {plots}.")


def sorted_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Mechanisms and files; the usual mechanisms if none is named.

    >>> sorted_words(["dpi", "visits.csv", "noisy"])
    (['dpi', 'noisy'], ['visits.csv'])
    """
    files = [word for word in words if word not in mechanisms() and (set(word) & set("./*?") or word == "-")]
    names = [word for word in words if word not in files]
    return list(dict.fromkeys(names)) or list(USUAL), files


def _mode(text: str) -> Mode:
    modes: tuple[Mode, ...] = ("user", "published")
    for known in modes:
        if text == known:
            return known
    raise OptionError(f"`--mode` must be user or published. Got {text!r}.")


def _records(records: str | None, stream: str | None, files: Sequence[str]) -> str | int:
    """As said; otherwise the most that a user has in a slot of the made-up stream, or one."""
    if records is not None:
        return records
    return 1 if files else stream_named(stream or "published").records
