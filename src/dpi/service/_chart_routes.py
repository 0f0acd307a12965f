"""Routes for charts: one slot, changes between two, grids of products, and many slots thinned by a public rule.

**The rule of thinning.** Of a span with more slots than columns those are read whose number is a multiple of a power of
two, the smallest that suffices, and the last one. Which slots these are follows from numbers of slots alone, and a
column that was drawn once is drawn again as the stream goes on. So a picture of 100,000 slots reads some hundreds.

All of it is a function of releases that are seen; each number has the interval that its release states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.reader import find_step
from dpi.release import Release
from dpi.release.changes import find_changes
from dpi.release.choice import catch_all, choose_sets, short_label
from dpi.release.grid import Shares, grid
from dpi.release.interval import LEVEL
from dpi.release.people import COUNTS, LABELS, NUMBERS, tell_people
from dpi.release.quality import Quality, Unit, note
from dpi.release.queries import Answer, Floats
from dpi.release.release import MEASURED
from dpi.release.shown import show_answer, show_grid, show_shares
from dpi.service import _endpoints as api
from dpi.service._endpoints import Call
from dpi.service._problems import Problem
from dpi.service._read_routes import find_shown
from dpi.service.operations import find_measured
from dpi.service.tokens import READER

MOST_COLUMNS, COLUMNS = 1000, 240
MOST_ROWS, ROWS, MOVERS = 500, 24, 10
SETS = 96  # sets of neighbouring bins that an ordered domain is drawn as, at most
SEARCHED = 1 << 18  # bins of a domain whose names can be searched
_KINDS = {Categories: "categories", Bins: "bins", Hashed: "hashed", Product: "product"}
Document = dict[str, object]
LARGEST = api.Parameter("k", "How many of the largest.", api.whole(0, MOST_ROWS))
CODES = api.Parameter("code", "A bin, by its number.", {"type": "array", "items": api.whole(0)})


@api.route(
    "GET /v1/streams/{stream}/picture", READER, api.PLACE, LARGEST, CODES,
    api.Parameter("search", "Values whose names have this text in them."), api.LEVELS,
    api.Parameter("beside", "A slot before, to which it is compared.", api.WHERE), api.ONE, api.OTHER,
)  # fmt: skip
def get_picture(call: Call) -> Document:
    """One slot as it is drawn: values with intervals, users, how old it is.

    With `beside`, what moved most since then. With `one` and `other`, two parts of a product as a grid.
    """
    slot, beside = call.text("slot") or "newest", call.text("beside")
    if beside is not None:
        with call.releases() as releases:
            quality, new, old = releases.quality, find_shown(releases, slot), find_shown(releases, beside)
        k = call.whole("k", MOVERS)
        if not k:
            raise Problem(422, "`k` must be at least 1: how many that moved most.")
        return _draw_changes(new, old, k, call.level, quality)
    with call.releases() as releases:
        release, week = find_shown(releases, slot)
        quality = releases.quality
        until = find_measured(releases, release)
    if call.text("one") is not None or call.text("other") is not None:
        return _draw_grid(release, call.text("one"), call.text("other"), quality)
    return _draw_slot(call, release, week, quality, until)


def _draw_slot(
    call: Call, release: Release, week: Release | None, quality: Quality | None, until: str | None
) -> Document:
    """Draw the largest values of a slot, those that are named, and those whose names have a text in them."""
    k, level, search = call.whole("k", ROWS), call.level, (call.text("search") or "").casefold()
    domain, users = release.domain, _count(release, week, quality, level)
    codes = [*_read_codes(call, domain), *_search(release, search), *_find_largest(release, k)]
    other = np.flatnonzero(catch_all(domain)).tolist()
    drawn = list(dict.fromkeys([*codes, *(other if len(other) == 1 and not search else [])]))
    sets = [np.array([code]) for code in drawn]
    shares = show_shares(release, week, quality, sets, level).T if sets else np.zeros((0, 4))
    rest = show_shares(release, week, quality, [np.array(other)], level)[0, 0] if other else 0.0
    return {
        "slot": release.slot,
        "start": release.start_text,
        "level": level,
        "domain": _describe_domain(domain),
        "users": _ends(users, "%"),
        "shown": None if quality is None else str(quality),
        "small": _draw_small(release, quality, level),
        "people": [
            {"name": name, "label": LABELS[name], **_show_person(name, answer, quality, level)}
            for name, answer in tell_people(release).items()
        ],
        "freshness": release.freshness,
        "scope": release.scope,
        "carried": release.carried,
        "age": release.age,
        "epsilon": release.epsilon,
        "epsilon_spent": release.epsilon_spent,
        "measured": {
            "share": release.measured,
            "in_slot": release.measured >= MEASURED,
            "slots": release.measured_ago,
            "until": until,
        },
        "rows": [
            {**_name(domain, code), **_exact(band, "points"), "other": code in other}
            for code, band in zip(drawn, shares, strict=True)
        ],
        "other": None if math.isnan(rest) else float(rest),
        "sets": _draw_sets(release, week, quality) if isinstance(domain, Bins) else None,
    }  # fmt: skip


def _draw_small(release: Release, quality: Quality | None, level: float) -> Document | None:
    """Draw all values of too few users as one."""
    if quality is None:
        return None
    few = np.flatnonzero(quality.small(release.pdf * release.total))
    if not few.size:
        return None
    rules = replace(quality, size=None)
    return {"label": quality.label(few.size), **_exact(show_shares(release, None, rules, [few], level)[:, 0], "points")}


def _draw_changes(
    now: tuple[Release, Release | None],
    before: tuple[Release, Release | None],
    k: int,
    level: float,
    quality: Quality | None,
) -> Document:
    """Draw what moved most from one slot to another, with intervals, of values that are shown in both."""
    (new, _), (old, _) = now, before
    changes = find_changes([new], [old], level)
    bins = [np.array([code]) for code in range(new.domain.size if quality is not None else 0)]
    shown = np.ones(new.domain.size, dtype=np.bool_)
    for pair in (now, before) if bins else ():
        shown &= show_shares(*pair, quality, bins)[3] == 0
    moved, order = changes.change, changes.largest(new.domain.size)
    rows = [
        {
            **_name(new.domain, int(code)), "value": float(new.pdf[code]), "before": float(old.pdf[code]),
            "change": float(moved.value[code]), "lower": float(moved.lower[code]), "upper": float(moved.upper[code]),
            "sure": bool(changes.sure[code]),
        }
        for code in order[shown[order]][:k]
    ]  # fmt: skip
    ends = {"slot": new.slot, "start": new.start_text, "beside": old.slot, "beside_start": old.start_text}
    return {**ends, "level": level, "sure": int((changes.sure & shown).sum()), "rows": rows}


def _draw_grid(release: Release, one: str | None, other: str | None, quality: Quality | None) -> Document:
    """Draw two parts of a product in one slot: each pair's share, with the shares of each part by itself."""
    parts = list(release.domain.parts) if isinstance(release.domain, Product) else []
    if len(parts) < 2:
        raise Problem(422, "a grid is of a product of at least two parts.")
    table = show_grid(grid(release, one or parts[0], other or parts[1]), quality, release.total)

    def plain(of: Shares) -> Document:
        ends: Document = {key: _known(end) for key, end in zip(_ENDS, (of.value, of.lower, of.upper), strict=True)}
        return ends if of.codes is None else {**ends, "note": _notes(of.codes)}

    return {
        "slot": release.slot,
        "start": release.start_text,
        "level": LEVEL,
        "rows": {"name": table.rows.name, "labels": list(table.rows.labels), **plain(table.rows.shares)},
        "columns": {"name": table.columns.name, "labels": list(table.columns.labels), **plain(table.columns.shares)},
        "cells": plain(table.cells),
        "left_out": table.left_out,
        "summed": list(table.summed),
    }


