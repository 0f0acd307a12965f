"""`dpi query`: a question about releases, answered with error bars. Releases are public, so it costs no privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from dpi.cli.config import Config
from dpi.cli.options import DomainKeys, Json, StoreArgument, StreamName
from dpi.cli.output import address, document, number, table
from dpi.domain import Bins, Domain, Product
from dpi.errors import OptionError
from dpi.reader import open
from dpi.release import Release
from dpi.release.interval import LEVEL, LEVEL_TEXT
from dpi.release.queries import Answer, Distribution
from dpi.settings.domains import domain_keys


@dataclass(frozen=True)
class Row:
    """One number of an answer: about a label, if the question names several."""

    label: str | None
    value: float
    lower: float
    upper: float


def query(
    store: StoreArgument,
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION",
            show_default=False,
            help="top K, probability VALUE, count [VALUE], total, mean, median, quantile Q, range LOW HIGH, sum, "
            "spread, correlation PART PART.",
        ),
    ],
    slot: Annotated[str, typer.Option("--slot", metavar="N|last", help="Which slot.")] = "last",
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

    Examples:
      dpi query visits.db top 5
      dpi query visits.db probability DE --slot 12
      dpi query visits.db count DE --from 2026-01-01 --to 2026-01-02
      dpi query ages.db quantile 0.5 --json
      dpi query pairs.db top 3 --part country --given age=30
    """
    ask = asked(question)
    with open(store, stream, keys=domain_keys(domain_key)) as stored:
        if begin is not None or end is not None:
            releases = list(stored.between(begin, end))
        else:
            releases = [stored.newest if slot == "last" else stored.at(_whole(slot, "--slot"))]
        answers = [(release, ask(narrowed(release, part, given or []))) for release in releases]
    words = " ".join(question)
    if json:
        document(
            {
                "store": address(store),
                "stream": stored.name,
                "question": words,
                "answers": [_plain(*a) for a in answers],
            }
        )
        return
    _print(words, answers)


def asked(words: Sequence[str]) -> Callable[[Distribution], list[Row]]:
    """The question that the words mean.

    >>> from dpi.domain import Bins
    >>> ages = Distribution(Bins([0, 10, 20]), np.array([0.0, 0.5, 0.5, 0.0]), np.zeros(4), total=100.0)
    >>> asked(["mean"])(ages), asked(["total"])(ages)[0].value
    ([Row(label=None, value=10.0, lower=10.0, upper=10.0)], 100.0)
    """
    match list(words):
        case ["top", k]:
            return lambda d: _top(d, _whole(k, "top"))
        case ["probability" | "count" as what, value, *rest]:
            texts = [value, *rest]
            return lambda d: _one(getattr(d, what)(meant(d.domain, texts)), 0, 1 if what == "probability" else math.inf)
        case ["count"] | ["total"]:
            return lambda d: _one(d.count(), 0)
        case ["mean" | "median" | "sum" | "spread" as what]:
            return lambda d: _one(getattr(d, what)())
        case ["quantile", q]:
            return lambda d: _one(d.quantile(_number(q, "quantile")))
        case ["range", low, high]:
            return lambda d: _one(d.range(_number(low, "range"), _number(high, "range")), 0, 1)
        case ["correlation", one, other]:
            return lambda d: _one(d.correlation(one, other))
    raise OptionError(
        f"unknown question {' '.join(words)!r}: ask top K, probability VALUE, count [VALUE], total, mean, median, "
        "quantile Q, range LOW HIGH, sum, spread, or correlation PART PART."
    )


def meant(domain: Domain, texts: Sequence[str]) -> object:
    """A value of the domain: a text, a number for ordered bins, PART=VALUE … for a product."""
    if isinstance(domain, Product):
        named = dict(text.partition("=")[::2] for text in texts)
        if named.keys() != domain.parts.keys():
            raise OptionError(f"a value of this domain is {' '.join(f'{part}=VALUE' for part in domain.parts)}.")
        return {part: meant(domain.parts[part], [text]) for part, text in named.items()}
    if len(texts) > 1:
        raise OptionError("ask about one value at a time; put it in quotes if it holds spaces.")
    return _number(texts[0], "value") if isinstance(domain, Bins) else texts[0]


def narrowed(release: Release, part: str | None, given: Sequence[str]) -> Distribution:
    """The release, or one part of it, among those with some value."""
    found: Distribution = release
    if given:
        domain, named = release.domain, dict(text.partition("=")[::2] for text in given)
        parts = domain.parts if isinstance(domain, Product) else {}
        found = found.conditional(**{n: meant(parts[n], [text]) if n in parts else text for n, text in named.items()})
    return found.marginal(part) if part is not None and isinstance(found.domain, Product) else found


def _one(answer: Answer, least: float = -math.inf, most: float = math.inf) -> list[Row]:
    """One number; its interval is cut where no share or count can be."""
    lower, upper = answer.interval(LEVEL)
    return [Row(None, answer.value, max(lower, least), min(upper, most))]


def _top(found: Distribution, k: int) -> list[Row]:
    if k < 1:
        raise OptionError(f"`top` must be a whole number above 0. Got {k}.")
    lower, upper = found.interval(LEVEL)
    order = [int(code) for code in np.argsort(-found.pdf, kind="stable")[:k]]
    return [Row(found.domain.label(c), float(found.pdf[c]), float(lower[c]), float(upper[c])) for c in order]


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"`{name}` must be a whole number. Got {text!r}.") from None


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError(f"`{name}` must be a number. Got {text!r}.")
    return value


def _plain(release: Release, rows: Sequence[Row]) -> dict[str, object]:
    plain = [
        {
            **({} if row.label is None else {"label": row.label}),
            "value": row.value,
            "lower": row.lower,
            "upper": row.upper,
        }
        for row in rows
    ]
    return {"slot": release.slot, "start": release.start, "level": LEVEL, "rows": plain}


def _print(words: str, answers: Sequence[tuple[Release, list[Row]]]) -> None:
    labelled = any(row.label is not None for _, rows in answers for row in rows)
    rows = [
        [
            row_of.start or row_of.slot,
            *([row.label] if labelled else []),
            number(row.value),
            f"{number(row.lower)} … {number(row.upper)}",
        ]
        for row_of, found in answers
        for row in found
    ]
    headings = ["slot", *(["value"] if labelled else []), "share" if labelled else words, f"{LEVEL_TEXT} interval"]
    table(headings, rows, left=2 if labelled else 1)
