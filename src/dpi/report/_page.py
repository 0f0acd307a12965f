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

import numpy as np

from dpi.display.markup import Html, data_block, element, join
from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.choice import Values
from dpi.release.interval import LEVEL_TEXT
from dpi.release.people import COUNTS, is_of_its_slot
from dpi.release.quality import Quality
from dpi.report import _charts, _page_text
from dpi.report._facts import UPPER, VALUE, Facts, reduce
from dpi.report._figures import budget_text, count_text, pack
from dpi.report._page_text import Status

_POLICY = "default-src 'none';"  # how the content policy of a page begins: by it a page is known


def page(
    releases: Sequence[Release],
    *,
    title: str,
    verification: Status | None = None,
    values: Values | None = None,
    quality: Quality | None = None,
    week: int | None = None,
) -> str:
    """Return the HTML page of a stream of releases, oldest first; `verification` says what a check of the store found.

    `values` is how many of the largest values are drawn by name, or a list of values or, for a product, either of them
    by the names of its parts. Where the domain has changed on the way, rows are blank in slots without such values.
    `quality` has rules of what is shown, and `week` is how many slots a week has, where these ask for one.

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
    facts = reduce(releases, values, quality, week) if len(releases) else None
    script = _resource("script.js")
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
    body = _stream(title, facts, status) if facts else _nothing(title, status)
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
    return element(
        "main",
        element("h1", title),
        *_page_text.warn(None, status),
        element("p", "No slot of this stream has been released yet, so there is nothing to show."),
        _section("certificate", "Certificate", "", _page_text.describe_certificate(None, status)),
    )


def _stream(title: str, facts: Facts, status: Status) -> Html:
    header = element(
        "header",
        element("h1", title),
        element("button", "Dark or light", type="button", id="theme", hidden=True),
        _headline(facts),
        *_page_text.warn(facts, status),
        _page_text.state_promise(facts),
        _tiles(facts, status),
    )
    which, few = "chosen" if facts.rows.chosen else "largest", len(facts.rows.curves)
    averaged = f" (here the mean of {facts.per_column} neighbouring slots)" if facts.per_column > 1 else ""
    gaps, map_gaps = ("", "") if facts.measured.all() else (_GAPS, _MAP_GAPS)
    users = _USERS + ("" if facts.newest.carried is None else _CLASSES)
    users += _PAYERS if np.isinf(facts.total[UPPER]).any() else ""
    if np.isfinite(facts.people[:, VALUE]).any():
        users += _PEOPLE
    sections = (
        *((f"grid-{i}", *part) for i, part in enumerate(map(_charts.draw_grid, facts.grids))),
        ("largest", _which(facts), _BARS, _charts.draw_bars(facts)),
        ("map", "Shares over time", _MAP.format(averaged=averaged) + map_gaps, _charts.draw_map(facts)),
        ("series", f"The {few} {which} values over time", _series(facts) + gaps, _charts.draw_series(facts)),
        ("users", "Users", users + ("" if is_of_its_slot("total", facts.newest) else gaps), _charts.draw_totals(facts)),
        ("budget", "Budget", _BUDGET, _charts.draw_budget(facts)),
        ("promise", "What the promise means", "", _page_text.explain_promise(facts)),
        ("certificate", "Certificate", "", _page_text.describe_certificate(facts, status)),
        ("recent", "The last slots", "", _charts.list_recent(facts)),
        ("reading", "How to read this page", "", _page_text.explain_page(facts)),
    )
    room = min(max(11.0, 1.5 + 0.55 * max(map(len, facts.rows.labels))), 22.0)  # rem: as labels need, within bounds
    return element(
        "main",
        header,
        *(_section(*part) for part in sections),
        style=f"--label:{room:.1f}rem",
    )


_GAPS = " Dots are slots that were measured. Where a line is grey, most of the estimate comes from earlier slots."
_MAP_GAPS = " The last row marks measured slots; in the others most of the estimate comes from earlier slots."
_BARS = f"The bold part of a bar is the {LEVEL_TEXT} interval, the mark in it the estimate."
_MAP = "A row is a value, a column a slot{averaged}, the colour the share of users."
_USERS = f"Estimated number of active users in a slot, with its {LEVEL_TEXT} interval."
_CLASSES = " Users who were not due to pay are included."
_PAYERS = " Where users may be missing because their account is short, the band is open above."
_PEOPLE = (
    " Newcomers came to this stream for the first time, returning users came before, and reach counts all users so "
    "far. A number is left out while its interval would be as wide as the model's prior."
)
_BUDGET = (
    "The upper chart is the largest payment of any one user in each slot, often that of a new user. The lower chart is "
    "the most that one user can have paid by then, over all slots of this stream. It can be far below the sum of the "
    "upper chart, because different users pay in different slots."
)


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
    slots = f"{facts.slots:,} {'slots' if facts.slots > 1 else 'slot'}{every}, {span}{clock}."
    told = [f"In the newest slot: {text}" for text in (facts.newest.freshness, facts.newest.scope) if text]
    told += [] if facts.quality is None else [f"The publisher shows {facts.quality}."]
    text = " ".join([slots, f"{facts.newest.domain.summary}.", *_page_text.describe_changes(facts), *told])
    return element("p", element("strong", _page_text.describe_age(facts)), " ", text, class_="lead")


def _tiles(facts: Facts, status: Status) -> Html:
    text = count_text(*facts.total[:, -1])
    estimate, _, more = text.partition(" (")
    interval, _, note = more.partition(")")
    told = f"{LEVEL_TEXT} interval; the estimate is {estimate}{note}" if interval else text
    together = f"Spent at most by all {status.streams} streams of the store"
    by_all = [] if status.streams == 1 or status.spent is None else [(together, budget_text(status.spent))]
    tiles = [
        ("Newest estimate measured", _page_text.age_figure(facts)),
        ("Slots", f"{facts.slots:,}"),
        ("Values", f"{facts.newest.domain.size:,}"),
        ("ε per user", "see above" if facts.epsilon_total is None else budget_text(facts.epsilon_total)),
        ("Spent at most by this stream, per user", budget_text(float(facts.spent[-1]))),
        *by_all,
        ("Users in the newest slot", join(interval or "–", element("small", told))),
    ]
    parts = [element("div", element("dt", name), element("dd", text)) for name, text in tiles]
    return element("dl", *parts, class_="tiles")


def _data(facts: Facts) -> dict[str, object]:
    """Return what the script needs for tooltips and for other slots: rounded numbers that the page may show."""
    bands = np.moveaxis(facts.shares, 1, 0)
    rest = [] if facts.rest is None else [facts.rest]
    costs = zip(facts.epsilon.tolist(), facts.spent.tolist(), strict=True)
    return {
        "labels": [*facts.rows.labels, *([facts.rows.rest_label] if rest else [])],
        "named": len(facts.rows.labels),
        "fixed": facts.rows.fixed,
        "columns": facts.names,
        "measured": facts.measured.tolist(),
        "cells": [pack(*band) for band in (*bands, *rest)],
        "texts": {
            "users": [count_text(*ends) for ends in facts.total.T],
            **{name: [count_text(*ends) for ends in band.T] for name, band in zip(COUNTS, facts.people, strict=True)},
            "epsilon": [
                f"largest payment {budget_text(one)}, one user in total at most {budget_text(spent)}"
                for one, spent in costs
            ],
        },
        "scale": _charts.bar_scale(facts),
    }
