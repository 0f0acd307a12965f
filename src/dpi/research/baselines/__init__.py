"""The systems of others, behind one protocol; and a way to make each protect a user for ever."""

from dpi.research.baselines.accounting import Loss
from dpi.research.baselines.base import Baseline, Facts
from dpi.research.baselines.binary import Binary
from dpi.research.baselines.blt import BufferedToeplitz
from dpi.research.baselines.blt_parameters import Buffers, rational_approximation
from dpi.research.baselines.boosting import QueryBoosting
from dpi.research.baselines.budget_absorption import BudgetAbsorption
from dpi.research.baselines.budget_distribution import BudgetDistribution
from dpi.research.baselines.catalogue import CATALOGUE, PublicFacts, baseline
from dpi.research.baselines.cgm_spirit import CgmSpirit
from dpi.research.baselines.concentrated import Concentrated
from dpi.research.baselines.consistency import Consistent
from dpi.research.baselines.demo import Demo
from dpi.research.baselines.dong_spirit import DongSpirit
from dpi.research.baselines.fast import Fast
from dpi.research.baselines.frequency import certain_gap, top_k
from dpi.research.baselines.honaker import Honaker
from dpi.research.baselines.hybrid import Hybrid
from dpi.research.baselines.key_selection import KeySelection
from dpi.research.baselines.ldp_budget import LBA, LBD, LBU, LSP
from dpi.research.baselines.ldp_population import LPA, LPD, LPU
from dpi.research.baselines.logarithmic import Logarithmic
from dpi.research.baselines.monitoring import SlidingWindow, jumps, low_signal
from dpi.research.baselines.noisy_histogram import NoisyHistogram
from dpi.research.baselines.pegasus import Pegasus
from dpi.research.baselines.per_bin import PerBin
from dpi.research.baselines.perrier import Perrier
from dpi.research.baselines.ranges import RangeCounter
from dpi.research.baselines.rescue import RescueDP
from dpi.research.baselines.restarted import Restarted
from dpi.research.baselines.square_root import SquareRoot
from dpi.research.baselines.thresh import Thresh
from dpi.research.baselines.topl import ToPL
from dpi.research.baselines.tops import ToPS
from dpi.research.baselines.user_level import Cap, UserLevel, user_level

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
