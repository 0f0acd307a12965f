"""A mechanism for a declared number of slots, started again whenever they are over: for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.wrapper import Wrapper


@dataclass(kw_only=True, eq=False)
class Restarted(Wrapper):
    """Epochs of a mechanism with a horizon, one after the other; prefix sums go on from the last release of an epoch.

    **Guarantee.** That of the mechanism for one record: a record is in one epoch, and epochs share no state but
    releases. What a later epoch does not release while it learns a threshold is missing from the sum.

    >>> from dpi_research.baselines.binary import Binary
    >>> counter = Restarted(epsilon=1000, mechanism=Binary(epsilon=1, slots=3))
    >>> [round(float(counter.update(1)[0])) for _ in range(7)], counter.horizon
    ([1, 2, 3, 4, 5, 6, 7], None)
    """

    def _start(self) -> None:
        if self.mechanism.horizon is None:
            raise OptionError("`mechanism` has no horizon: it runs for ever by itself.")
        if self.mechanism.bins != self.bins:
            raise OptionError(f"`bins` must be that of the mechanism, {self.mechanism.bins}.")
        self.facts = replace(self.mechanism.facts, horizon="for ever, in epochs")  # type: ignore[misc]
        self._length: int = self.mechanism.horizon
        self._base: Floats = np.zeros(self.bins)
        self._last: Floats = np.zeros(self.bins)
        self._epoch = self._copy()

    def _step(self, grains: Integers) -> Floats:
        if self._epoch.slot == self._length:
            self._epoch = self._copy()
            self._base = self._last
        release = self._epoch.advance(grains)
        if self.facts.releases == "slot":
            return release
        if self.slot > self.warm_up:
            release = self._base + np.nan_to_num(release, nan=0.0)
            self._last = release
        return release

    def _epochs(self, slots: int) -> list[int]:
        """How many slots of each epoch are over."""
        full, rest = divmod(slots, self._length)
        return [self._length] * full + [rest] * (rest > 0)

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """That of the mechanism."""
        return self._epoch.group_delta(epsilon, cap)

    def loss(self, slots: int) -> Loss:
        """The sum over the epochs."""
        full, rest = divmod(slots, self._length)
        return self._epoch.loss(self._length).times(full) + self._epoch.loss(rest)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        parts = self._epochs(slots)
        if self.delta == 0:
            return self.loss(slots).scaled(records).epsilon(delta)
        share = None if delta is None else delta / max(1, len(parts))
        return sum(self._epoch._user_epsilon(part, records, share) for part in parts)

    def variance(self, slot: int) -> float | None:
        """The sum over the epochs of prefixes; that of the slot for single slots."""
        parts = self._epochs(slot) if self.facts.releases == "prefix" else [(slot - 1) % self._length + 1]
        known = [v for part in parts if (v := self._epoch.variance(part)) is not None]
        return sum(known) if len(known) == len(parts) else None

    @property
    def memory(self) -> int:
        """The running epoch and the last releases."""
        return self._epoch.memory + 2 * self.bins
