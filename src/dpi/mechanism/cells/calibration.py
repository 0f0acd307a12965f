"""How far predictions were off, against how far they said they could be: what intervals are widened or narrowed by.

A prediction with variance V meets a measurement with noise of variance R. Its squared error is R + φ·V on average, and
φ is learned from many of them, each weighted by how much it says of φ. One factor serves the sizes of cells; their
laws have one for each class (`dpi.mechanism.cells.slope`).

Sees predictions, and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats

PRIOR = 10.0
"""Predictions that the factor one is worth before anything was seen.

Source: by trial; the coverage that it leads to is measured by benchmarks/clocked.py.
"""

FADING = 0.8
"""What is left of the past after a measurement of all who are active; less fades where fewer were measured.

Source: by trial; the coverage that it leads to is measured by benchmarks/clocked.py.
"""

SMALLEST, LARGEST = 1.3, 30.0
"""Between these lies the factor: forecasts that were good while they were young may be worse when they are old, and the
share of dynamics that is wrong is not known.

Source: by trial; the coverage that they lead to is measured by benchmarks/clocked.py.
"""


@dataclass(frozen=True)
class Calibration:
    """Squared errors beyond noise, and what was foreseen of them: sums in units of predictions."""

    seen: float = 0.0
    foreseen: float = 0.0

    @property
    def factor(self) -> float:
        """φ: by how much variances of predictions are to be multiplied."""
        return min(max((self.seen + PRIOR) / (self.foreseen + PRIOR), SMALLEST), LARGEST)

    def after(
        self, error: Floats | float, foreseen: Floats | float, noise: Floats | float, weight: float
    ) -> Calibration:
        """After errors whose variances were foreseen, under noise of known variances, of a share `weight` of all."""
        both = foreseen * self.factor + noise
        each = weight * foreseen / (both * both)
        squared = np.minimum(np.square(error), OUTLIER * both)
        kept = 1 - (1 - FADING) * weight
        return Calibration(
            kept * self.seen + float(np.dot(each, squared - noise)),
            kept * self.foreseen + float(np.dot(each, foreseen)),
        )


OUTLIER = 16.0
"""A squared error counts as at most this many of its variance: one surprise must not widen everything.

Source: by calculation; four deviations.
"""
