"""The estimator: what a slot's noisy sums say of all who were active, learned from simulated populations.

Post-processing of public numbers: it can be wrong, and it cannot leak. Weights are of simulated worlds alone;
`dpi_research.learn` makes, trains and judges them.
"""

from dpi.estimator._calibration import Calibration, calibrate
from dpi.estimator._filter import step
from dpi.estimator._joint import difference_scale, rose, sum_scale
from dpi.estimator._layers import Weights
from dpi.estimator._people import AFTER, WINDOWS, People, Released, Told, next_people, no_people
from dpi.estimator._state import FREEDOM, QUANTILE, Measurement, Posterior, State, initial_state
from dpi.estimator._weights import (
    CARD,
    HEADS,
    HISTOGRAMS,
    SHAPES,
    WEIGHTS,
    digest,
    load_weights,
    trained,
    trained_digest,
)

__all__ = [
    "AFTER",
    "CARD",
    "FREEDOM",
    "HEADS",
    "HISTOGRAMS",
    "QUANTILE",
    "SHAPES",
    "WEIGHTS",
    "WINDOWS",
    "Calibration",
    "Measurement",
    "People",
    "Posterior",
    "Released",
    "State",
    "Told",
    "Weights",
    "calibrate",
    "difference_scale",
    "digest",
    "initial_state",
    "load_weights",
    "next_people",
    "no_people",
    "rose",
    "step",
    "sum_scale",
    "trained",
    "trained_digest",
]
