"""Made-up streams with a known truth: each yields, slot after slot, counts and the PDF they were drawn from.

A stream has no users until `populate` gives its records to some: a population of a stated size in which a stated share,
the churn, is replaced by newcomers in every slot. The randomness here is that of the data; it hides nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.demo import PAGES, pages
from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.errors import OptionError, meant
from dpi.exact.integers import Integers

Floats = npt.NDArray[np.float64]
Counts = Iterator[tuple[Integers, Floats]]


def zipf(bins: int, exponent: float = 1.1) -> Floats:
    """Zipf's law, the largest bin first.

    >>> zipf(2, exponent=1).round(3).tolist()
    [0.667, 0.333]
    """
    weights = np.arange(1, bins + 1.0) ** -exponent
    return np.asarray(weights / weights.sum())


def published(rng: np.random.Generator, slots: int, bins: int = 100, mean: float = 100) -> Counts:
    """Nearly uniform: each count is normal around a mean, with a deviation of 1 to 10 that is drawn for the slot."""
    for _ in range(slots):
        counts = np.maximum(0, np.rint(rng.normal(mean, rng.integers(1, 11), bins))).astype(np.int64)
        yield counts, counts / counts.sum()


def drifting(
    rng: np.random.Generator,
    slots: int,
    bins: int = 1000,
    records: int = 50_000,
    drift: float = 0.01,
    reshuffle: int | None = None,
    empty: float = 0.0,
) -> Counts:
    """Zipf levels whose logarithms walk; reshuffled every so many slots; a share of the slots is empty."""
    log = np.log(rng.permutation(zipf(bins)))
    for slot in range(slots):
        if reshuffle and slot and slot % reshuffle == 0:
            log = rng.permutation(log)
        if slot and drift:
            log = log + drift * rng.standard_normal(bins)
        pdf = np.exp(log - log.max())
        pdf /= pdf.sum()
        present = 0 if empty and rng.random() < empty else records
        yield rng.multinomial(present, pdf), pdf


def bursts(rng: np.random.Generator, slots: int, records: int = 50_000, every: int = 100, length: int = 8) -> Counts:
    """A drifting stream in which now and then, for a few slots, one bin draws ten times all records."""
    hot = 0
    for slot, (counts, pdf) in enumerate(drifting(rng, slots, records=records)):
        if slot % every == 0:
            hot = int(rng.integers(pdf.size))
        if slot >= every // 2 and (slot + every // 2) % every < length:
            burst = 0.1 * pdf
            burst[hot] += 0.9
            yield rng.multinomial(10 * records, burst), burst
        else:
            yield counts, pdf


def seasonal(rng: np.random.Generator, slots: int, bins: int = 200, records: int = 20_000, period: int = 24) -> Counts:
    """Each bin's log-level is a sine of the public period with its own phase; so is the number of records."""
    base, phase = np.log(rng.permutation(zipf(bins))), rng.uniform(0, 2 * np.pi, bins)
    for slot in range(slots):
        angle = 2 * np.pi * slot / period
        pdf = np.exp(base + np.sin(angle + phase))
        pdf /= pdf.sum()
        yield rng.multinomial(int(records * (1 + 0.5 * np.sin(angle))), pdf), pdf


def smooth(rng: np.random.Generator, slots: int, bins: int = 10_000, records: int = 2_000) -> Counts:
    """An ordered domain: two bells on a floor, the larger of which swings to and fro."""
    place = (np.arange(bins) + 0.5) / bins
    for slot in range(slots):
        middle = 0.35 + 0.1 * np.sin(2 * np.pi * slot / 300)
        pdf = 7.5 * np.exp(-0.5 * ((place - middle) / 0.08) ** 2) + 6 * np.exp(-0.5 * ((place - 0.75) / 0.05) ** 2)
        pdf = (pdf + 0.1) / (pdf + 0.1).sum()
        yield rng.multinomial(records, pdf), pdf


