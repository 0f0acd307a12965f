"""Sensitivity compression: the events of one slot become an integer histogram that one user moves by a known bound.

Sees users and no randomness. Histograms are in *grains*: 2^24 grains are one unit. All arithmetic is on integers.

**Guarantee** (`normalise`, `truncate`, `totals`). Removing all events of one user changes the histogram by at most that
user's weight (in grains, at most 2^24) in ℓ₁, and changes no grain of any other user.

*Why.* Rows are grouped by account, exactly, and two users share one only if their ids share a keyed digest of 128 bits
(`dpi.events.identity.digests`: never, for ids of up to 15 bytes). What a group adds is a function of that group's
rows and the user's weight alone: in `normalise`, bin b gets floor(w·r_b/r) with Σ r_b = r, so at most w in all; in
`truncate(c)`, at most c events get floor(w/c) each; in `totals`, one bin gets w. A row without a user or outside the
domain is dropped by itself.
Neither the order of rows nor anybody else's rows enter. Where users are counted in groups, all that a user adds is in
the histogram of the one group that they are in, by their own history: the histograms together move by no more. In Coq:
`compressed_adds_its_weight`, `proofs/Compression.v`.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dpi.domain import Amounts, Domain
from dpi.errors import OptionError, SchemaError
from dpi.events.identity import EXACT, KEY_BYTES, Digests, check_key, extend
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS, Integers, each, fraction_floor, proportional, wide_sum
from dpi.exact.silence import silence
from dpi.histogram.grouping import Groups, Pairs
from dpi.options import Family, Option

MOST_TOGETHER = (1 << 53) // GRAINS - 1
"""Users whose grains are summed at once: below 2^53 sums of whole numbers are exact in floats."""
MOST_EQUAL = 1 << 12
"""So many equal events of one user take part in the draw of those that are kept: a flood costs its user alone."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """A slot's histogram in grains, private until noise is added.

    `sensitivity` is the number of grains by which one user of weight one can move it in ℓ₁; `assumption` is what the
    caller declared and the program cannot check, to be printed with every guarantee. With several `groups` of users it
    is one histogram after the other, and one user moves one of them.

    >>> from dpi.domain import Categories
    >>> h = compress(["ada", "ada", "bob"], ["DE", "FR", "FR"], Categories(["DE", "FR"]))
    >>> (h.grains / GRAINS).tolist(), h.sensitivity == GRAINS     # one user, one unit
    ([0.5, 1.5, 0.0], True)
    """

    grains: Integers
    sensitivity: int
    assumption: str | None = None
    groups: int = 1

    def __repr__(self) -> str:
        groups = "" if self.groups == 1 else f", groups={self.groups}"
        return f"Histogram(bins={self.grains.size // self.groups}{groups}, sensitivity={self.sensitivity}, private)"

    @property
    def by_group(self) -> Integers:
        """The grains, a row for each group."""
        return self.grains.reshape(self.groups, -1)

    def of_groups(self, rows: Sequence[bool]) -> Histogram:
        """Return the users of some groups in one histogram: it moves by no more, since a user is in one group."""
        return replace(self, grains=self.by_group[np.array(rows)].sum(axis=0), groups=1)


class Compression(Option, ABC):
    """A rule for what one user's rows add to the histogram."""

    sensitivity: int = GRAINS
    gathers: ClassVar[bool] = False
    """Whether users are brought together (`gather`) before they are counted."""

    @abstractmethod
    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """Return the grains that each (user, bin) pair adds, given weights and names of the users in `pairs`."""

    def finish(self, grains: Integers) -> Integers:
        """Return the slot's histogram from the sum over all users."""
        return grains

    def over(self, domain: Domain) -> Compression:
        """Return the rule for the bins of one slot."""
        return self

    def gather(self, pairs: Pairs) -> Pairs:
        """Return the pairs whose bins are counted, each user's by their own alone."""
        return pairs


COMPRESSIONS: Family[Compression] = Family("compression")


