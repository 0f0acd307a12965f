"""Recommendations for groups, from a released PDF of pairs (group, item).

The taste of a group is the PDF of items among its users. Noise would decide the order of items in a small group, so
each share is drawn towards what is popular, the more the noisier it is (empirical Bayes); truncated SVD on the square
roots of tastes keeps what groups have in common; K-means puts groups of like taste together, and shares are drawn
towards their cluster's instead. Without noise nothing is drawn, and what remains is the SVD. A group that cannot be
distinguished from an empty one is *cold*, and gets what is popular among all.

Sees releases and nothing else: post-processing, which costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.apps.scoring import import_learn
from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.choice import Floats
from dpi.release.queries import Distribution

COLD = 1.96
"""A group is cold if its share of users is below so many standard errors."""

SMALLEST = 0.05
"""A correction takes at most all but this share of a probability away."""


@dataclass(frozen=True)
class Recommendation:
    """An item for a group."""

    item: str
    score: float
    """The item's estimated share among the users of the group."""


class Recommender:
    """What to recommend to each group.

    `releases` are the releases of a stream so far, over a Product with the parts `group` and `item`: what counts is the
    accumulative PDF of the last, with each slot as the later ones show it. A single distribution may stand for them;
    then it is its own PDF that counts.
    `factors` is the rank that SVD keeps, `clusters` the number of clusters (√groups unless given). The bin of items
    that are not listed is not recommended.
    """

    def __init__(
        self,
        releases: Sequence[Release] | Distribution,
        *,
        group: str,
        item: str,
        factors: int = 8,
        clusters: int | None = None,
    ) -> None:
        known = releases if isinstance(releases, Distribution) else _accumulated(releases)
        pdf, variance, self._groups, self._items = _matrix(known, group, item)
        for name, value in (("factors", factors), ("clusters", clusters)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise OptionError(f"`{name}` must be a whole number above 0. Got {value!r}.")
        sizes = pdf.sum(axis=1)
        self.cold = sizes <= COLD * np.sqrt(variance.sum(axis=1))
        """Which groups cannot be distinguished from empty ones."""
        self._scores = np.tile(_popular(pdf), (len(pdf), 1))
        warm = np.flatnonzero(~self.cold)
        if warm.size:
            self._scores[warm] = _tastes(pdf[warm], variance[warm], factors, clusters)
        if self._items.outside >= 0:
            self._scores[:, self._items.outside] = -1.0

    def top(self, group: object, n: int = 10) -> list[Recommendation]:
        """Return the n best items of a group; a value that is no group of its own is of `other`, or refused."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise OptionError(f"`n` must be a whole number above 0. Got {n!r}.")
        code = self._groups.index(group)
        if code < 0:
            raise OptionError(f"{group!r} is not a group of the domain.")
        row = self._scores[code]
        order = np.argsort(-row, kind="stable")[:n]
        return [Recommendation(self._items.label(int(i)), float(row[i])) for i in order if row[i] >= 0]

    def is_cold(self, group: object) -> bool:
        """Tell whether a group gets what is popular, because too little is known about it."""
        return bool(self.cold[self._groups.index(group)])


def _accumulated(releases: Sequence[Release]) -> Distribution:
    """Return the accumulative PDF of the last release, seen from the end, with a variance from public facts.

    Noisy counts of slots with the budgets ε_t, added up, have the noise Σ 2/ε_t² in each bin: the smaller of that and
    the last slot's own variance is taken. Where users are measured by class the first leaves out those who were not
    measured; the second alone drew groups that differ too much towards each other (0.46 instead of 0.60 in the mean of
    the four streams of benchmarks/apps.py, seeds 0 and 1).
    """
    if not releases:
        raise OptionError("a recommender needs at least one release.")
    last = releases[-1]
    measured = [release for release in releases if release.epsilon > 0 and release.total > 0]
    users = sum(release.total for release in measured)
    noise = sum(2 / release.epsilon**2 for release in measured) / users**2 if measured else math.inf
    return Distribution(last.domain, _from_the_end(releases), np.minimum(last.variance, noise))


def _from_the_end(releases: Sequence[Release]) -> Floats:
    """Return the accumulative PDF of the last release, with every slot corrected by what later releases say of it.

    A release knows the slots until its own, and the sum of releases keeps what the first of them did not know yet. The
    backward pass of a Kalman smoother (Rauch, Tung and Striebel, 1965) takes it back: with v the variance of a slot's
    share and q that of its steps, the slot is drawn by v/(v + q) towards the one after it. Steps are taken to be in
    proportion to shares, alike in all bins, and as large as the released ones.
    """
    last = releases[-1]
    alike = [release for release in releases if release.domain == last.domain]
    everybody = sum(_users(release) for release in releases)
    if len(alike) < 2 or not everybody > 0:
        return last.accumulated
    pdfs = np.array([release.pdf for release in alike])
    level = pdfs.mean(axis=0)
    steps = np.square(np.diff(pdfs, axis=0)).mean(axis=0)
    step = float(np.mean(steps / np.maximum(level, 1e-300) ** 2)) * level**2
    seen, correction = last.pdf, np.zeros(last.pdf.size)
    for release in alike[-2::-1]:
        toward = release.variance / np.maximum(release.variance + step, 1e-300)
        seen = release.pdf + toward * (seen - release.pdf)
        correction += _users(release) / everybody * (seen - release.pdf)
    corrected = np.maximum(last.accumulated + correction, SMALLEST * last.accumulated)
    return np.asarray(corrected / corrected.sum())


def _users(release: Release) -> float:
    """Return what a slot counts for: its users, or one if their number is unknown."""
    return max(release.total, 0.0) if math.isfinite(release.total) else 1.0


def _matrix(distribution: Distribution, group: str, item: str) -> tuple[Floats, Floats, Domain, Domain]:
    """Shares and variances of pairs, a row for each group."""
    domain = distribution.domain
    if not isinstance(domain, Product) or not {group, item} <= domain.parts.keys() or group == item:
        raise OptionError("a recommender needs a Product domain with the parts `group` and `item`.")
    rest = tuple(i for i, name in enumerate(domain.parts) if name not in (group, item))
    turned = list(domain.parts).index(group) > list(domain.parts).index(item)
    both = (array.reshape(domain.shape).sum(axis=rest) for array in (distribution.pdf, distribution.variance))
    pdf, variance = (matrix.T if turned else matrix for matrix in both)
    return pdf, variance, domain.parts[group], domain.parts[item]


def _popular(pdf: Floats) -> Floats:
    """Return the PDF of items that fits all groups best, if all had the same taste: least squares over the pairs.

    A share is its group's size times the item's probability, plus noise that is alike in small and large groups; so a
    group counts by the square of its size, where a plain sum would add up the noise of the small ones.
    """
    sizes = pdf.sum(axis=1)
    return np.asarray(sizes @ pdf / max(float(sizes @ sizes), 1e-300))


def _tastes(pdf: Floats, variance: Floats, factors: int, clusters: int | None) -> Floats:
    """Return the PDF of items of each group: first drawn towards what is popular, then towards the group's cluster."""
    sizes = pdf.sum(axis=1, keepdims=True)
    drawn = _drawn(pdf, variance, sizes * _popular(pdf))
    label = _clusters(_factors(drawn, factors), sizes[:, 0], clusters)
    sums = np.stack([drawn[label == own].sum(axis=0) for own in label])
    drawn = _drawn(pdf, variance, sizes * sums / sums.sum(axis=1, keepdims=True))
    return _factors(drawn, factors) ** 2


def _drawn(pdf: Floats, variance: Floats, expected: Floats) -> Floats:
    """Each share drawn towards the expected one, by how much of their differences is noise (empirical Bayes).

    True shares are taken to differ from the expected ones by a factor. Its variance is that of all relative differences
    less their noise, each counted by how precisely it is known. A share keeps signal / (signal + noise) of its
    difference.
    """
    if not variance.any():
        return pdf
    square = np.maximum(expected, 1e-15) ** 2
    excess, noise = ((pdf - expected) ** 2 - variance) / square, variance / square
    spread = 1.0
    for _ in range(30):
        precision = (spread + noise) ** -2.0
        spread = max(float((precision * excess).sum() / precision.sum()), 1e-9)
    return np.asarray(np.maximum(expected + spread / (spread + noise) * (pdf - expected), 0))


def _factors(shares: Floats, factors: int) -> Floats:
    """Square roots of the groups' PDFs, seen through so many factors; a large group weighs more."""
    sizes = np.sqrt(shares.sum(axis=1, keepdims=True))
    roots = np.sqrt(shares)
    if factors < min(shares.shape):  # otherwise nothing would be left out
        svd = import_learn("decomposition").TruncatedSVD(n_components=factors, random_state=0)
        with np.errstate(invalid="ignore"):  # where all tastes are alike, their explained variance is 0/0
            roots = np.maximum(svd.inverse_transform(svd.fit_transform(roots)), 0)
    return np.asarray(roots / np.maximum(sizes, 1e-300))


def _clusters(roots: Floats, sizes: Floats, clusters: int | None) -> Floats:
    """Return the cluster of each group; √groups of them, unless told otherwise."""
    count = min(len(roots), clusters or max(1, round(math.sqrt(len(roots)))))
    means = import_learn("cluster").KMeans(n_clusters=count, n_init=10, random_state=0)
    return np.asarray(means.fit_predict(roots, sample_weight=sizes))
