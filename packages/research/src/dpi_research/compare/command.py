"""`dpi compare`: DPI beside the systems of others, on a made-up stream or on events of files."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from dpi.cli.options import Config, Json
from dpi.cli.output import Steps, document, note, say
from dpi.cli.streams import END, EventSettings
from dpi.domain import Bins, Domain
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.settings.declaration import EVENTS, OUTPUT, Flags, Setting
from dpi.settings.domains import DOMAIN, DOMAIN_KEY, OTHER, DomainSettings
from dpi.settings.streams import BEGIN, ORIGIN, SLOT, ZONE
from dpi.sources import Admission, FileEvents
from dpi_research.baselines import PublicFacts
from dpi_research.compare import Comparison, Terms, compare_named, compare_slots
from dpi_research.compare import published_tables as make_tables
from dpi_research.compare.comparison import plot_error, plot_loss, plot_trade_off
from dpi_research.compare.run import KEY, USUAL, Mode, mechanisms, number_slots
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
        return number_slots(self.events.slots(Admission(self.clock, self.domain, KEY, *self.period)), self.domain.size)


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


@dataclass(frozen=True, kw_only=True)
class MadeUpSettings:
    """A made-up stream."""

    stream: Annotated[str | None, Setting("NAME", "Its name (published).", STREAM)] = None
    slots: Annotated[int | None, Setting("N", f"How many ({SLOTS}).", STREAM)] = None
    seed: Annotated[int | None, Setting("N", "Of the data (0).", STREAM)] = None
    churn: Annotated[float | None, Setting("SHARE", "Of users replaced in every slot, 0 … 1.", STREAM)] = None


@dataclass(frozen=True, kw_only=True)
class PlayedSettings:
    """Events of files: their domain and their public period."""

    domain: Annotated[Path | None, DOMAIN] = None
    other: Annotated[str | None, OTHER] = None
    domain_key: Annotated[list[Path] | None, DOMAIN_KEY] = None
    slot: Annotated[str | None, SLOT] = None
    begin: Annotated[str | None, BEGIN] = None
    end: Annotated[str | None, END] = None
    zone: Annotated[str, ZONE] = "UTC"
    origin: Annotated[str, ORIGIN] = "1970-01-01"
    rows: Annotated[int, Setting("N", "Declared: about so many events in a slot.", EVENTS)] = 10_000


def compare(
    made_up: Annotated[MadeUpSettings, Flags("stream")],
    columns: Annotated[EventSettings, Flags("time value")],
    period: Annotated[PlayedSettings, Flags("domain other slot from to")],
    words: Annotated[
        list[str] | None,
        Setting("MECHANISM|FILE", "Systems by name, the usual ones if none; files of events.", argument=True),
    ] = None,
    epsilon: Annotated[list[str] | None, Setting("NUMBER", "ε (1). Repeat it for several.", TERMS)] = None,
    mode: Annotated[str, Setting("MODE", "user: ε per user for all. Or published.", TERMS)] = "user",
    cap: Annotated[int, Setting("N", "Records of a user that others use, in all.", TERMS, flag=False)] = 10,
    records: Annotated[str | None, Setting("NUMBER", "Of the user whose loss is stated.", TERMS, flag=False)] = None,
    delta: Annotated[float | None, Setting("NUMBER", "State that loss at this δ.", TERMS, flag=False)] = None,
    plots: Annotated[Path | None, Setting("FOLDER", "Draw it there, as SVG.", OUTPUT)] = None,
    published_tables: Annotated[
        bool, Setting("", "The published tables, recomputed; no stream.", OUTPUT, flag=False)
    ] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Compare systems at an equal guarantee, or as they were published: errors of every slot, and what a user loses.

    A word with a dot, a slash or a star is a file of events, any other a mechanism. What is printed is made from the
    true data: of private events it is for the curator alone.

    Examples:
      dpi compare
      dpi compare dpi hybrid pegasus --stream small20 --config churn=0.05 --plots out
      dpi compare --mode published --config delta=1e-6 --epsilon 0.1 --epsilon 1
      dpi compare dpi noisy visits.parquet --time at --value country
          --domain countries.txt --slot 1h --from 2026-01-01 --to 2026-02-01
      dpi compare --config published-tables=true
    """
    if published_tables:
        recomputed = make_tables()
        if json:
            document(json_format.loads(recomputed.to_json()))
        else:
            print(recomputed.text())
        return
    names, files = sort_words(words or ())
    said = _records(records, made_up.stream, files)
    terms = [Terms(each, _mode(mode), cap, said, delta) for each in epsilon or ["1"]]
    if files:
        if made_up != MadeUpSettings():
            raise OptionError(
                "`stream`, `slots`, `seed` and `churn` are for a made-up stream, not for files.",
                options=("stream", "slots", "seed", "churn"),
            )
        if period.domain is None or period.slot is None or period.begin is None or period.end is None:
            raise OptionError("events of files need `--domain`, `--slot`, `--from` and `--to`, as in `dpi run`.")
        listed = DomainSettings(domain=period.domain, other=period.other, domain_key=period.domain_key)
        meant = listed.read(files)
        slots = Slots(period.slot, origin=period.origin, zone=period.zone)
        played = Played(columns.open(files, meant), meant, slots, period.begin, period.end, period.rows)
        note("errors are made from the true data: what follows is no release.")
        found = compare_events(names, played, terms)
    else:
        number = SLOTS if made_up.slots is None else made_up.slots
        found = compare_made_up(names, made_up.stream or "published", terms, number, made_up.seed or 0, made_up.churn)
    if plots is not None:
        draw(found, plots)
    if json:
        document({"comparisons": [json_format.loads(result.to_json()) for result in found]})
        return
    print("\n\n".join(result.table() for result in found))
    if plots is not None:
        say("", f"Look at {plots}.")


def sort_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Mechanisms and files; the usual mechanisms if none is named.

    >>> sort_words(["dpi", "visits.csv", "noisy"])
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
