"""THRESH of Joseph, Roth, Ullman and Waggoner: users vote, in private, whether the estimate should be renewed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.ldp_ids import users_randomness

Mask = npt.NDArray[np.bool_]


class Thresh(Baseline):
    """Counts of single slots among `users` users, renewed at most at the end of an epoch, for `epochs` epochs.

    length: slots in an epoch. failure: the probability with which the published error bound may fail (no δ of privacy).

    **Guarantee.** ε-LDP for *everything a user ever has*, in ideal arithmetic. *Why:* a bit that is not a vote or an
    estimate has a fixed law. A user's votes cost a each, as long as they sum to at most ε/4, and estimates cost b
    each, likewise; with other data the user may vote and report at other times, so each part can differ in twice as
    many bits: 4·ε/4 in all. With K bins each has ε/K, since a user may take part in all.

    >>> mechanism = Thresh(epsilon=4, users=100_000, epochs=4, length=500)
    >>> mechanism.deepest, mechanism.user_epsilon(10**6, records=9)
    (2, 4.0)

    Where ε pays for no vote, nothing is ever renewed.
    """

    protects_users: ClassVar[bool] = True
    held = ("_published", "_votes", "_estimates", "_open", "_release", "renewals")

    users: int = 10_000
    epochs: int = 4
    length: int = 100
    failure: float = 0.1

    def _start(self) -> None:
        check_count(self.users, "users")
        check_count(self.epochs, "epochs", 2)
        check_count(self.length, "length")
        check_between(self.failure, "failure")
        n, epochs = self.users, self.epochs
        self.deepest = epochs.bit_length() - 1
        """⌊log₂ T⌋."""
        vote = math.log(12 * epochs / self.failure)
        self.vote_cost = _ratio(4 * math.sqrt(2 * n * vote), n - 3 / math.sqrt(2) * math.sqrt(n * vote))
        self._spread = math.sqrt(math.log(12 * n * epochs / self.failure) / (2 * self.length))
        near = math.sqrt(vote / (2 * n))
        self.estimate_cost = _ratio(math.sqrt(2) * near, math.log2(epochs) * self._spread - near)
        part = float(self.rate) / self.bins / 4
        self.most_votes, self.most_estimates = int(part / self.vote_cost), int(part / self.estimate_cost)
        self._open = np.zeros(self.bins, dtype=np.int64)
        shape = (self.bins, n if self.most_votes else 0)
        self._published = np.zeros(shape, dtype=np.int32)
        """Each user's own sum in the epoch of the last renewal; nobody needs one where ε pays for no vote."""
        self._votes = np.zeros(shape, dtype=np.int32)
        self._estimates = np.zeros(shape, dtype=np.int32)
        self._release = np.full(self.bins, np.nan)
        self.renewals = np.zeros(self.bins, dtype=np.int64)
        """How often each bin's estimate was renewed: public."""

    def _step(self, grains: Integers) -> Floats:
        self._open += np.minimum(grains // GRAINS, self.users)
        if self.slot == self.length:
            self._release[:] = 0.0
        if self.slot % self.length == 0:
            rng = users_randomness(self._source)
            for i in range(self.bins):
                share = int(self._open[i]) / (self.length * self.users)
                if self.most_votes:
                    self._close(i, rng.binomial(self.length, share, self.users).astype(np.int32), rng)
            self._open[:] = 0
        return self._release.copy()

    def wants(self, change: Floats, epoch: int) -> Mask:
        """Who would vote: b* is the largest b with |change| > τ_b = 2(b + 1)·√(ln(12nT/δ)/2ℓ), and 2^(⌊log₂ T⌋-b*) | t.

        Users with large changes are asked often, users with small ones rarely.
        """
        largest = np.ceil(np.abs(change) / (2 * self._spread)).astype(np.int64) - 2
        largest = np.minimum(largest, self.deepest)
        period = np.int64(1) << np.maximum(self.deepest - largest, 0)
        return np.asarray((largest >= -1) & (epoch % period == 0))

    def _close(self, i: int, sums: npt.NDArray[np.int32], rng: np.random.Generator) -> None:
        """The end of an epoch in one bin: the vote and, if it passes, the renewal."""
        yes = self.wants((sums - self._published[i]) / self.length, self.slot // self.length)
        yes &= self._votes[i] < self.most_votes
        self._votes[i] += yes
        quiet = 1 / (math.exp(self.vote_cost) + 1)
        bits = rng.random(self.users) < np.where(yes, 1 - quiet, quiet)
        if not self.passes(float(bits.mean())):
            return
        reports = self._estimates[i] < self.most_estimates
        self._estimates[i] += reports
        self._release[i] = self.users * self.renewal(sums / self.length, reports, rng)
        self._published[i] = sums
        self.renewals[i] += 1

    def passes(self, votes: float) -> bool:
        """Whether a share of votes is more than silence explains: 1/(e^a + 1) + √(ln(10T/δ)/2n)."""
        margin = math.sqrt(math.log(10 * self.epochs / self.failure) / (2 * self.users))
        return votes > 1 / (math.exp(self.vote_cost) + 1) + margin

    def renewal(self, means: Floats, reports: Mask, rng: np.random.Generator) -> float:
        """The estimated mean over all users; those who may not report any more count as 0."""
        power = math.exp(self.estimate_cost)
        heads = (1 + np.where(reports, means, 0.0) * (power - 1)) / (power + 1)
        bits = rng.random(means.size) < heads
        return float(np.mean((bits * (power + 1) - 1) / (power - 1)))

    @property
    def warm_up(self) -> int:
        """The first epoch, but for its last slot."""
        return self.length - 1

    @property
    def horizon(self) -> int:
        """All slots of all epochs."""
        return self.epochs * self.length

    def loss(self, slots: int) -> Loss:
        """Nothing in the first epoch, then ε."""
        return Loss(pure=self.rate if slots >= self.length else Fraction(0))

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        return self.loss(slots).epsilon()


def _ratio(above: float, below: float) -> float:
    if below <= 0:
        raise OptionError(
            "`users` is too small, or `length` too long, for these epochs: the noise level is not defined."
        )
    return min(above / below, 500.0)
