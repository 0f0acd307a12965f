"""The page: one HTML file with everything in it, and nothing fetched from anywhere.

It is a function of public releases and of what a verification found, so it may be given to anybody. The same releases
give the same bytes: there is no wall clock in it. A content policy in the page forbids every request and every script
but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from dpi.display.markup import Html, data_block, element, join
from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.choice import Values
from dpi.release.interval import LEVEL_TEXT
from dpi.report import charts, grids, words
from dpi.report.facts import Facts, reduce
from dpi.report.figures import budget_text, count_text, packed
from dpi.report.status import Status
from dpi.report.strip import mask

_POLICY = "default-src 'none';"
"""How the content policy of a page begins: by it a page is known."""


def page(
    releases: Sequence[Release], *, title: str, verification: Status | None = None, values: Values | None = None
) -> str:
    """The HTML page of a stream of releases, oldest first; `verification` says what a check of the store found.

    `values` is how many of the largest values are drawn by name, or a list of values or, for a product, either of them
    by the names of its parts. Where the domain has changed on the way, rows are blank in slots without such values.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=0.05))
    >>> releases = [stream.release(users=["ada", "bob"], values=["DE", "FR"])]
    >>> html = page(releases, title="Visits", verification=Status(entries=1, chain_intact=True))
    >>> html[:15], "<h1>Visits</h1>" in html, "https:" in html
    ('<!doctype html>', True, False)
    """
    if not isinstance(title, str) or not title.strip():
        raise OptionError("`title` must be a text that names the stream.")
    status = Status() if verification is None else verification
    facts = reduce(releases, values) if len(releases) else None
    script = _resource("script.js")
    body = _stream(title, facts, status) if facts else _nothing(title, status)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"{_POLICY} img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(_resource("style.css"))),
    )
    data = [data_block("data", _data(facts)), element("script", Html(script))] if facts else []
    return "<!doctype html>\n" + element("html", head, element("body", body, *data), lang="en") + "\n"


def write(path: str | os.PathLike[str], html: str) -> None:
    """Write a page, in UTF-8 whatever the machine's settings; replaces another such page and nothing else."""
    file = Path(path)
    if file.exists():
        with file.open("rb") as before:
            if escape(_POLICY).encode() not in before.read(4096):
                raise OptionError(f"{file} is there and is no page of a report: it is not replaced.")
    file.write_bytes(html.encode())


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _nothing(title: str, status: Status) -> Html:
    sentence = element("p", "No slot of this stream has been released yet, so there is nothing to show.")
    return element(
        "main",
        element("h1", title),
        *words.problems(status),
        sentence,
        _section("certificate", "Certificate", "", words.certificate(None, status)),
    )


def _stream(title: str, facts: Facts, status: Status) -> Html:
    toggle = element("button", "Dark or light", type="button", id="theme", hidden=True)
    top = (
        toggle,
        _headline(facts),
        *words.problems(status),
        *words.emptiness(facts),
        words.promise(facts),
        _tiles(facts, status),
    )
    which, few = "chosen" if facts.rows.chosen else "largest", len(facts.rows.curves)
    averaged = f" (here the mean of {facts.per_column} neighbouring slots)" if facts.per_column > 1 else ""
    gaps = "" if facts.measured.all() else _GAPS
    sections = (
        *((f"grid-{i}", *part) for i, part in enumerate(map(grids.section, facts.grids))),
        ("largest", _which(facts), _BARS, charts.bars(facts)),
        ("map", "Shares over time", _MAP.format(averaged=averaged) + gaps, charts.heat(facts)),
        ("series", f"The {few} {which} values over time", _series(facts) + gaps, charts.series(facts)),
        ("users", "Users", (_ACTIVE if facts.by_class else _PAYERS) + gaps, charts.totals(facts)),
        ("budget", "Budget", _BUDGET, charts.budget(facts)),
        ("promise", "What the promise means", "", words.meaning(facts)),
        ("certificate", "Certificate", "", words.certificate(facts, status)),
        ("recent", "The last slots", "", charts.recent(facts)),
        ("reading", "How to read this page", "", words.reading(facts)),
    )
    room = min(
        max(11.0, 1.5 + 0.55 * max(map(len, facts.rows.labels))), 22.0
    )  # rem: as wide as labels need, within bounds
    return element(
        "main",
        element("header", element("h1", title), *top),
        *(_section(*part) for part in sections),
        style=f"--label:{room:.1f}rem" + (f";--gaps:url({mask(~facts.measured)})" if gaps else ""),
        class_="gaps" if gaps else False,
    )


