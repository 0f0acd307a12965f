"""`dpi query`: a question about releases, answered with error bars. Releases are public, so it costs no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.options import DomainKeys, Json, StoreArgument, StreamName
from dpi.cli.output import address, document, note, number, say, table
from dpi.reader import Releases, open
from dpi.release import Release
from dpi.release.interval import LEVEL, LEVEL_TEXT
from dpi.settings.domains import domain_keys
from dpi.settings.questions import QUESTIONS, Row, ask_all, asked, narrowed

EVENLY = ("median", "quantile", "range", "spread")
"""Questions whose answers take values as spread evenly within a bin, or at its middle, also for the interval."""


def query(
    store: StoreArgument,
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION",
            show_default=False,
            help=f"{QUESTIONS}.",
        ),
    ],
    slot: Annotated[
        str,
        typer.Option("--slot", metavar="N|TIME|last", help="Which slot: by its number, or by a time that lies in it."),
    ] = "last",
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Every slot that begins at this time or later.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="… and before this time.")] = None,
    part: Annotated[
        str | None, typer.Option("--part", metavar="NAME", help="Of a product: ask about this part alone.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", metavar="PART=VALUE", help="Of a product: among those with this value. May be repeated."
        ),
    ] = None,
    stream: StreamName = None,
    domain_key: DomainKeys = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Answer a question about one slot, or about every slot of a period, with 95 % intervals.

    Where the domain changed in a period, slots that have no such value or part are named below the answers.

    Examples:
      dpi query visits.db top 5
      dpi query visits.db probability DE --slot 12
      dpi query visits.db probability DE --slot 2026-01-01T12:30
      dpi query visits.db count DE --from 2026-01-01 --to 2026-01-02
      dpi query ages.db quantile 0.5 --json
      dpi query pairs.db top 3 --part country --given age=30
    """
    ask = asked(question)
    with open(store, stream, keys=domain_keys(domain_key)) as stored:
        if begin is not None or end is not None:
            releases = list(stored.between(begin, end))
        else:
            releases = [stored.newest if slot == "last" else stored.at(_number(stored, slot))]
        found = ask_all(lambda release: ask(narrowed(release, part, given or [])), releases)
    words, answers = " ".join(question), found.answers
    if json:
        document(
            {
                "store": address(store),
                "stream": stored.name,
                "question": words,
                "answers": [_plain(*a) for a in answers],
                "undefined": [{"slot": release.slot, "why": why} for release, why in found.undefined],
            }
        )
        return
    _print(words, answers)
    for gap in found.gaps:
        note(f"no answer for {gap}")


def _number(stored: Releases, text: str) -> int:
    """The slot that a number names, or that a time lies in."""
    try:
        return int(text)
    except ValueError:
        slots = stored.slots
        return slots.at(slots.instant(text, "--slot"))


def _plain(release: Release, rows: Sequence[Row]) -> dict[str, object]:
    plain = [row.plain() for row in rows]
    return {"slot": release.slot, "start": release.start_text, "level": LEVEL, "rows": plain}


def _print(words: str, answers: Sequence[tuple[Release, list[Row]]]) -> None:
    labelled = any(row.label is not None for _, rows in answers for row in rows)
    rows = [
        [
            row_of.start_text or row_of.slot,
            *([row.label] if labelled else []),
            number(row.value),
            f"{number(row.lower)} … {number(row.upper)}",
        ]
        for row_of, found in answers
        for row in found
    ]
    headings = ["slot", *(["value"] if labelled else []), "share" if labelled else words, f"{LEVEL_TEXT} interval"]
    table(headings, rows, left=2 if labelled else 1)
    if words.split(" ")[0] in EVENLY:
        say("The interval is of noise alone: where in their bins values lie is not in it.")
