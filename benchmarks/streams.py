"""Synthetic streams with a known truth: each yields, slot after slot, the counts and the PDF they were drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.domain import Bins, Categories, Domain, Hashed, Product

Floats = npt.NDArray[np.float64]
Slots = Iterator[tuple[npt.NDArray[np.int64], Floats]]


def zipf(bins: int, exponent: float = 1.1) -> Floats:
    """Zipf's law, the largest bin first."""
    weights = np.arange(1, bins + 1.0) ** -exponent
    return np.asarray(weights / weights.sum())


def published(rng: np.random.Generator, slots: int, bins: int = 100) -> Slots:
    """Nearly uniform: each count is normal around 100, with a deviation of 1 to 10 that is drawn for the slot."""
    for _ in range(slots):
        counts = np.maximum(0, np.rint(rng.normal(100, rng.integers(1, 11), bins))).astype(np.int64)
        yield counts, counts / counts.sum()


def drifting(
    rng: np.random.Generator,
    slots: int,
    bins: int = 1000,
    users: int = 50_000,
    drift: float = 0.01,
    reshuffle: int | None = None,
    empty: float = 0.0,
) -> Slots:
    """Zipf levels whose logarithms walk; reshuffled every so many slots; a share of the slots is empty."""
    log = np.log(rng.permutation(zipf(bins)))
    for slot in range(slots):
        if reshuffle and slot and slot % reshuffle == 0:
            log = rng.permutation(log)
        if slot and drift:
            log = log + drift * rng.standard_normal(bins)
        pdf = np.exp(log - log.max())
        pdf /= pdf.sum()
        present = 0 if empty and rng.random() < empty else users
        yield rng.multinomial(present, pdf), pdf


def bursts(rng: np.random.Generator, slots: int, users: int = 50_000, every: int = 100, length: int = 8) -> Slots:
    """A drifting stream in which now and then, for a few slots, one bin draws ten times all users."""
    hot = 0
    for slot, (counts, pdf) in enumerate(drifting(rng, slots, users=users)):
        if slot % every == 0:
            hot = int(rng.integers(pdf.size))
        if slot >= every // 2 and (slot + every // 2) % every < length:
            burst = 0.1 * pdf
            burst[hot] += 0.9
            yield rng.multinomial(10 * users, burst), burst
        else:
            yield counts, pdf


def seasonal(rng: np.random.Generator, slots: int, bins: int = 200, users: int = 20_000, period: int = 24) -> Slots:
    """Each bin's log-level is a sine of the public period with its own phase; so is the number of users."""
    base, phase = np.log(rng.permutation(zipf(bins))), rng.uniform(0, 2 * np.pi, bins)
    for slot in range(slots):
        angle = 2 * np.pi * slot / period
        pdf = np.exp(base + np.sin(angle + phase))
        pdf /= pdf.sum()
        yield rng.multinomial(int(users * (1 + 0.5 * np.sin(angle))), pdf), pdf


def smooth(rng: np.random.Generator, slots: int, bins: int = 10_000, users: int = 2_000) -> Slots:
    """An ordered domain: two bells on a floor, the larger of which swings to and fro."""
    place = (np.arange(bins) + 0.5) / bins
    for slot in range(slots):
        middle = 0.35 + 0.1 * np.sin(2 * np.pi * slot / 300)
        pdf = 7.5 * np.exp(-0.5 * ((place - middle) / 0.08) ** 2) + 6 * np.exp(-0.5 * ((place - 0.75) / 0.05) ** 2)
        pdf = (pdf + 0.1) / (pdf + 0.1).sum()
        yield rng.multinomial(users, pdf), pdf


def spikes(rng: np.random.Generator, slots: int, bins: int = 10_000, users: int = 2_000) -> Slots:
    """An ordered domain with a bell and ten round numbers that hold 40 % of the users."""
    place = (np.arange(bins) + 0.5) / bins
    pdf = np.exp(-0.5 * ((place - 0.4) / 0.1) ** 2)
    pdf *= 0.6 / pdf.sum()
    pdf[:: bins // 10] += 0.04
    for _ in range(slots):
        yield rng.multinomial(users, pdf), pdf


def pairs(rng: np.random.Generator, slots: int, parts: int = 100, users: int = 2_000, bound: float = 0.3) -> Slots:
    """Two drifting parts that depend on each other by log-normal factors of deviation `bound`."""
    one, other = (np.log(rng.permutation(zipf(parts, exponent))) for exponent in (1.1, 0.7))
    factors = bound * rng.standard_normal((parts, parts))
    for _ in range(slots):
        one, other = (log + 0.01 * rng.standard_normal(parts) for log in (one, other))
        pdf = np.exp(one[:, None] + other + factors).ravel()
        pdf /= pdf.sum()
        yield rng.multinomial(users, pdf), pdf


@dataclass(frozen=True)
class Stream:
    """A named generator, and what is public about it."""

    make: Callable[[np.random.Generator, int], Slots]
    reshuffle: int | None = None
    """Everything changes every so many slots."""
    period: int | None = None
    slots: int = 1000
    """How many are worth the time."""
    domain: Callable[[int], Domain] = lambda bins: Hashed(bins, bytes(32))
    """Of so many bins; hashed values have no order."""


def ordered(bins: int) -> Domain:
    """Numbers from 0 to the number of bins, in steps of one."""
    return Bins(range(1, bins))


def product(bins: int) -> Domain:
    """All pairs of two lists of the same length."""
    part = Categories(range(round(bins**0.5)), other=None)
    return Product(one=part, other=part)


STREAMS = {
    "published": Stream(published),
    "drift.01": Stream(lambda rng, slots: drifting(rng, slots, drift=0.01)),
    "drift.1": Stream(lambda rng, slots: drifting(rng, slots, drift=0.1)),
    "reshuffle": Stream(lambda rng, slots: drifting(rng, slots, drift=0.0, reshuffle=250), reshuffle=250),
    "small20": Stream(lambda rng, slots: drifting(rng, slots, 20, 2000, 0.02, reshuffle=300), reshuffle=300),
    "n50k20": Stream(lambda rng, slots: drifting(rng, slots, 20, 50)),
    "n50k1000": Stream(lambda rng, slots: drifting(rng, slots, 1000, 50)),
    "empty": Stream(lambda rng, slots: drifting(rng, slots, empty=0.3)),
    "bursts": Stream(bursts),
    "seasonal": Stream(seasonal),
    "seasonal+24": Stream(seasonal, period=24),
    "sparse10k": Stream(lambda rng, slots: drifting(rng, slots, 10_000), slots=300),
    "sparse112k": Stream(lambda rng, slots: drifting(rng, slots, 112_000), slots=30),
    "smooth": Stream(smooth, slots=300, domain=ordered),
    "smooth50k": Stream(lambda rng, slots: smooth(rng, slots, users=50_000), slots=300, domain=ordered),
    "spikes": Stream(spikes, slots=300, domain=ordered),
    "shuffled": Stream(lambda rng, slots: drifting(rng, slots, 10_000), slots=300, domain=ordered),
    "pairs": Stream(pairs, slots=300, domain=product),
    "pairs2": Stream(lambda rng, slots: pairs(rng, slots, bound=2.0), slots=300, domain=product),
}
