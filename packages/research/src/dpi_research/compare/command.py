"""`dpi compare`: DPI beside the systems of others, on a made-up stream or on events of files."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

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
from dpi_research.compare.run import KEY, USUAL, Mode, Progress, mechanisms, number_slots
from dpi_research.datasets.generators import stream_named

ERRORS: tuple[Literal["l1", "kl"], ...] = ("l1", "kl")


Play = Callable[[Terms, Progress], Comparison]


def open_files(
    names: Sequence[str], events: FileEvents, domain: Domain, clock: Slots, begin: str, end: str, rows: int
) -> tuple[int, Play]:
    """Return how many slots a public period has, and how the events of files are played over it."""
    first, last = clock.boundary(begin, "--from"), clock.boundary(end, "--to")
    if last <= first:
        raise OptionError("`--to` must be after `--from`.")
    facts = PublicFacts(1, domain.size, last - first, rows=rows, ordered=isinstance(domain, Bins))

    def play(terms: Terms, progress: Progress) -> Comparison:
        slots = number_slots(events.slots(Admission(clock, domain, KEY, first, last)), domain.size)
        return compare_slots(names, slots, facts, terms, stream=events.path, progress=progress)

    return last - first, play


def draw(comparisons: Sequence[Comparison], folder: Path) -> None:
    """Draw loss and errors over time, for every ε, and error against loss, with a point for every ε."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in comparisons:
        end = "" if len(comparisons) == 1 else f"-epsilon-{result.epsilon:g}"
        plot_loss(result).savefig(folder / f"loss{end}.svg")
        for error in ERRORS:
            plot_error(result, error).savefig(folder / f"{error}{end}.svg")
    for error in ERRORS:
        plot_trade_off(comparisons, error).savefig(folder / f"{error}-against-loss.svg")


TERMS, STREAM = "Terms", "A made-up stream"
SLOTS = 100
"""Of a made-up stream, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class MadeUpSettings:
    """A made-up stream."""

    stream: Annotated[str | None, Setting("NAME", "Name of the made-up stream (published).", STREAM)] = None
    slots: Annotated[int | None, Setting("N", f"How many ({SLOTS}).", STREAM)] = None
    seed: Annotated[int | None, Setting("N", "Seed of the data (0).", STREAM)] = None
    churn: Annotated[float | None, Setting("SHARE", "Share of users replaced in every slot, 0 … 1.", STREAM)] = None


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
    rows: Annotated[int, Setting("N", "Declared number of events in a slot, about.", EVENTS)] = 10_000


def compare(
    made_up: Annotated[MadeUpSettings, Flags("stream")],
    columns: Annotated[EventSettings, Flags("time value")],
    period: Annotated[PlayedSettings, Flags("domain other slot from to")],
    words: Annotated[
        list[str] | None,
        Setting(
            "MECHANISM|FILE", "Names of systems (the usual ones unless given), and files of events.", argument=True
        ),
    ] = None,
    epsilon: Annotated[list[str] | None, Setting("NUMBER", "ε (1). Repeat it for several.", TERMS)] = None,
    mode: Annotated[str, Setting("MODE", "user: every system gets ε per user; or published.", TERMS)] = "user",
    cap: Annotated[int, Setting("N", "Records of a user that other systems use, in total.", TERMS, flag=False)] = 10,
    records: Annotated[
        str | None, Setting("NUMBER", "Records per slot of the user whose loss is stated.", TERMS, flag=False)
    ] = None,
    delta: Annotated[float | None, Setting("NUMBER", "δ at which that loss is stated.", TERMS, flag=False)] = None,
    plots: Annotated[Path | None, Setting("FOLDER", "Folder for pictures, as SVG.", OUTPUT)] = None,
    published_tables: Annotated[
        bool, Setting("", "Recompute the published tables instead of playing a stream.", OUTPUT, flag=False)
    ] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Compare systems at an equal guarantee, or as they were published: error of every slot, and loss of a user.

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
        _print_tables(json)
        return
    names, files = sort_words(words or ())
    stream = made_up.stream or "published"
    if mode not in ("user", "published"):
        raise OptionError(f"`--mode` must be user or published. Got {mode!r}.")
    # Unless it is said, the most that a user has in a slot of the made-up stream.
    said: str | int = (1 if files else stream_named(stream).records) if records is None else records
    terms = [Terms(each, cast("Mode", mode), cap, said, delta) for each in epsilon or ["1"]]
    if files:
        count, play = _play_files(names, files, made_up, columns, period)
    else:
        count, play = _play_made_up(names, stream, made_up)
    comparisons = []
    for each in terms:
        with Steps("slots", count) as steps:
            comparisons.append(play(each, steps.over))
    if plots is not None:
        draw(comparisons, plots)
    if json:
        document({"comparisons": [json_format.loads(result.to_json()) for result in comparisons]})
        return
    print("\n\n".join(result.table() for result in comparisons))
    if plots is not None:
        say("", f"Look at {plots}.")


def _print_tables(json: bool) -> None:
    """Print the published tables beside what is computed."""
    recomputed = make_tables()
    if json:
        document(json_format.loads(recomputed.to_json()))
    else:
        print(recomputed.text())


def _play_made_up(names: Sequence[str], stream: str, settings: MadeUpSettings) -> tuple[int, Play]:
    """Return how many slots of a made-up stream are played, and how."""
    count, seed = SLOTS if settings.slots is None else settings.slots, settings.seed or 0

    def play(terms: Terms, progress: Progress) -> Comparison:
        return compare_named(names, stream, terms, slots=count, seed=seed, churn=settings.churn, progress=progress)

    return count, play


def _play_files(
    names: Sequence[str],
    files: Sequence[str],
    made_up: MadeUpSettings,
    columns: EventSettings,
    period: PlayedSettings,
) -> tuple[int, Play]:
    """Return how many slots of files are played, and how."""
    if made_up != MadeUpSettings():
        raise OptionError(
            "`stream`, `slots`, `seed` and `churn` are for a made-up stream, not for files.",
            options=("stream", "slots", "seed", "churn"),
        )
    if period.domain is None or period.slot is None or period.begin is None or period.end is None:
        raise OptionError("events of files need `--domain`, `--slot`, `--from` and `--to`, as in `dpi run`.")
    listed = DomainSettings(domain=period.domain, other=period.other, domain_key=period.domain_key)
    domain = listed.read(files)
    slots = Slots(period.slot, origin=period.origin, zone=period.zone)
    events = columns.open(files, domain)
    played = open_files(names, events, domain, slots, period.begin, period.end, period.rows)
    note("errors are made from the true data: what follows is no release.")
    return played


def sort_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return mechanisms and files; the usual mechanisms if none is named.

    >>> sort_words(["dpi", "visits.csv", "noisy"])
    (['dpi', 'noisy'], ['visits.csv'])
    """
    files = [word for word in words if word not in mechanisms() and (set(word) & set("./*?") or word == "-")]
    names = [word for word in words if word not in files]
    return list(dict.fromkeys(names)) or list(USUAL), files
