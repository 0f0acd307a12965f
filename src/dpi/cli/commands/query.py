"""`dpi query`: a question about releases, answered with error bars; or alerts about values whose share has moved.

Releases are public, so a question costs no privacy, and alerts are public too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from dpi.apps import Alert, Watch
from dpi.cli._errors import FOUND
from dpi.cli.options import Begin, Config, End, Json, Rules, Slot, StoreArgument, StreamName, choose_slots
from dpi.cli.output import address, document, note, number, say, table
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.reader import Releases, open
from dpi.release import Release
from dpi.release.interval import LEVEL, LEVEL_TEXT
from dpi.release.people import is_of_its_slot
from dpi.release.queries import UNKNOWN, interval_text
from dpi.release.release import LEAST
from dpi.settings.declaration import Flags, Setting
from dpi.settings.domains import domain_keys
from dpi.settings.quality import read_quality
from dpi.settings.questions import QUESTIONS, Row, ask_all, asked_under, describe

EVENLY = ("range", "spread")
"""Questions whose answers take values as spread evenly within a bin, or at its middle, also for the interval."""


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """When a change is an alert."""

    detector: Annotated[str, Setting("NAME", "hbos, or forest (needs the extra apps).")] = "hbos"
    window: Annotated[int, Setting("SLOTS", "Number of earlier slots to compare with.")] = 7
    share: Annotated[float, Setting("PART", "Only changes rarer than this are alerts.")] = 0.05
    level: Annotated[float, Setting("LEVEL", "No alert where an interval of this level explains it.")] = 0.95
    poll: Annotated[float, Setting("SECONDS", "With --follow: seconds between two looks.")] = 1.0

    def watch(self) -> Watch:
        """Return what finds alerts."""
        if not self.poll > 0:
            raise OptionError(f"`poll` must be above 0. Got {self.poll!r}.")
        return Watch(self.detector, window=self.window, share=self.share, level=self.level)


def query(
    store: StoreArgument,
    rules: Annotated[AlertSettings, Flags("")],
    question: Annotated[list[str] | None, Setting("QUESTION", f"{QUESTIONS}.", argument=True)] = None,
    slot: Slot = "last",
    begin: Begin = None,
    end: End = None,
    part: Annotated[str | None, Setting("NAME", "Part of a product to ask about.")] = None,
    where: Annotated[
        list[str] | None, Setting("PART=VALUE", "PART=VALUE of a product: ask among these users. May be repeated.")
    ] = None,
    alerts: Annotated[bool, Setting("", "Instead of a question: values whose share moved unusually.")] = False,
    follow: Annotated[bool, Setting("", "With --alerts: continue, and print alerts as slots are released.")] = False,
    quality: Rules = None,
    stream: StreamName = None,
    domain_key: Annotated[list[Path] | None, Setting("FILE", "Key of a hashed domain.", flag=False)] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Answer a question about one slot, or about every slot of a period, with 95 % intervals.

    Where the domain changed in a period, slots that have no such value or part are named below the answers. With
    --quality, a share or number of users that is not good enough has a reason in its place (see `dpi table`).

    With --alerts it prints values with an unusual change: it scores higher than 95 % of the past, and is beyond the
    95 % interval of the difference. Not every alert is an event. Exit code 1 if there is one. With --follow and
    --json, one line of JSON for each alert. detector, window, share, level and poll are set by --config.

    Examples:
      dpi query visits.db top 5
      dpi query visits.db probability DE --slot 12
      dpi query visits.db probability DE --slot 2026-01-01T12:30
      dpi query visits.db count DE --from 2026-01-01 --to 2026-01-02
      dpi query ages.db quantile 0.5 --json
      dpi query visits.db top 5 --quality points=2,size=20
      dpi query pairs.db top 3 --part country --where age=30
      dpi query visits.db --alerts --from 2026-01-20 --config share=0.01
      dpi query visits.db --alerts --follow --json
    """
    if alerts == bool(question) or (follow and not alerts):
        raise OptionError("ask a question, or for `--alerts`; `--follow` is for these.")
    if alerts and quality is not None:
        raise OptionError("`quality` is for questions: alerts are made of whole releases.")
    shown = read_quality(quality)
    watching = rules.watch() if alerts else None
    ask = asked_under(shown, question or ["total"])
    with open(store, stream, keys=domain_keys(domain_key)) as opened:
        stored = opened.under(shown)
        if watching is not None:
            _watch(store, stored, watching, rules, begin, follow, json)
            return
        outcome = ask_all(ask, choose_slots(stored, slot, begin, end).shown(), part, where or [])
    words, answers = " ".join(question or []), outcome.answers
    if json:
        document(
            {
                "store": address(store),
                "stream": stored.name,
                "question": words,
                "answers": [
                    {**describe(release), "level": LEVEL, "rows": [row.plain() for row in rows]}
                    for release, rows in answers
                ],
                "undefined": [{"slot": release.slot, "why": why} for release, why in outcome.undefined],
            }
        )
        return
    _print(words, answers)
    for gap in outcome.gaps:
        note(f"no answer for {gap}")


