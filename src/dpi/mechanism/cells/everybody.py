"""Laws of everybody and of all veterans beside the cells: for streams whose users are alike, however often they paid.

Where most who are active were measured in one slot, the sum of their classes is a poll; two laws track the polls, one
with newcomers and one without, which begins as the other was. Their weights against the cells, and that of a uniform
law, are found by regression: what the cells missed in a poll, on what each law would have changed. So cells that were
too sure of themselves are drawn towards uniform. The release then corrects what is prior in the cells, never what was
measured. Newcomers are measured in every slot and need no correction: a burst of them says nothing of the others.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells import law
from dpi.mechanism.cells.counts import Counts
from dpi.mechanism.cells.law import Law, Table
from dpi.mechanism.cells.parts import Carried, Measured
from dpi.mechanism.filtering.gaussians import Gaussians

WEIGHTS, PRECISIONS = (0.2, 0.3, 0.0), (8.0, 8.0, 80.0)
"""Prior weights of the laws of veterans, of everybody and of the uniform one, and the precisions of these.

Source: by trial; measured by benchmarks/clocked.py (retail, flights-carrier).
"""

_PRIOR: Floats = np.column_stack([np.multiply(PRECISIONS, WEIGHTS), np.diag(PRECISIONS)])
"""The same as moments."""

HEARD = 0.2
"""A class counts as measured if its size is this many deviations of the noise of its sum.

Source: by trial; not measured by itself.
"""

MOST = 0.5
"""Share of those who are active that a poll needs.

Source: by trial; measured by benchmarks/clocked.py (swap, flights-carrier).
"""

SWEEPS = 30
"""Rounds of coordinate descent, at most: enough for three weights.

Source: by trial; tests/mechanism/cells/test_everybody.py compares with all subsets.
"""

MEMORY = 0.7
"""Share of the regression that is kept from poll to poll.

Source: by trial; not measured by itself.
"""


@dataclass(frozen=True, eq=False)
class Common:
    """The two laws, and the regression behind their weights."""

    veterans: Law
    everybody: Law
    moments: Floats
    """(3, 4): for each of three laws, the product with what was missed, then with what each would have changed."""


def weights(common: Common) -> Floats:
    """Weights of the three laws, none negative, together at most one; an unknown law has none.

    Least squares under these bounds: coordinate descent, which ends at the only minimum.
    """
    (own, aa, ab, ac), (theirs, ba, bb, bc), (even, ca, cb, cc) = (common.moments + _PRIOR).tolist()
    known = (common.veterans.known, common.everybody.known, common.everybody.known)
    a = b = c = 0.0
    for _ in range(SWEEPS):
        before = a, b, c
        a = max((own - (ab * b + ac * c)) / aa, 0.0) if known[0] else 0.0
        b = max((theirs - (ba * a + bc * c)) / bb, 0.0) if known[1] else 0.0
        c = max((even - (ca * a + cb * b)) / cc, 0.0) if known[2] else 0.0
        if abs(a - before[0]) < 1e-9 and abs(b - before[1]) < 1e-9 and abs(c - before[2]) < 1e-9:
            break
    return np.array([a, b, c]) / max(a + b + c, 1.0)


def opinions(common: Common, table: Table, new: Measured, old: float) -> Floats:
    """What each law says of the PDF of `old` veterans, (3, bins): that of everybody, less the newcomers."""
    own, all_of_them = (table.read(one).pdf for one in (common.veterans, common.everybody))
    rest = np.maximum((old + new.size) * all_of_them - new.size * new.realised.mean, 0.1 * old * all_of_them)
    return np.array([own, rest / rest.sum(), np.full(own.size, 1 / own.size)])


def polled(
    common: Common,
    table: Table,
    new: Measured,
    parts: Sequence[Measured],
    kept: Carried,
    said: Floats,
) -> Common:
    """After a slot: `said` is what the laws had said of the veterans."""
    good = [part for part in parts if part.size > HEARD * part.counts.total_variance**0.5]
    size, mean = kept.size[:, None], kept.law.mean
    variance = size**2 * kept.law.variance + kept.spread[:, None] * mean**2
    rest = Gaussians(np.add.reduce(size * mean), np.add.reduce(variance))
    for part in parts:
        if part not in good:
            rest = Gaussians(rest.mean + part.size * part.realised.mean, rest.variance + part.foreseen)
    heard = sum(part.size for part in good)
    old = max(heard + float(rest.mean.sum()), 1e-3)
    everybody, veterans, moments = common.everybody, common.veterans, common.moments
    if heard + new.size > MOST * (old + new.size):
        everybody = _assimilated(everybody, table, [new, *good], rest, old + new.size)
    if good and heard > MOST * old:
        if veterans.known:
            moments = MEMORY * moments + _moments(good, rest, old, said)
        else:
            veterans = common.everybody  # who they were when they were new
        veterans = _assimilated(veterans, table, good, rest, old)
    return Common(veterans, everybody, moments)


def _moments(parts: Sequence[Measured], rest: Gaussians, old: float, said: Floats) -> Floats:
    counts = _poll(parts, rest)
    cells = rest.mean + np.sum([part.expected * part.prior.mean for part in parts], axis=0)
    pdf = cells / cells.sum()
    size = max(law.fitted(counts, pdf, np.zeros_like(pdf), old)[0], 0.2 * old)
    away = old * (said - pdf)
    precise = away / (2 * counts.noise**2 + rest.variance + old * pdf)
    return np.column_stack([precise @ (counts.values - size * pdf), precise @ away.T])


def _poll(parts: Sequence[Measured], rest: Gaussians) -> Counts:
    """The sum of classes that were measured; the others count as they were estimated."""
    noise = sum(part.counts.noise**2 for part in parts) ** 0.5
    values = rest.mean + np.sum([part.counts.values for part in parts], axis=0)
    return Counts(values, float(noise), rest.variance)


def _assimilated(one: Law, table: Table, parts: Sequence[Measured], rest: Gaussians, size: float) -> Law:
    counts, size = _poll(parts, rest), max(size, 1.0)
    if not one.known:
        return law.begun(one, counts, max(size, counts.total_variance**0.5))
    reading = table.read(one)
    return law.assimilated(one, reading, counts, law.refitted(reading, counts, size, 0.0)).law
