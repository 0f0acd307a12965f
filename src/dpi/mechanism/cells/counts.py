"""What one slot's measurement says of one class: noisy counts, and how much its users weigh in them.

Sees numbers after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpi.mechanism.base import Floats


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy numbers of users in each bin: true ones plus Laplace noise of scale `noise`."""

    values: Floats
    noise: float
    doubt: Floats | float = 0.0
    """Variance of the values beside that of the noise, where some of them are estimates."""

    @cached_property
    def total(self) -> float:
        """Noisy number of users."""
        return float(np.add.reduce(self.values))

    @property
    def total_variance(self) -> float:
        """Variance of the noise in the total."""
        return 2 * self.values.size * self.noise**2


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """The histogram of one due class, as it was measured."""

    values: Floats
    """Noisy sum of weights in each bin: users, where all have weight one."""
    noise: float
    """Scale of the Laplace noise, 1/ε of the class."""
    share: float
    """The fraction of what was left that its users paid."""
    most_left: float
    """The most that an account of the class can have left, as a share of ε: who has it has weight one."""

    def of_users(self, left: float) -> Counts:
        """Counts of users who have `left` of ε on average, so weigh `left / most_left`."""
        weight = left / self.most_left
        return Counts(np.asarray(self.values / weight), self.noise / weight)