def _print(words: str, answers: Sequence[tuple[Release, list[Row]]]) -> None:
    labelled = any(row.label is not None for _, rows in answers for row in rows)
    held = [release.freshness for release, _ in answers if not is_of_its_slot(words.split(" ")[0], release)]
    aged = len(answers) > 1 and any(held)
    rows = [
        [
            row_of.start_text or row_of.slot,
            *([row.label] if labelled else []),
            number(row.value),
            _interval(row),
            *([_carried(row_of)] if aged else []),
        ]
        for row_of, told in answers
        for row in told
    ]
    headings = ["slot", *(["value"] if labelled else []), "share" if labelled else words, f"{LEVEL_TEXT} interval"]
    table([*headings, *(["carried forward"] if aged else [])], rows, left=2 if labelled else 1)
    if words.split(" ")[0] in EVENLY:
        say("The interval is of noise alone: where in their bins values lie is not in it.")
    if len(answers) == 1 and held and held[0] is not None:
        say(held[0])
    payers = [release for release, _ in answers if release.scope is not None]
    if payers:
        scope = str(payers[-1].scope)
        say(scope if len(payers) == len(answers) else f"From slot {payers[0].start_text or payers[0].slot} on: {scope}")


def _interval(row: Row) -> str:
    """Return an interval in words, or why there is none."""
    if math.isnan(row.value):
        return row.note
    ends = interval_text(number(row.lower), number(row.upper), row.upper) if row.known else UNKNOWN
    return f"{ends} {row.note}".rstrip()


def _carried(release: Release) -> str:
    """Return which part of a picture was not measured in its slot, and how many slots ago it was on average."""
    part = 1 - release.measured
    ago = "" if release.age is None else f", {release.age:,.0f} slot{'' if round(release.age) == 1 else 's'} ago"
    return "–" if part < LEAST else f"{100 * part:.0f} %{ago}"


def _watch(
    store: str, stored: Releases, watching: Watch, rules: AlertSettings, begin: str | None, follow: bool, json: bool
) -> None:
    """Print alerts of slots from `begin` on; the model learns from all slots."""
    first = None if begin is None else stored.first_at(begin)
    if follow:
        with Signals():
            _follow(stored, watching, first, rules.poll, json)
    seen, shown = 0, list[Alert]()
    for release, alerts in watching.over(stored):
        seen += 1
        shown += alerts if first is None or release.slot >= first else []
    if json:
        plain = [asdict(alert) for alert in shown]
        document({"store": address(store), "stream": stored.name, "slots": seen, "alerts": plain})
    elif shown:
        headings = ("slot", "start", "value", "severity", "share", "before", "± 95 %", "one in")
        table(headings, [_row(alert) for alert in shown], left=4)
    elif seen <= 2 * rules.window:
        say(f"No alert: {seen} slots are released, and the first {2 * rules.window} are only learned from.")
    else:
        say(f"No alert in {seen - 2 * rules.window} slots.")
    if shown:
        raise typer.Exit(FOUND)


def _row(alert: Alert) -> tuple[str, ...]:
    figures = (alert.share, alert.before, 1.96 * alert.error, 1 / alert.rarity)
    texts = (number(figure, 3) for figure in figures)
    return (str(alert.slot), alert.start or "–", alert.value, alert.severity, *texts)


def _follow(stored: Releases, watching: Watch, first: int | None, poll: float, json: bool) -> None:
    """Print alerts as slots are released, until the process is stopped."""
    from json import dumps

    for release, alerts in watching.over(stored.follow(every=poll)):
        for alert in alerts if first is None or release.slot >= first else []:
            print(dumps(asdict(alert), ensure_ascii=False) if json else "  ".join(_row(alert)), flush=True)
