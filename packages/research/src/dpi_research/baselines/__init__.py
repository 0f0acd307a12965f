"""The systems of others, behind one protocol; and a way to make each protect a user for ever."""

from dpi_research.baselines.accounting import Loss
from dpi_research.baselines.base import Baseline, Facts
from dpi_research.baselines.binary import Binary
from dpi_research.baselines.blt import BufferedToeplitz
from dpi_research.baselines.blt_parameters import Buffers, rational_approximation
from dpi_research.baselines.boosting import QueryBoosting
from dpi_research.baselines.budget_absorption import BudgetAbsorption
from dpi_research.baselines.budget_distribution import BudgetDistribution
from dpi_research.baselines.catalogue import CATALOGUE, PublicFacts, baseline
from dpi_research.baselines.cgm_spirit import CgmSpirit
from dpi_research.baselines.concentrated import Concentrated
from dpi_research.baselines.consistency import Consistent
from dpi_research.baselines.demo import Demo
from dpi_research.baselines.dong_spirit import DongSpirit
from dpi_research.baselines.fast import Fast
from dpi_research.baselines.frequency import certain_gap, top_k
from dpi_research.baselines.honaker import Honaker
from dpi_research.baselines.hybrid import Hybrid
from dpi_research.baselines.key_selection import KeySelection
from dpi_research.baselines.ldp_budget import LBA, LBD, LBU, LSP
from dpi_research.baselines.ldp_population import LPA, LPD, LPU
from dpi_research.baselines.logarithmic import Logarithmic
from dpi_research.baselines.monitoring import SlidingWindow, jumps, low_signal
from dpi_research.baselines.noisy_histogram import NoisyHistogram
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.per_bin import PerBin
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.ranges import RangeCounter
from dpi_research.baselines.rescue import RescueDP
from dpi_research.baselines.restarted import Restarted
from dpi_research.baselines.square_root import SquareRoot
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import ToPL
from dpi_research.baselines.tops import ToPS
from dpi_research.baselines.user_level import Cap, UserLevel, user_level

__all__ = [
    "CATALOGUE",
    "LBA",
    "LBD",
    "LBU",
    "LPA",
    "LPD",
    "LPU",
    "LSP",
    "Baseline",
    "Binary",
    "BudgetAbsorption",
    "BudgetDistribution",
    "BufferedToeplitz",
    "Buffers",
    "Cap",
    "CgmSpirit",
    "Concentrated",
    "Consistent",
    "Demo",
    "DongSpirit",
    "Facts",
    "Fast",
    "Honaker",
    "Hybrid",
    "KeySelection",
    "Logarithmic",
    "Loss",
    "NoisyHistogram",
    "Pegasus",
    "PerBin",
    "Perrier",
    "PublicFacts",
    "QueryBoosting",
    "RangeCounter",
    "RescueDP",
    "Restarted",
    "SlidingWindow",
    "SquareRoot",
    "Thresh",
    "ToPL",
    "ToPS",
    "UserLevel",
    "baseline",
    "certain_gap",
    "jumps",
    "low_signal",
    "rational_approximation",
    "top_k",
    "user_level",
]
