"""The published algorithm, calibrated so that it is truly differentially private."""

from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial
from dpi.mechanism.published.published import Published, PublishedState

__all__ = ["DirichletPool", "MixedPool", "Multinomial", "Published", "PublishedState"]
