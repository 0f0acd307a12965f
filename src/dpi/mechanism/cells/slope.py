"""How far forecasts of laws were off, class by class: the higher a class, the longer a forecast has to hold.

As in `dpi.mechanism.cells.calibration`, a squared error is R + φ·V on average. What a low class shows in every second
slot, a high one shows once in hundreds, and under more noise. But if forecasts are the worse the older they are, as
where laws go on in one direction and walks are expected, low classes show that too: φ of class m is taken to be
exp(a + s·(m - 1)), s ≥ 0, and level a and slope s are fitted to all classes by what each has shown.

Sees predictions, and counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells.calibration import LARGEST, OUTLIER, PRIOR

SMALLEST = 1.2
"""The smallest factor: the share of dynamics that is wrong is not known.

Source: by trial; the coverage that it leads to is measured by benchmarks/clocked.py.
"""

FADING = 0.9
"""What a measurement of a class counts after the next one that tells as much.

Source: by trial; not measured by itself.
"""

SLOPE, SLOPE_PRIOR = 0.1, 3 * PRIOR
STEEPEST = 0.7
"""The slope before anything was seen, what that is worth in predictions of class 2, and the largest one.

Source: by trial, and by calculation: what goes on in one direction is off by the square of its age, a walk by its age,
and a class waits twice as long as the one below: ln 2.
"""

LOWEST, HIGHEST = -1.0, 3.0
"""Between these lies the level.

Source: by definition.
"""

ROUNDS, LONGEST = 6, 0.5
"""Steps of Newton's method, and the longest of them.

Source: by trial; tests/mechanism/cells/test_slope.py compares with the minimum.
"""


@dataclass(frozen=True, eq=False)
class Slope:
    """Squared errors beyond noise, and what was foreseen of them, of each class, (classes,): sums of predictions."""

    seen: Floats
    foreseen: Floats

    @classmethod
    def begun(cls, classes: int) -> Slope:
        """Before anything was seen."""
        return cls(np.zeros(classes), np.zeros(classes))

    @cached_property
    def factors(self) -> list[float]:
        """φ of each class: by how much variances of forecasts are to be multiplied."""
        level, slope = self._fitted()
        factors = (math.exp(level + slope * (m - 1)) for m in range(self.seen.size))
        return [min(max(factor, SMALLEST), LARGEST) for factor in factors]

    def _fitted(self) -> tuple[float, float]:
        """Level and slope: the squares of seen/φ - foreseen, each by what was foreseen, and both priors."""
        sums = zip(self.seen.tolist(), self.foreseen.tolist(), strict=True)
        known = [(m - 1, seen, foreseen) for m, (seen, foreseen) in enumerate(sums) if foreseen > 0]
        level, slope = 0.0, SLOPE
        if not known:
            return level, slope
        aa, ab, bb = PRIOR, 0.0, SLOPE_PRIOR
        for height, _, foreseen in known:
            aa, ab, bb = aa + foreseen, ab + foreseen * height, bb + foreseen * height**2
        scale = aa * bb - ab * ab
        for _ in range(ROUNDS):
            up, steeper = -PRIOR * level, -SLOPE_PRIOR * (slope - SLOPE)
            for height, seen, foreseen in known:
                off = seen * math.exp(-level - slope * height) - foreseen
                up, steeper = up + off, steeper + off * height
            rise, turn = (bb * up - ab * steeper) / scale, (aa * steeper - ab * up) / scale
            level = min(max(level + min(max(rise, -LONGEST), LONGEST), LOWEST), HIGHEST)
            slope = min(max(slope + min(max(turn, -LONGEST), LONGEST), 0.0), STEEPEST)
        return level, slope

    def after(self, m: int, error: Floats, foreseen: Floats, noise: float) -> Slope:
        """After class m was measured: errors whose variances were foreseen, under noise of a known variance."""
        both = foreseen * self.factors[m] + noise
        each = foreseen / (both * both)
        squared = np.minimum(np.square(error), OUTLIER * both)
        told = float(np.dot(each, foreseen))
        kept = 1 - min(1 - FADING, told / (float(self.foreseen[m]) + 1e-9))
        seen, of = self.seen.copy(), self.foreseen.copy()
        seen[m] = kept * seen[m] + float(np.dot(each, squared - noise))
        of[m] = kept * of[m] + told
        return Slope(seen, of)