@COMPRESSIONS.member
@dataclass(frozen=True)
class Normalise(Compression):
    """One user, one unit, spread over the bins as the user's events are: floor(w·r_b/r) grains for bin b.

    >>> from dpi.domain import Categories
    >>> h = compress(["ada"] * 4, ["DE", "DE", "DE", "FR"], Categories(["DE", "FR"]), method=normalise)
    >>> (h.grains / GRAINS).tolist()
    [0.75, 0.25, 0.0]
    """

    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """floor(w·r_b/r)."""
        return proportional(weights[pairs.users], pairs.counts, pairs.rows[pairs.users])


@COMPRESSIONS.member
@dataclass(frozen=True, repr=False)
class Truncate(Compression):
    """At most c events of a user, floor(w/c) grains each.

    Which events are kept is decided by a keyed hash of (user, bin, ordinal among the user's events in that bin): the
    user's own content, never the order of rows. The key is no public option, and nothing of it is ever stated: the
    guarantee holds with any.
    """

    c: int
    key: bytes
    secrets = ("key",)

    def __post_init__(self) -> None:
        if not isinstance(self.c, int) or isinstance(self.c, bool) or not 1 <= self.c <= GRAINS:
            raise OptionError(f"`c` must be a whole number from 1 to 2^24. Got {self.c!r}.")
        check_key(self.key)

    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """floor(w/c) for each kept event."""
        kept = pairs.counts.copy()
        crowded = np.flatnonzero(pairs.rows[pairs.users] > self.c)
        if crowded.size:
            kept[crowded] = self._kept(pairs, crowded, extend(names, np.zeros_like(names), self.key))
        return kept * each(weights[pairs.users], self.c)

    def _kept(self, pairs: Pairs, crowded: Integers, names: Digests) -> Integers:
        """How many events of each of the `crowded` pairs are among their user's c of lowest hash."""
        counts = np.minimum(pairs.counts[crowded], max(MOST_EQUAL, self.c))
        event = np.repeat(np.arange(crowded.size), counts)
        ordinal = np.arange(event.size) - np.repeat(np.cumsum(counts) - counts, counts)
        user = pairs.users[crowded][event]
        content = np.stack([pairs.bins[crowded][event], ordinal], axis=1).astype(np.uint64)
        priority = extend(names[user], content, self.key)
        order = np.lexsort((priority[:, 1], priority[:, 0], user))
        sorted_user = user[order]
        start = np.searchsorted(sorted_user, sorted_user)
        winners = event[order[np.arange(event.size) - start < self.c]]
        return np.bincount(winners, minlength=crowded.size)

    def __repr__(self) -> str:
        return f"truncate({self.c}, key=…)"


def truncation_key(key: bytes) -> bytes:
    """Return a key for choosing events, from which that of the accounts cannot be told."""
    return hashlib.blake2b(key=key[-KEY_BYTES:], digest_size=KEY_BYTES, person=b"dpi truncate").digest()


