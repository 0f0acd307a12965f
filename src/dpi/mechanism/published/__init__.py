"""The published algorithm, calibrated so that it is truly differentially private."""

from dpi.mechanism.published._published import Published, PublishedState
from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial

__all__ = ["DirichletPool", "MixedPool", "Multinomial", "Published", "PublishedState"]