@api.route(
    "GET /v1/streams/{stream}/series", READER, api.FIRST, api.END, LARGEST, CODES, api.LEVELS,
    api.Parameter("columns", "Slots at most.", api.whole(1, MOST_COLUMNS)),
    api.Parameter("step", "Every slot that is a multiple of this.", api.whole(1)),
    api.Parameter("quantile", "Of ordered values.", {"type": "array", "items": api.NUMBER}),
)  # fmt: skip
def get_series(call: Call) -> Document:
    """Many slots as they are drawn; of a long span, every 2ⁿ-th and the last."""
    first, end, level = call.where("first"), call.where("end"), call.level
    columns, step = call.whole("columns", COLUMNS), call.whole("step", None)
    k, quantiles = call.whole("k", ROWS), [api.read_number(text) for text in call.texts("quantile")]
    if not all(0 <= q <= 1 for q in quantiles):
        raise Problem(422, "`quantile` must be from 0 to 1.")
    with call.releases() as releases:
        part = releases.between(first, end)
        extent = part.extent
        if extent is None:
            none = {"slots": [], "starts": [], "rows": [], "before": 0}
            return {"stream": call.stream, "level": level, "step": 1, **none}
        by = step or find_step(extent[1], extent[2], columns)
        # a thinned picture is of its slots alone: weeks would be read whole for every column
        shown = part.shown() if by == 1 else ((release, None) for release in part.every(by))
        pairs, quality = list(islice(shown, MOST_COLUMNS)), releases.quality
    return _draw_series(call, pairs, by, k, level, quantiles, quality)


