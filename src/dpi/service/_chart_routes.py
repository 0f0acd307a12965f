"""Routes for charts: one slot, changes between two, grids of products, and many slots thinned by a public rule.

**The rule of thinning.** Of a span with more slots than columns those are read whose number is a multiple of a power of
two, the smallest that suffices, and the last one. Which slots these are follows from numbers of slots alone, and a
column that was drawn once is drawn again as the stream goes on. So a picture of 100,000 slots reads some hundreds.

All of it is a function of releases that are seen; each number has the interval that its release states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np

from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.reader import find_step
from dpi.release import Release
from dpi.release.changes import find_changes
from dpi.release.choice import catch_all, choose_sets, short_label
from dpi.release.grid import Shares, grid
from dpi.release.interval import LEVEL
from dpi.release.people import COUNTS, LABELS, tell_people
from dpi.release.queries import Answer, Floats
from dpi.release.release import MEASURED
from dpi.service import _endpoints as api
from dpi.service._endpoints import Call
from dpi.service._problems import Problem
from dpi.service._read_routes import find_release
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
            new, old = find_release(releases, slot), find_release(releases, beside)
        k = call.whole("k", MOVERS)
        if not k:
            raise Problem(422, "`k` must be at least 1: how many that moved most.")
        return _draw_changes(new, old, k, call.level)
    with call.releases() as releases:
        release = find_release(releases, slot)
        until = find_measured(releases, release)
    if call.text("one") is not None or call.text("other") is not None:
        return _draw_grid(release, call.text("one"), call.text("other"))
    return _draw_slot(call, release, until)


def _draw_slot(call: Call, release: Release, until: str | None) -> Document:
    """Draw the largest values of a slot, those that are named, and those whose names have a text in them."""
    k, level, search = call.whole("k", ROWS), call.level, (call.text("search") or "").casefold()
    domain, (lower, upper), users = release.domain, release.interval(level), release.count()
    codes = [*_read_codes(call, domain), *_search(release, search), *_find_largest(release, k)]
    other = np.flatnonzero(catch_all(domain)).tolist()
    shown = dict.fromkeys([*codes, *(other if len(other) == 1 and not search else [])])
    return {
        "slot": release.slot,
        "start": release.start_text,
        "level": level,
        "domain": _describe_domain(domain),
        "users": _ends(users, level),
        "people": [
            {"name": name, "label": LABELS[name], **_ends(answer, level)}
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
            {
                **_name(domain, code), "value": float(release.pdf[code]), "lower": float(lower[code]),
                "upper": float(upper[code]), "other": code in other,
            }
            for code in shown
        ],
        "other": float(release.pdf[other].sum()),
        "sets": _draw_sets(release) if isinstance(domain, Bins) else None,
    }  # fmt: skip


def _draw_changes(new: Release, old: Release, k: int, level: float) -> Document:
    """Draw what moved most from one slot to another, with intervals."""
    found = find_changes([new], [old], level)
    moved = found.change
    rows = [
        {
            **_name(new.domain, int(code)), "value": float(new.pdf[code]), "before": float(old.pdf[code]),
            "change": float(moved.value[code]), "lower": float(moved.lower[code]), "upper": float(moved.upper[code]),
            "sure": bool(found.sure[code]),
        }
        for code in found.largest(k)
    ]  # fmt: skip
    ends = {"slot": new.slot, "start": new.start_text, "beside": old.slot, "beside_start": old.start_text}
    return {**ends, "level": level, "sure": int(found.sure.sum()), "rows": rows}


def _draw_grid(release: Release, one: str | None, other: str | None) -> Document:
    """Draw two parts of a product in one slot: each pair's share, with the shares of each part by itself."""
    parts = list(release.domain.parts) if isinstance(release.domain, Product) else []
    if len(parts) < 2:
        raise Problem(422, "a grid is of a product of at least two parts.")
    found = grid(release, one or parts[0], other or parts[1])

    def plain(of: Shares) -> Document:
        return {"value": of.value.tolist(), "lower": of.lower.tolist(), "upper": of.upper.tolist()}

    return {
        "slot": release.slot,
        "start": release.start_text,
        "level": LEVEL,
        "rows": {"name": found.rows.name, "labels": list(found.rows.labels), **plain(found.rows.shares)},
        "columns": {"name": found.columns.name, "labels": list(found.columns.labels), **plain(found.columns.shares)},
        "cells": plain(found.cells),
        "left_out": found.left_out,
        "summed": list(found.summed),
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
        found = list(islice(part.every(by), MOST_COLUMNS))
    return _draw_series(call, found, by, k, level, quantiles)


def _draw_series(
    call: Call, found: Sequence[Release], step: int, k: int, level: float, quantiles: Sequence[float]
) -> Document:
    """Draw columns of one domain: that of the last. Those before a change of it are counted, and not drawn."""
    domain = found[-1].domain
    same = next((i for i, each in enumerate(reversed(found)) if each.domain != domain), len(found))
    found, before = found[len(found) - same :], len(found) - same
    pdf = np.stack([release.pdf for release in found])
    sets, labels = choose_sets(domain, pdf.mean(axis=0), max(k, 3) if isinstance(domain, Bins) else max(k, 1), SETS)
    rows = [
        {**(_name(domain, int(codes[0])) if codes.size == 1 else {"code": None, "label": label, "name": label}),
         "value": _round(pdf[:, codes].sum(axis=1))}
        for codes, label in zip(sets, labels, strict=True)
        if k
    ]  # fmt: skip
    ends = [release.interval(level) for release in found]
    chosen = [
        {
            **_name(domain, code), "value": _round(pdf[:, code]),
            "lower": _round([end[0][code] for end in ends]), "upper": _round([end[1][code] for end in ends]),
        }
        for code in _read_codes(call, domain)
    ]  # fmt: skip
    if quantiles and not isinstance(domain, Bins):
        raise Problem(422, "`quantile` is of an ordered domain.")
    return {
        "stream": call.stream,
        "level": level,
        "step": step,
        "slots": [release.slot for release in found],
        "starts": [release.start_text for release in found],
        "measured": [release.measured >= MEASURED for release in found],
        "rows": rows,
        "other": _round(pdf[:, catch_all(domain)].sum(axis=1)),
        "chosen": chosen,
        "users": _plain([release.count() for release in found], level),
        "people": {name: _plain(answers, level) for name, answers in _tell_counts(found).items()},
        "quantiles": [{"q": q, **_plain([release.quantile(q) for release in found], level)} for q in quantiles],
        "before": before,
    }


def _describe_domain(domain: Domain) -> Document:
    kind = next((word for cls, word in _KINDS.items() if isinstance(domain, cls)), "other")
    parts = {n: _describe_domain(part) for n, part in domain.parts.items()} if isinstance(domain, Product) else {}
    return {"kind": kind, "size": domain.size, "digest": domain.digest, "parts": parts}


def _name(domain: Domain, code: int) -> Document:
    """Return a bin: its number, what it is called in a picture, and its name in full, by which alerts speak of it."""
    return {"code": code, "label": short_label(domain, code), "name": domain.label(code)}


def _draw_sets(release: Release) -> list[Document]:
    """Draw an ordered domain as neighbouring bins, with where each begins and ends; the outer ones are open."""
    domain = release.domain
    assert isinstance(domain, Bins)  # noqa: S101 - asked of no other
    sets, labels = choose_sets(domain, release.pdf, None, SETS)
    pdf, variance = (np.array([each[codes].sum() for codes in sets]) for each in (release.pdf, release.variance))
    shares = Shares.of(pdf, variance, float(release.variance.sum()), release.total)
    edges = [None, *map(float, domain.edges), None]
    return [
        {
            "label": label, "low": edges[int(codes[0])], "high": edges[int(codes[-1]) + 1],
            "value": float(shares.value[i]), "lower": float(shares.lower[i]), "upper": float(shares.upper[i]),
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


def _tell_counts(found: Sequence[Release]) -> dict[str, list[Answer]]:
    """Return newcomers, users who came before and reach of slots, if one of these can tell them."""
    told = [tell_people(release) for release in found]
    unknown = Answer(math.nan, math.nan)
    return {name: [each.get(name, unknown) for each in told] for name in COUNTS} if any(told) else {}


def _ends(answer: Answer, level: float) -> Document:
    ends = zip(("value", "lower", "upper"), (answer.value, *answer.interval(level)), strict=True)
    return {key: _finite(number) for key, number in ends}


def _plain(found: Sequence[Answer], level: float) -> Document:
    rows = [(each.value, *each.interval(level)) for each in found]
    return {key: [_finite(row[i]) for row in rows] for i, key in enumerate(("value", "lower", "upper"))}


def _finite(number: float) -> float | None:
    return float(f"{number:.8g}") if math.isfinite(number) else None


def _round(numbers: Floats | Sequence[float]) -> list[float]:
    return [float(each) for each in np.round(np.asarray(numbers, dtype=np.float64), 8)]