def spikes(rng: np.random.Generator, slots: int, bins: int = 10_000, records: int = 2_000) -> Counts:
    """An ordered domain with a bell and ten round numbers that hold 40 % of the users."""
    place = (np.arange(bins) + 0.5) / bins
    pdf = np.exp(-0.5 * ((place - 0.4) / 0.1) ** 2)
    pdf *= 0.6 / pdf.sum()
    pdf[:: bins // 10] += 0.04
    for _ in range(slots):
        yield rng.multinomial(records, pdf), pdf


def pairs(rng: np.random.Generator, slots: int, parts: int = 100, records: int = 2_000, bound: float = 0.3) -> Counts:
    """Two drifting parts that depend on each other by log-normal factors of deviation `bound`."""
    one, other = (np.log(rng.permutation(zipf(parts, exponent))) for exponent in (1.1, 0.7))
    factors = bound * rng.standard_normal((parts, parts))
    for _ in range(slots):
        one, other = (log + 0.01 * rng.standard_normal(parts) for log in (one, other))
        pdf = np.exp(one[:, None] + other + factors).ravel()
        pdf /= pdf.sum()
        yield rng.multinomial(records, pdf), pdf


def shop(rng: np.random.Generator, slots: int, visitors: int = 4000) -> Counts:
    """A shop's page views, hour by hour: two for each visitor present; every tenth evening an offer draws a crowd."""
    for hour in range(slots):
        busy = 0.55 + 0.45 * np.sin(2 * np.pi * (hour % 24 - 9) / 24)
        pdf = pages(hour, crowd=hour // 24 % 10 == 9 and 18 <= hour % 24 < 23)
        yield rng.multinomial(2 * rng.binomial(visitors, busy), pdf), pdf


@dataclass(frozen=True, eq=False)
class Slot:
    """The records of one slot: whose they are, their bins, and the PDF they were drawn from."""

    users: Integers
    values: Integers
    pdf: Floats


def populate(
    counts: Counts, rng: np.random.Generator, *, churn: float, population: int | None = None, records: int = 1
) -> Iterator[Slot]:
    """Give every record a user: each of the active has up to `records` in a slot.

    In every slot a share `churn` of the population, drawn at random, is replaced by newcomers for good. Without
    `population` it has as many users as the slot needs, and grows where one needs more; users who are not needed rest.

    >>> rng = np.random.default_rng(0)
    >>> slots = list(populate(published(rng, 2, bins=3, mean=2), rng, churn=0.5))
    >>> slots[0].users.size == slots[0].values.size, len(np.intersect1d(slots[0].users, slots[1].users)) > 0
    (True, True)
    """
    if not 0 <= churn <= 1:
        raise OptionError(f"`churn` must be between 0 and 1. Got {churn}.")
    present = np.arange(population or 0)
    newest = present.size
    for histogram, pdf in counts:
        leaving = rng.random(present.size) < churn
        present[leaving] = newest + np.arange(leaving.sum())
        newest += int(leaving.sum())
        needed = -(-int(histogram.sum()) // records)
        if needed > present.size:
            present = np.concatenate([present, newest + np.arange(needed - present.size)])
            newest = int(present[-1]) + 1
        active = rng.permutation(present)[:needed]
        values = rng.permutation(np.repeat(np.arange(histogram.size), histogram))
        yield Slot(np.repeat(active, records)[: values.size], values, pdf)


@dataclass(frozen=True)
class Stream:
    """A named generator, and what is public about it."""

    make: Callable[[np.random.Generator, int], Counts]
    bins: int
    rows: int
    """About how many records a slot has."""
    reshuffle: int | None = None
    """Everything changes every so many slots."""
    period: int | None = None
    churn: float = 0.02
    """The share of users that newcomers replace in every slot, unless told otherwise."""
    population: int | None = None
    records: int = 1
    """The most records of a user in a slot."""
    length: int = 1000
    """How many slots are worth the time."""
    domain: Callable[[int], Domain] = lambda bins: Hashed(bins, bytes(32))
    """Of so many bins; hashed values have no order."""

    def slots(self, seed: int, count: int, churn: float | None = None) -> Iterator[Slot]:
        """So many slots with users, the same for the same seed."""
        data, users = (np.random.default_rng([seed, part]) for part in (0, 1))
        rate = self.churn if churn is None else churn
        return populate(self.make(data, count), users, churn=rate, population=self.population, records=self.records)


def ordered(bins: int) -> Domain:
    """Numbers from 0 to the number of bins, in steps of one."""
    return Bins(range(1, bins))


def product(bins: int) -> Domain:
    """All pairs of two lists of the same length."""
    part = Categories(range(round(bins**0.5)), other=None)
    return Product(one=part, other=part)


STREAMS = {
    "published": Stream(published, 100, 10_000),
    "published1k": Stream(lambda rng, slots: published(rng, slots, 1000, 1000), 1000, 1_000_000),
    "published10k": Stream(lambda rng, slots: published(rng, slots, 10_000, 1000), 10_000, 10_000_000),
    "drift.01": Stream(lambda rng, slots: drifting(rng, slots, drift=0.01), 1000, 50_000),
    "drift.1": Stream(lambda rng, slots: drifting(rng, slots, drift=0.1), 1000, 50_000),
    "reshuffle": Stream(lambda rng, slots: drifting(rng, slots, drift=0.0, reshuffle=250), 1000, 50_000, reshuffle=250),
    "small20": Stream(lambda rng, slots: drifting(rng, slots, 20, 2000, 0.02, reshuffle=300), 20, 2000, reshuffle=300),
    "n50k20": Stream(lambda rng, slots: drifting(rng, slots, 20, 50), 20, 50),
    "n50k1000": Stream(lambda rng, slots: drifting(rng, slots, 1000, 50), 1000, 50),
    "empty": Stream(lambda rng, slots: drifting(rng, slots, empty=0.3), 1000, 50_000),
    "bursts": Stream(bursts, 1000, 50_000),
    "seasonal": Stream(seasonal, 200, 20_000),
    "seasonal+24": Stream(seasonal, 200, 20_000, period=24),
    "sparse10k": Stream(lambda rng, slots: drifting(rng, slots, 10_000), 10_000, 50_000, length=300),
    "sparse112k": Stream(lambda rng, slots: drifting(rng, slots, 112_000), 112_000, 50_000, length=30),
    "smooth": Stream(smooth, 10_000, 2_000, length=300, domain=ordered),
    "smooth50k": Stream(
        lambda rng, slots: smooth(rng, slots, records=50_000), 10_000, 50_000, length=300, domain=ordered
    ),
    "spikes": Stream(spikes, 10_000, 2_000, length=300, domain=ordered),
    "shuffled": Stream(lambda rng, slots: drifting(rng, slots, 10_000), 10_000, 50_000, length=300, domain=ordered),
    "pairs": Stream(pairs, 10_000, 2_000, length=300, domain=product),
    "pairs2": Stream(lambda rng, slots: pairs(rng, slots, bound=2.0), 10_000, 2_000, length=300, domain=product),
    "shop": Stream(shop, len(PAGES), 4400, period=24, churn=0.05, population=4000, records=2),
}
"""Streams by name."""


def stream_named(name: str) -> Stream:
    """A stream by name."""
    if name not in STREAMS:
        raise OptionError(f"there is no stream {name!r}{meant(name, STREAMS)}")
    return STREAMS[name]