def _draw_series(
    call: Call,
    pairs: Sequence[tuple[Release, Release | None]],
    step: int,
    k: int,
    level: float,
    quantiles: Sequence[float],
    quality: Quality | None,
) -> Document:
    """Draw columns of one domain: that of the last. Those before a change of it are counted, and not drawn."""
    domain = pairs[-1][0].domain
    same = next((i for i, (each, _) in enumerate(reversed(pairs)) if each.domain != domain), len(pairs))
    pairs, before = pairs[len(pairs) - same :], len(pairs) - same
    releases = [release for release, _ in pairs]
    rows = _draw_largest(pairs, k, level, quality)
    chosen = _draw_chosen(_read_codes(call, domain), pairs, level, quality)
    others = np.flatnonzero(catch_all(domain))
    rest = [show_shares(*pair, quality, [others])[0, 0] if others.size else 0.0 for pair in pairs]
    if quantiles and not isinstance(domain, Bins):
        raise Problem(422, "`quantile` is of an ordered domain.")
    return {
        "stream": call.stream,
        "level": level,
        "step": step,
        "slots": [release.slot for release in releases],
        "starts": [release.start_text for release in releases],
        "measured": [release.measured >= MEASURED for release in releases],
        "rows": rows,
        "other": _round(rest),
        "chosen": chosen,
        "users": _plain([_count(*pair, quality, level) for pair in pairs]),
        "people": {
            name: _plain([show_answer(each, None, quality, "%", level) for each in answers])
            for name, answers in _tell_counts(releases).items()
        },
        "quantiles": [
            {"q": q, **_plain([show_answer(each.quantile(q), None, None, "%", level) for each in releases])}
            for q in quantiles
        ],
        "before": before,
    }


def _draw_largest(
    pairs: Sequence[tuple[Release, Release | None]], k: int, level: float, quality: Quality | None
) -> list[Document]:
    """Draw the k largest bins on average, or of an ordered domain so many sets of neighbours."""
    domain = pairs[-1][0].domain
    pdf = np.stack([release.pdf for release, _ in pairs])
    sets, labels = choose_sets(domain, pdf.mean(axis=0), max(k, 3) if isinstance(domain, Bins) else max(k, 1), SETS)
    bands = np.stack([show_shares(*pair, quality, sets, level) for pair in pairs], axis=-1)
    return [
        {**(_name(domain, int(codes[0])) if codes.size == 1 else {"code": None, "label": label, "name": label}),
         "value": _round(band[0]), **({} if quality is None else {"note": _notes(band[3])})}
        for codes, label, band in zip(sets, labels, bands.swapaxes(0, 1), strict=True)
        if k
    ]  # fmt: skip


def _draw_chosen(
    codes: Sequence[int], pairs: Sequence[tuple[Release, Release | None]], level: float, quality: Quality | None
) -> list[Document]:
    """Draw the bins that were asked for by their numbers, with their intervals."""
    bins = [np.array([code]) for code in codes]
    ends = [show_shares(*pair, quality, bins, level) for pair in pairs] if bins else []
    domain = pairs[-1][0].domain
    return [
        {
            **_name(domain, code), **{key: _round([end[j, i] for end in ends]) for j, key in enumerate(_ENDS)},
            **({} if quality is None else {"note": _notes(np.array([end[3, i] for end in ends]))}),
        }
        for i, code in enumerate(codes)
    ]  # fmt: skip


def _describe_domain(domain: Domain) -> Document:
    kind = next((word for cls, word in _KINDS.items() if isinstance(domain, cls)), "other")
    parts = {n: _describe_domain(part) for n, part in domain.parts.items()} if isinstance(domain, Product) else {}
    return {"kind": kind, "size": domain.size, "digest": domain.digest, "parts": parts}