@COMPRESSIONS.member
@dataclass(frozen=True)
class WholePDF(Compression):
    """The published compression: the slot's PDF itself, which moves by at most 2 in ℓ₁ even if everybody changes.

    A smaller weight would not make the bound smaller, so a user of weight below one does not take part.

    >>> from dpi.domain import Categories
    >>> compress(["ada", "bob"], ["DE", "FR"], Categories(["DE", "FR"]), method=whole_pdf).sensitivity == 2 * GRAINS
    True
    """

    sensitivity = 2 * GRAINS
    kind = "whole_pdf"

    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """floor(w·r_b/r) for users of weight one."""
        return Normalise().grains(pairs, np.where(weights == GRAINS, GRAINS, 0), names)

    def finish(self, grains: Integers) -> Integers:
        """floor(2^24·h_b/Σh): non-negative with a sum of at most 2^24, so two of them differ by at most 2·2^24."""
        total = wide_sum(grains)
        if total == 0:
            return grains
        if total < 1 << 51:
            return fraction_floor(grains, total)
        return np.array([int(g) * GRAINS // total for g in grains], dtype=np.int64)


@COMPRESSIONS.member
@dataclass(frozen=True)
class Totals(Compression):
    """One user, one unit, in one bin: that of the sum of the user's amounts, for a domain of `Amounts`.

    **Guarantee.** A user moves the histogram by at most their weight, whatever amounts they have. *Why.* The sum is of
    the user's own rows, its bin is one of a grid that was fixed before, and that bin gets the weight, w grains.

    >>> from dpi.domain import Amounts
    >>> h = compress(["ada", "ada", "bob"], [5, 1e300, 0], Amounts(1), method=totals)
    >>> (h.grains[h.grains > 0] / GRAINS).tolist()
    [1.0, 1.0]
    """

    def over(self, domain: Domain) -> Compression:
        """Return the rule for the grid of one slot."""
        return _TotalsOver(domain)

    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """Refused: without a grid there are no bins."""
        raise OptionError("`totals` is for a domain of amounts.")


@dataclass(frozen=True)
class _TotalsOver(Totals):
    """The same on one grid: an option of no stream."""

    domain: Domain
    gathers = True

    def gather(self, pairs: Pairs) -> Pairs:
        """Return one pair for each user: the bin of the exact sum of their steps, of both signs."""
        assert isinstance(self.domain, Amounts)  # noqa: S101 - `StreamOptions` has refused any other
        sums = np.zeros(pairs.rows.size, dtype=np.int64)
        # At most three rows of a user, of less than 2^31 steps each.
        np.add.at(sums, pairs.users, self.domain.signed(pairs.bins, pairs.counts))
        one = np.ones(sums.size, dtype=np.int64)
        return Pairs(np.arange(sums.size), self.domain.bins(sums), one, one)

    def grains(self, pairs: Pairs, weights: Integers, names: Digests) -> Integers:
        """Return the user's weight."""
        return weights[pairs.users]


normalise = Normalise()
totals = Totals()
whole_pdf = WholePDF()


def truncate(c: int, key: bytes) -> Truncate:
    """At most c events of a user count; `key` (32 bytes) decides which.

    >>> from dpi.domain import Categories
    >>> h = compress(["ada"] * 9, ["DE"] * 9, Categories(["DE"]), method=truncate(4, bytes(32)))
    >>> (h.grains / GRAINS).tolist()     # four of nine events, a quarter of a unit each
    [1.0, 0.0]
    """
    return Truncate(c, key)


_KEY = secrets.token_bytes(KEY_BYTES)
"""Names users for as long as this process lives, where no store does."""


def compress(users: object, values: object, domain: Domain, *, method: Compression = normalise) -> Histogram:
    """Return the histogram of one slot's events, in which every user has weight one.

    Rows with a missing user or a value that has no bin are dropped, each by itself; only a column of a type that cannot
    be read is an error.

    >>> from dpi.domain import Categories
    >>> h = compress(["ada", "ada", "bob"], ["DE", "FR", "FR"], Categories(["DE", "FR"]))
    >>> h
    Histogram(bins=3, sensitivity=16777216, private)
    >>> (h.grains / 2**24).tolist()
    [0.5, 1.5, 0.0]
    """
    rows = read_rows(users, values, domain, method.key if isinstance(method, Truncate) else _KEY)
    return finish(
        count(Groups(rows, domain.row_codes), domain.size, method.over(domain) if domain.summed else method), method
    )


@silence()
def read_rows(users: object, values: object, domain: Domain, key: bytes, slot: int = 0, ids: str = EXACT) -> Rows:
    """Return the rows of one slot's events; a row without a user or a bin is dropped by itself."""
    if not domain.summed:
        return Rows.of(users, domain.encode(values), key, slot, ids=ids)
    codes, counts = domain.encode_rows(values)
    return Rows.of(users, codes, key, slot, counts, ids)


@silence()
def finish(total: Integers, method: Compression, groups: int = 1) -> Histogram:
    """Return the histogram of what all users of a slot have contributed together, wherever their rows were added up."""
    return Histogram(method.finish(total), method.sensitivity, groups=groups)


@silence()
def count(
    rows: Groups,
    bins: int,
    method: Compression = normalise,
    weights: Integers | None = None,
    member: Integers | None = None,
    groups: int = 1,
) -> Integers:
    """Return the grains that some users contribute: over users who are apart, the sum of these is that of all of them.

    `weights` has 0 … 2^24 grains for each user, by the user's history alone; without, everybody has weight one. With
    several `groups`, `member` has the one, 0 … groups - 1, whose histogram each user is in.

    *Why.* What a user adds is a function of the user's own rows and weight, and whole numbers are added exactly.
    """
    if groups > 1 and method.sensitivity != GRAINS:
        raise OptionError(f"users are not counted in groups under {method!r}: use `normalise`.")
    if (member is None) != (groups == 1):
        raise OptionError("there must be a group for each user if, and only if, there are several.")
    users = len(rows.names)
    weights = np.full(users, GRAINS) if weights is None else weights
    _check(weights, users, GRAINS, "weights must be between 0 and 2^24 grains.")
    if member is not None:
        _check(member, users, groups - 1, "each user must be in a group that there is.")
    total = np.zeros(groups * bins, dtype=np.int64)
    for first, pairs in rows.pairs():
        assert pairs.rows.size <= MOST_TOGETHER  # noqa: S101 - or the sum below would not be exact
        here = slice(first, first + pairs.rows.size)
        pairs = method.gather(pairs) if method.gathers else pairs
        grains = method.grains(pairs, weights[here], rows.names[here])
        at = pairs.bins if member is None else pairs.bins + bins * member[here][pairs.users]
        # bincount sums in float64: exact, because a chunk's grains are integers and sum to less than 2^53, as each
        # user adds at most 2^24. How many rows a chunk has may follow from the data, where bins do (`dpi.discovery`).
        total += np.bincount(at, weights=grains, minlength=groups * bins).astype(np.int64)
    return total


def _check(values: Integers, size: int, most: int, text: str) -> None:
    """Refuse anything but one whole number for each user, from 0 to the most."""
    if values.dtype != np.int64 or values.shape != (size,):
        raise OptionError("there must be one whole number of grains, and of a group, for each user.")
    if values.size and (int(values.min()) < 0 or int(values.max()) > most):
        raise OptionError(text)


def counts(values: object, *, per_user: int, seen: str | int | None = None) -> Histogram:
    """Return a histogram from counts that somebody else has aggregated, on the caller's word.

    `per_user` declares the most that one user adds to all counts of one slot together. There are no ids, so no ledger
    can be kept: use a converging budget, or declare with `seen` in how many slots a user appears at most ("once", or a
    number J; the loss of a slot then counts J times). The declaration is printed with every guarantee.

    >>> h = counts([3, 0, 1], per_user=2)
    >>> h.grains.tolist(), h.assumption
    ([25165824, 0, 8388608], 'each user adds at most 2 to the counts of a slot')
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise SchemaError("`counts` must be a non-empty vector of whole numbers, one for each bin.")
    if not isinstance(per_user, int) or isinstance(per_user, bool) or not 1 <= per_user <= GRAINS:
        raise OptionError(f"`per_user` must be a whole number from 1 to 2^24. Got {per_user!r}.")
    slots = 1 if seen == "once" else seen
    if slots is not None and (not isinstance(slots, int) or isinstance(slots, bool) or slots < 1):
        raise OptionError(f'`seen` must be "once" or a number of slots. Got {seen!r}.')
    assumption = f"each user adds at most {per_user} to the counts of a slot"
    if slots is not None:
        assumption += f" and appears in at most {slots} slot{'s' if slots > 1 else ''}"
    # A count is cut, not refused: one slot's size must not decide whether anything is released. 2^24 / per_user rounds
    # down for each record, so `per_user` records add at most 2^24 grains.
    kept = np.clip(array, 0, 1 << 36).astype(np.int64)
    return Histogram(kept * (GRAINS // per_user), GRAINS, assumption)


@dataclass(frozen=True, eq=False)
class TextHistogram(Histogram):
    """Grains of every text that somebody has in the slot; of all other texts of the universe they are zero.

    Which texts there are, and how many, is as private as the grains: neither is shown.
    """

    texts: Sequence[str] = field(default=(), repr=False)
    """Different texts of the universe, one for each number of grains."""

    def __post_init__(self) -> None:
        if not len(self.texts) == len(set(self.texts)) == self.grains.size:
            raise OptionError("a histogram over texts must have different texts, one for each number of grains.")

    def __repr__(self) -> str:
        return "TextHistogram(private)"
