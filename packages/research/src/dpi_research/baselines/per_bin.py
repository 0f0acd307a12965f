"""A mechanism for one counter, run once in every bin of a histogram."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.wrapper import Wrapper


@dataclass(kw_only=True, eq=False)
class PerBin(Wrapper):
    """One copy of a mechanism in each bin.

    **Guarantee.** That of the mechanism: one record is in one bin, so copies in other bins do not see it. A user with
    c records in a slot moves at most c bins, so the user's loss is bounded by that of c records in one bin.

    >>> from dpi_research.baselines.hybrid import Hybrid
    >>> mechanism = PerBin(epsilon=1000, bins=3, mechanism=Hybrid(epsilon=1))
    >>> [round(x) for x in mechanism.update([4, 0, 2]).tolist()]
    [4, 0, 2]
    """

    def _start(self) -> None:
        if self.mechanism.bins != 1:
            raise OptionError(f"`mechanism` must have one bin. Got {self.mechanism.bins}.")
        self.facts = self.mechanism.facts  # type: ignore[misc]
        self.copies = [self._copy() for _ in range(self.bins)]

    def _step(self, grains: Integers) -> Floats:
        return np.concatenate([copy.advance(grains[i : i + 1]) for i, copy in enumerate(self.copies)])

    @property
    def horizon(self) -> int | None:
        """That of the mechanism."""
        return self.mechanism.horizon

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """That of the mechanism."""
        return self.copies[0].group_delta(epsilon, cap)

    def loss(self, slots: int) -> Loss:
        """That of one copy."""
        return self.copies[0].loss(slots)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        return self.copies[0]._user_epsilon(slots, records, delta)

    def variance(self, slot: int) -> float | None:
        """The mean over the bins, where it is known."""
        known = [v for copy in self.copies if (v := copy.variance(slot)) is not None]
        return float(np.mean(known)) if len(known) == self.bins else None

    @property
    def memory(self) -> int:
        """All copies."""
        return sum(copy.memory for copy in self.copies)
