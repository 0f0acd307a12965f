"""Routes for whoever draws: one slot, many slots thinned by a public rule, changes between two, grids of products.

**The rule of thinning.** Of a span with more slots than columns those are read whose number is a multiple of a power of
two, the smallest that suffices, and the last one. Which slots these are follows from numbers of slots alone, and a
column that was drawn once is drawn again as the stream goes on. So a picture of 100,000 slots reads some hundreds.

All of it is a function of releases that are seen; each number has the interval that its release states.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from starlette.responses import Response

from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.exact.integers import Integers
from dpi.reader import Releases
from dpi.release import Release, to_frame
from dpi.release.choice import catch_all, drawn, short_label
from dpi.release.grid import Grid, Shares, grid
from dpi.release.interval import LEVEL
from dpi.release.queries import Answer, Floats
from dpi.release.release import MEASURED
from dpi.service.endpoints import Call, document
from dpi.service.looking import MOST_BINS, MOST_RELEASES, release_at
from dpi.service.measured import measured
from dpi.service.problems import Problem

PARQUET = "application/vnd.apache.parquet"
MOST_COLUMNS, COLUMNS = 1000, 240
MOST_ROWS, ROWS = 500, 24
SETS = 96
"""Sets of neighbouring bins that an ordered domain is drawn as, at most."""
SEARCHED = 1 << 18
"""Bins of a domain whose names can be searched."""
_KINDS = {Categories: "categories", Bins: "bins", Hashed: "hashed", Product: "product"}


async def get_picture(call: Call) -> Response:
    """One slot: the largest values, those that are named, and those whose names have a text in them."""
    name, slot = call.stream, call.text("slot") or "newest"
    k = call.whole("k", ROWS, 0, MOST_ROWS) or 0
    level, search = _level(call), (call.text("search") or "").casefold()

    def read() -> dict[str, object]:
        with call.service.reading.releases(name) as releases:
            release = release_at(releases, slot)
            when = measured(releases, release)
        domain, (lower, upper) = release.domain, release.interval(level)
        codes = list(dict.fromkeys([*_codes(call, domain), *_found(release, search), *_largest(release, k)]))
        other = np.flatnonzero(catch_all(domain)).tolist()
        shown = list(dict.fromkeys([*codes, *(other if len(other) == 1 and not search else [])]))
        return {
            **_head(release, level),
            "measured": when,
            "rows": [_row(release, code, lower, upper, code in other) for code in shown],
            "other": float(release.pdf[other].sum()),
            "sets": _sets(release) if isinstance(domain, Bins) else None,
        }

    return document(await call.read(read))


async def get_series(call: Call) -> Response:
    """Many slots: the largest values over them, those that are named with intervals, users, and quantiles."""
    name, level = call.stream, _level(call)
    first, end = call.where("first"), call.where("end")
    columns, k = call.whole("columns", COLUMNS, 1, MOST_COLUMNS) or 1, call.whole("k", ROWS, 0, MOST_ROWS) or 0
    step = call.whole("step", None, 1)
    quantiles = [_part(text) for text in call.texts("quantile")]

    def read() -> dict[str, object]:
        with call.service.reading.releases(name) as releases:
            asked = releases.between(first, end)
            found = asked.store.extent(name, asked._first, asked._last)
            if found is None:
                return {"stream": name, "level": level, "step": 1, "slots": [], "starts": [], "rows": [], "before": 0}
            by = step or _step(found[1], found[2], columns)
            return _series(call, list(islice(_thinned(asked, *found[1:], by), MOST_COLUMNS)), by, k, level, quantiles)

    return document(await call.read(read))


async def get_changes(call: Call) -> Response:
    """What moved most from one slot (`beside`, the one before unless given) to another, with intervals.

    The interval of a difference goes from the lowest to the highest that the intervals of both slots allow. Each of
    these has a level half as far from 1: whatever the errors have in common, the difference has `level` or more.
    """
    name, slot, level = call.stream, call.text("slot") or "newest", _level(call)
    k, beside = call.whole("k", 10, 1, MOST_ROWS) or 1, call.text("beside")

    def read() -> dict[str, object]:
        with call.service.reading.releases(name) as releases:
            new = release_at(releases, slot)
            old = release_at(releases, str(new.slot - 1) if beside is None else beside)
        if new.domain != old.domain:
            raise Problem(422, "the domain has changed between these slots: ask of two slots since.")
        (low, high), (low_before, high_before) = (each.interval((1 + level) / 2) for each in (new, old))
        change, lower, upper = new.pdf - old.pdf, low - high_before, high - low_before
        sure = (lower > 0) | (upper < 0)
        order = np.lexsort((-np.abs(change), ~sure))[:k]
        rows = [
            {
                **_named(new.domain, int(code)), "value": float(new.pdf[code]),
                "before": float(old.pdf[code]), "change": float(change[code]), "lower": float(lower[code]),
                "upper": float(upper[code]), "sure": bool(sure[code]),
            }
            for code in order
        ]  # fmt: skip
        return {"slot": new.slot, "beside": old.slot, "level": level, "sure": int(sure.sum()), "rows": rows}

    return document(await call.read(read))


async def get_grid(call: Call) -> Response:
    """Two parts of a product in one slot: each pair's share, with the shares of each part by itself."""
    name, slot = call.stream, call.text("slot") or "newest"

    def read() -> dict[str, object]:
        with call.service.reading.releases(name) as releases:
            release = release_at(releases, slot)
        parts = list(release.domain.parts) if isinstance(release.domain, Product) else []
        if len(parts) < 2:
            raise Problem(422, "a grid is of a product of at least two parts.")
        found = grid(release, call.text("one") or parts[0], call.text("other") or parts[1])
        return {"slot": release.slot, "start": release.start_text, "level": LEVEL, **_grid(found)}

    return document(await call.read(read))


