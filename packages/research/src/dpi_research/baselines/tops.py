"""ToPS of Wang et al.: a threshold by selection, a wide tree with online consistency, a smoother."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.noise import exponential_mechanism
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.bary import BaryTree
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.predictors import PREDICTORS, Predictor, dropped_levels
from dpi_research.baselines.prefixed import Prefixed

SCORE_UNITS = 1 << 20
"""Scores are whole numbers of 2^-20 records."""


@dataclass(kw_only=True, eq=False)
class ToPS(Prefixed):
    """Prefix sums of values in 0 … `largest`, one value in every slot.

    slots: the values that are released, after a warm-up of `prefix` values that are not.
    dropped: how many of the lowest levels of the tree are not released; None is the published choice. Inside a block of
    b^dropped slots a predictor's guess is released, and the block's last slot puts it right.

    **Guarantee.** ε-DP for one value. *Why:* the threshold's score moves by at most one, for all candidates in the same
    direction (a user without records has values of 0, so for many values too), so the exponential mechanism at rate ε
    is ε-DP, and sees the prefix alone; the tree sees the other values, cut to the threshold θ, each in one node of h
    released levels with noise θ·h/ε.

    >>> mechanism = ToPS(epsilon=1000, slots=3, prefix=100, largest=10, fan_out=4, dropped=0)
    >>> for value in range(100):
    ...     _ = mechanism.update(value % 10)
    >>> [round(float(mechanism.update(3)[0])) for _ in range(3)], mechanism.threshold >= 9
    ([3, 6, 9], True)
    """

    facts: ClassVar[Facts] = Facts(
        source="Wang, Chen, Zhang, Su, Cheng, Li, Jha, CCS 2021",
        releases="prefix",
        unit="one value (the whole count of a bin in a slot)",
        horizon="m + T slots, declared; the first m are not released",
        delta="none",
        memory="m values, then 2·b·h numbers",
        variance="σ²·Σ d_j·b^j(b - 1)/(b^(j+1) - 1), d_j the digits of the block's number, σ² = 2(θh/ε)²",
        user_loss="c·m·ε + (c·ε/h)·Σ_l b^l·⌊t/b^l⌋, tree exact",
        reconstructed="consistency uses the past alone (the repository's second pass cannot run on a stream); "
        "the moving-average predictor is left out",
    )

    fan_out: int = 16
    step: int = 1
    tail: float = 60.0
    dropped: int | None = None
    predictor: Predictor = "recent"

    def _start(self) -> None:
        super()._start()
        check_count(self.fan_out, "fan_out", 2)
        check_count(self.step, "step")
        if self.predictor not in PREDICTORS:
            raise OptionError(f"`predictor` must be one of {', '.join(PREDICTORS)}. Got {self.predictor!r}.")
        self.height = 1
        while self.fan_out**self.height <= self.slots:
            self.height += 1
        choice = dropped_levels(float(self.rate), self.fan_out) if self.dropped is None else self.dropped
        check_count(choice, "dropped", 0)
        self.dropped_levels = min(choice, self.height - 1)
        self.levels = self.height - self.dropped_levels
        self.block = self.fan_out**self.dropped_levels
        self._values: list[int] = []
        self._open, self._guessed, self._published = 0, 0.0, 0.0
        self._blocks: list[float] = []
        self.threshold: int | None = None
        """θ, public once the prefix is over."""

    # The threshold.

    @property
    def candidates(self) -> Integers:
        """The thresholds among which one is chosen."""
        return np.arange(self.step, self.largest + 1, self.step)

    def penalty(self) -> float:
        """What one record of threshold costs a candidate, in records: public."""
        noise = math.sqrt(2 * (self.fan_out - 1) * self.height**3) / float(self.rate)
        return 3 * self.prefix / (self.tail * self.slots) * noise

    def scores(self, values: Integers) -> Integers:
        """#{x ≤ θ} - m - θ·penalty for every candidate, in units of 2^-20: one value moves each by at most one."""
        below = np.searchsorted(np.sort(values), self.candidates * GRAINS, side="right")
        cost = np.minimum(self.candidates * self.penalty() * SCORE_UNITS, 2.0**49).astype(np.int64)
        return np.asarray((below - self.prefix) * SCORE_UNITS - cost)

    def _learn(self) -> None:
        scores = self.scores(np.array(self._values, dtype=np.int64))
        chosen = exponential_mechanism(scores, self.rate / SCORE_UNITS, self._source)
        self.threshold = int(self.candidates[chosen])
        self._values = []
        scale = self.threshold * self.levels / self.rate
        self._tree = BaryTree(self.fan_out, self.levels, partial(self._laplace, scale=scale))

    # The slots.

    def _step(self, grains: Integers) -> Floats:
        if self.threshold is None:
            self._values.append(int(grains[0]))
            if self.slot == self.prefix:
                self._learn()
            return np.array([np.nan])
        self._open += min(int(grains[0]), self.threshold * GRAINS)
        if (self.slot - self.prefix) % self.block:
            self._guessed += self._guess()
        else:
            total = self._tree.add(self._open)
            self._blocks.append(total - self._published)
            if self.predictor == "recent":
                self._blocks = self._blocks[-1:]
            self._open, self._guessed, self._published = 0, 0.0, total
        return np.array([self._published + self._guessed])

    def _guess(self) -> float:
        """One slot's value: the predicted block's mean; half the threshold before any block is known."""
        assert self.threshold is not None  # noqa: S101 - the prefix is over
        return PREDICTORS[self.predictor](self._blocks) / self.block if self._blocks else self.threshold / 2

    # The protocol.

    def loss(self, slots: int) -> Loss:
        """The threshold, whose score moves with each value; then all finished nodes of the released levels."""
        if slots < self.prefix:
            return Loss()
        shifts: dict[Fraction, int] = {}
        for level in range(self.dropped_levels, self.height):
            size = self.fan_out**level
            if count := (slots - self.prefix) // size:
                shifts[size * self.rate / self.levels] = count
        return Loss(shifts, self.prefix * self.rate)

    def variance(self, slot: int) -> float | None:
        """Around the sum of the cut values, at the end of a block; known once the threshold is public."""
        after = slot - self.prefix
        if self.threshold is None or after <= 0 or after % self.block:
            return None
        scale = self.threshold * float(self.levels / self.rate)
        return 2 * scale**2 * self._tree.weights(after // self.block)

    @property
    def memory(self) -> int:
        """The prefix's values, then the tree and the predictor's blocks."""
        return len(self._values) if self.threshold is None else self._tree.size + len(self._blocks) + 3