_GAPS = " Hatched stretches, with a broken line, were not measured: less than half of their picture is from their slot."
_BARS = f"The bar is the estimate, the line its {LEVEL_TEXT} interval."
_MAP = "A row is a value, a column a slot{averaged}, the colour the share of users."
_PAYERS = (
    f"Estimated number of users in a slot, with its {LEVEL_TEXT} interval. Where accounts are kept, users whose "
    "account is empty are not counted."
)
_ACTIVE = (
    "Estimated number of all active users in a slot, those who were not due to pay included, with its "
    f"{LEVEL_TEXT} interval."
)
_BUDGET = "What each slot cost, and the most that any one user can have lost so far by this stream."


def _which(facts: Facts) -> str:
    if facts.rows.chosen:
        return "The chosen values"
    return "All bins in their order" if facts.rows.fixed else "The largest values"


def _series(facts: Facts) -> str:
    by = "" if facts.rows.fixed and facts.rows.chosen else "; largest by the PDF over all slots"
    return f"With {LEVEL_TEXT} bands{by}. Each panel has its own scale from 0, and a band that leaves it is cut off."


def _section(identifier: str, title: str, introduction: str, content: Html) -> Html:
    heading = element("h2", title, id=f"{identifier}-title")
    introduced = [element("p", introduction, class_="soft")] if introduction else []
    return element("section", heading, *introduced, content, id=identifier, aria_labelledby=f"{identifier}-title")


def _headline(facts: Facts) -> Html:
    clock = f", times in {facts.zone}" if facts.zone else ""
    every = f" of {facts.width}" if facts.width else ""
    span = f"from {facts.first} to {facts.last}" if facts.slots > 1 else facts.first
    text = f"{facts.slots:,} {'slots' if facts.slots > 1 else 'slot'}{every}, {span}{clock}. {facts.domain.summary}."
    text += "".join(f" {sentence}" for sentence in words.changes(facts))
    text += f" In the newest slot: {facts.freshness}" if facts.freshness else ""
    return element("p", element("strong", words.measured(facts)), " ", text, class_="lead")


def _tiles(facts: Facts, status: Status) -> Html:
    users, *interval = count_text(*facts.total.last).split(" ", 1)
    tiles = [
        ("Newest picture measured", words.measured_ago(facts)),
        ("Slots", f"{facts.slots:,}"),
        ("Values", f"{facts.domain.size:,}"),
        ("ε per user", "see above" if facts.epsilon_total is None else budget_text(facts.epsilon_total)),
        ("Spent at most by this stream, per user", budget_text(float(facts.spent[-1]))),
        *(
            [(f"Spent at most by all {status.streams} streams of the store", budget_text(status.spent))]
            if status.streams > 1 and status.spent is not None
            else []
        ),
        ("Users in the newest slot", join(users, *(element("small", text) for text in interval))),
    ]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", text)) for name, text in tiles), class_="tiles"
    )


def _data(facts: Facts) -> dict[str, object]:
    """What the script needs for tooltips and for other slots: rounded numbers that the page may show."""
    bands = [facts.shares.row(row) for row in range(len(facts.rows.labels))]
    if facts.rest is not None:
        bands.append(facts.rest)
    ends = zip(facts.total.value.tolist(), facts.total.lower.tolist(), facts.total.upper.tolist(), strict=True)
    costs = zip(facts.epsilon.tolist(), facts.spent.tolist(), strict=True)
    return {
        "labels": [*facts.rows.labels, *([facts.rows.rest_label] if facts.rest is not None else [])],
        "named": len(facts.rows.labels),
        "fixed": facts.rows.fixed,
        "columns": facts.names,
        "measured": facts.measured.tolist(),
        "cells": [packed(band.value, band.lower, band.upper) for band in bands],
        "texts": {
            "total": [count_text(*end) for end in ends],
            "epsilon": [f"ε {budget_text(one)}, spent at most {budget_text(spent)}" for one, spent in costs],
        },
        "scale": charts.bar_scale(facts),
    }