async def get_table(call: Call) -> Response:
    """Releases from `first` to before `end` as Parquet, a row for each; at most as many as in one answer."""
    name, first, end = call.stream, call.where("first"), call.where("end")

    def read() -> bytes:
        with call.service.reading.releases(name) as releases:
            asked = releases.between(first, end)
            size = max(1, next((release.pdf.size for release in asked), 1))
            frame = to_frame(islice(asked, min(MOST_RELEASES, max(1, MOST_BINS // size))))
        file = io.BytesIO()
        frame.write_parquet(file)
        return file.getvalue()

    headers = {"content-disposition": f'attachment; filename="{name}.parquet"'}
    return Response(await call.read(read), headers=headers, media_type=PARQUET)


def _series(
    call: Call, found: Sequence[Release], step: int, k: int, level: float, quantiles: Sequence[float]
) -> dict[str, object]:
    """Columns of one domain: that of the last. Those before a change of it are counted, and not drawn."""
    domain = found[-1].domain
    same = next((i for i, each in enumerate(reversed(found)) if each.domain != domain), len(found))
    found, before = found[len(found) - same :], len(found) - same
    pdf = np.stack([release.pdf for release in found])
    sets, labels = drawn(domain, pdf.mean(axis=0), max(k, 3) if isinstance(domain, Bins) else max(k, 1), SETS)
    rows = [
        {**(_named(domain, int(codes[0])) if codes.size == 1 else {"code": None, "label": label, "name": label}),
         "value": _short(pdf[:, codes].sum(axis=1))}
        for codes, label in zip(sets, labels, strict=True)
        if k
    ]  # fmt: skip
    ends = [release.interval(level) for release in found]
    chosen = [
        {
            **_named(domain, code), "value": _short(pdf[:, code]),
            "lower": _short([end[0][code] for end in ends]), "upper": _short([end[1][code] for end in ends]),
        }
        for code in _codes(call, domain)
    ]  # fmt: skip
    fans = []
    if quantiles:
        if not isinstance(domain, Bins):
            raise Problem(422, "`quantile` is of an ordered domain.")
        fans = [{"q": q, **_answers([release.quantile(q) for release in found], level)} for q in quantiles]
    return {
        "stream": call.stream,
        "level": level,
        "step": step,
        "slots": [release.slot for release in found],
        "starts": [release.start_text for release in found],
        "measured": [release.measured >= MEASURED for release in found],
        "rows": rows,
        "other": _short(pdf[:, catch_all(domain)].sum(axis=1)),
        "chosen": chosen,
        "users": _answers([release.count() for release in found], level),
        "quantiles": fans,
        "before": before,
    }


def _step(first: int, last: int, columns: int) -> int:
    """The smallest power of two of which a span has at most so many multiples.

    >>> _step(0, 239, 240), _step(0, 240, 240), _step(0, 99_999, 240)
    (1, 2, 512)
    """
    step = 1
    while last // step - (first - 1) // step > columns:
        step *= 2
    return step


def _thinned(releases: Releases, first: int, last: int, step: int) -> Iterator[Release]:
    """The releases of slots that are multiples of a step, and of the last."""
    if step == 1:
        yield from releases
        return
    for slot in [*range(-(-first // step) * step, last, step), last]:
        yield from releases.between(slot, slot + 1)


def _head(release: Release, level: float) -> dict[str, object]:
    users = release.count()
    ends = users.interval(level)
    return {
        "slot": release.slot,
        "start": release.start_text,
        "level": level,
        "domain": _domain(release.domain),
        "users": dict(zip(("value", "lower", "upper"), map(_finite, (users.value, *ends)), strict=True)),
        "freshness": release.freshness,
        "carried": release.carried,
        "age": release.age,
        "epsilon": release.epsilon,
        "epsilon_spent": release.epsilon_spent,
    }


def _domain(domain: Domain) -> dict[str, object]:
    kind = next((word for cls, word in _KINDS.items() if isinstance(domain, cls)), "other")
    parts = {n: _domain(part) for n, part in domain.parts.items()} if isinstance(domain, Product) else {}
    return {"kind": kind, "size": domain.size, "digest": domain.digest, "parts": parts}


def _named(domain: Domain, code: int) -> dict[str, object]:
    """A bin: its number, what it is called in a picture, and its name in full, by which alerts speak of it."""
    return {"code": code, "label": short_label(domain, code), "name": domain.label(code)}


def _row(release: Release, code: int, lower: Floats, upper: Floats, other: bool) -> dict[str, object]:
    return {
        **_named(release.domain, code),
        "value": float(release.pdf[code]),
        "lower": float(lower[code]),
        "upper": float(upper[code]),
        "other": other,
    }


def _sets(release: Release) -> list[dict[str, object]]:
    """An ordered domain as neighbouring bins, with where each begins and ends; the outer ones are open."""
    domain = release.domain
    assert isinstance(domain, Bins)  # noqa: S101 - asked of no other
    sets, labels = drawn(domain, release.pdf, None, SETS)
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


def _grid(found: Grid) -> dict[str, object]:
    def shares(of: Shares) -> dict[str, object]:
        return {"value": of.value.tolist(), "lower": of.lower.tolist(), "upper": of.upper.tolist()}

    def side(name: str, labels: Iterable[str], of: Shares) -> dict[str, object]:
        return {"name": name, "labels": list(labels), **shares(of)}

    return {
        "rows": side(found.rows.name, found.rows.labels, found.rows.shares),
        "columns": side(found.columns.name, found.columns.labels, found.columns.shares),
        "cells": shares(found.cells),
        "left_out": found.left_out,
        "summed": list(found.summed),
    }


def _largest(release: Release, k: int) -> list[int]:
    listed = np.flatnonzero(~catch_all(release.domain))
    if k < listed.size:
        listed = np.sort(listed[np.argpartition(-release.pdf[listed], k)[:k]]) if k else listed[:0]
    return [int(code) for code in listed[np.argsort(-release.pdf[listed], kind="stable")]]


def _found(release: Release, search: str) -> list[int]:
    """The largest bins whose names have a text in them."""
    if not search:
        return []
    if release.domain.size > SEARCHED:
        raise Problem(422, f"names are searched in domains of at most {SEARCHED} bins: name a `code`.")
    hits = [c for c in range(release.domain.size) if search in short_label(release.domain, c).casefold()]
    return sorted(hits, key=lambda code: -release.pdf[code])[:MOST_ROWS]


def _codes(call: Call, domain: Domain) -> list[int]:
    texts = call.texts("code")
    if len(texts) > MOST_ROWS or not all(each.isascii() and each.isdecimal() and len(each) < 10 for each in texts):
        raise Problem(422, f"`code` must be the number of a bin, at most {MOST_ROWS} times.")
    return [code for code in dict.fromkeys(map(int, texts)) if code < domain.size]


def _answers(found: Sequence[Answer], level: float) -> dict[str, object]:
    ends: Integers | Floats = np.array([(each.value, *each.interval(level)) for each in found])
    return {key: [_finite(v) for v in ends[:, i]] for i, key in enumerate(("value", "lower", "upper"))}


def _finite(number: float) -> float | None:
    return float(f"{number:.8g}") if math.isfinite(number) else None


def _short(numbers: Floats | Sequence[float]) -> list[float]:
    """Shares as they are drawn: to eight places."""
    return [float(each) for each in np.round(np.asarray(numbers, dtype=np.float64), 8)]


def _level(call: Call) -> float:
    level = call.number("level", LEVEL)
    if not 0 < level < 1:
        raise Problem(422, "`level` must be above 0 and below 1.")
    return level


def _part(text: str) -> float:
    try:
        q = float(text)
    except ValueError:
        q = math.nan
    if not 0 <= q <= 1:
        raise Problem(422, "`quantile` must be from 0 to 1.")
    return q
