"""Noise in the place of python-dp's, where no wheel of it is to be had (PipelineDP is the only one that asks for it).

PipelineDP takes its noise from python-dp, Google's library in C++, of which there are wheels for x86-64 alone. Of a
release of counts, that is one draw for each of the 1,000 values. Where it is missing, numpy draws them here: the noise
is not that of the library and must not be used to publish anything, and the time is PipelineDP's own, a lower bound.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np

NOTE = "noise by numpy in place of python-dp, which has no wheel here: a lower bound"


class LaplaceMechanism:
    """What PipelineDP calls of python-dp's class of this name."""

    def __init__(self, epsilon: float, sensitivity: float = 1.0) -> None:
        self.epsilon, self.sensitivity = epsilon, sensitivity
        self.diversity = sensitivity / epsilon
        self._random = np.random.default_rng()

    def add_noise(self, value: float) -> float:
        """A number with noise."""
        return value + float(self._random.laplace(0.0, self.diversity))


def install() -> str:
    """Put the stand-in where `pydp` would be, unless that is there. Returns what a reader must know."""
    if find_spec("pydp") is not None:
        return ""
    package, algorithms = ModuleType("pydp"), ModuleType("pydp.algorithms")
    for name in ("numerical_mechanisms", "quantile_tree", "partition_selection"):
        module = ModuleType(f"pydp.algorithms.{name}")
        setattr(algorithms, name, module)
        sys.modules[module.__name__] = module
    mechanisms = sys.modules["pydp.algorithms.numerical_mechanisms"]
    for name in ("LaplaceMechanism", "GaussianMechanism", "NumericalMechanism"):
        setattr(mechanisms, name, LaplaceMechanism)
    sys.modules["pydp.algorithms.quantile_tree"].QuantileTree = object  # type: ignore[attr-defined]
    for name in ("PartitionSelectionStrategy", "create_partition_strategy"):
        setattr(sys.modules["pydp.algorithms.partition_selection"], name, object)
    package.algorithms = algorithms  # type: ignore[attr-defined]
    sys.modules.update({"pydp": package, "pydp.algorithms": algorithms})
    return NOTE
