"""A mechanism inside another, which asks it for most of what is public."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpi_research.baselines.base import Baseline


@dataclass(kw_only=True, eq=False)
class Wrapper(Baseline):
    """Runs copies of a mechanism, with this ε in place of the mechanism's own."""

    mechanism: Baseline = field(kw_only=True)

    def _copy(self) -> Baseline:
        """The mechanism before its first slot."""
        source = self._source if self.unsafe_source is not None else self.mechanism.unsafe_source
        return replace(self.mechanism, epsilon=self.rate, unsafe_source=source)

    @property
    def warm_up(self) -> int:
        """That of the mechanism."""
        return self.mechanism.warm_up

    @property
    def record_share(self) -> Fraction:
        """That of the mechanism."""
        return self.mechanism.record_share

    @property
    def delta(self) -> float:
        """That of the mechanism."""
        return self.mechanism.delta

    def group_rate(self, epsilon: Fraction, cap: int) -> Fraction:
        """That of the mechanism."""
        return self.mechanism.group_rate(epsilon, cap)
