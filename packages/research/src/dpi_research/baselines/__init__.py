"""The systems of others, behind one protocol; and a way to make each protect a user for ever."""

from dpi_research.baselines.accounting import Loss
from dpi_research.baselines.base import Baseline, Facts
from dpi_research.baselines.catalogue import CATALOGUE, PublicFacts, baseline
from dpi_research.baselines.wrappers import Cap, UserLevel, user_level

__all__ = ["CATALOGUE", "Baseline", "Cap", "Facts", "Loss", "PublicFacts", "UserLevel", "baseline", "user_level"]