def _name(domain: Domain, code: int) -> Document:
    """Return a bin: its number, what it is called in a picture, and its name in full, by which alerts speak of it."""
    return {"code": code, "label": short_label(domain, code), "name": domain.label(code)}


def _draw_sets(release: Release, week: Release | None, quality: Quality | None) -> list[Document]:
    """Draw an ordered domain as neighbouring bins, with where each begins and ends; the outer ones are open."""
    domain = release.domain
    assert isinstance(domain, Bins)  # noqa: S101 - asked of no other
    sets, labels = choose_sets(domain, release.pdf, None, SETS)
    shares = show_shares(release, week, quality, sets)
    edges = [None, *map(float, domain.edges), None]
    return [
        {
            "label": label, "low": edges[int(codes[0])], "high": edges[int(codes[-1]) + 1],
            **_exact(shares[:, i], "points"),
        }
        for i, (codes, label) in enumerate(zip(sets, labels, strict=True))
    ]  # fmt: skip


def _find_largest(release: Release, k: int) -> list[int]:
    listed = np.flatnonzero(~catch_all(release.domain))
    if k < listed.size:
        listed = np.sort(listed[np.argpartition(-release.pdf[listed], k)[:k]]) if k else listed[:0]
    return [int(code) for code in listed[np.argsort(-release.pdf[listed], kind="stable")]]


def _search(release: Release, search: str) -> list[int]:
    if not search:
        return []
    if release.domain.size > SEARCHED:
        raise Problem(422, f"names are searched in domains of at most {SEARCHED} bins: name a `code`.")
    hits = [c for c in range(release.domain.size) if search in short_label(release.domain, c).casefold()]
    return sorted(hits, key=lambda code: -release.pdf[code])[:MOST_ROWS]


def _read_codes(call: Call, domain: Domain) -> list[int]:
    texts = call.texts("code")
    if len(texts) > MOST_ROWS or not all(each.isascii() and each.isdecimal() and len(each) < 10 for each in texts):
        raise Problem(422, f"`code` must be the number of a bin, at most {MOST_ROWS} times.")
    return [code for code in dict.fromkeys(map(int, texts)) if code < domain.size]


def _tell_counts(releases: Sequence[Release]) -> dict[str, list[Answer]]:
    """Return newcomers, users who came before and reach of slots, if one of these can tell them."""
    told = [tell_people(release) for release in releases]
    unknown = Answer(math.nan, math.nan)
    return {name: [each.get(name, unknown) for each in told] for name in COUNTS} if any(told) else {}


def _count(release: Release, week: Release | None, quality: Quality | None, level: float) -> Floats:
    return show_answer(release.count(), None if week is None else week.count(), quality, "%", level)


def _show_person(name: str, answer: Answer, quality: Quality | None, level: float) -> Document:
    """Return a number about people as it is shown; how often somebody comes is told with its interval, always."""
    unit: Unit = "%" if name in NUMBERS else "points"
    return _ends(show_answer(answer, None, None if name == "further_activity" else quality, unit, level), unit)


def _ends(band: Floats, unit: Unit) -> Document:
    return {key: _finite(end) for key, end in zip(_ENDS, band[:3], strict=True)} | _said(band, unit)


def _exact(band: Floats, unit: Unit) -> Document:
    ends = {key: None if math.isnan(end) else float(end) for key, end in zip(_ENDS, band[:3], strict=True)}
    return ends | _said(band, unit)


def _said(band: Floats, unit: Unit) -> Document:
    text = note(float(band[3]), unit)
    return {"note": text} if text else {}


def _notes(codes: Floats) -> list[object]:
    """Return why each number is not shown, in the order and shape of their codes."""
    return [_notes(row) if row.ndim else note(float(row), "points") for row in codes]


def _known(numbers: Floats) -> list[object]:
    """Return numbers in their shape, null for those that are not shown."""
    return [_known(row) if row.ndim else None if math.isnan(row) else float(row) for row in numbers]


def _plain(bands: Sequence[Floats]) -> Document:
    return {key: [_finite(band[i]) for band in bands] for i, key in enumerate(_ENDS)}


def _finite(number: float) -> float | None:
    return float(f"{number:.8g}") if math.isfinite(number) else None


def _round(numbers: Floats | Sequence[float]) -> list[object]:
    return _known(np.asarray(np.round(np.array(numbers, dtype=np.float64), 8)))


_ENDS = ("value", "lower", "upper")
