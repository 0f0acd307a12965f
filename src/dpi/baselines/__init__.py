"""The systems of others, behind one protocol; and a way to make each protect a user for ever."""

from dpi.baselines.accounting import Loss
from dpi.baselines.base import Baseline, Facts
from dpi.baselines.binary import Binary
from dpi.baselines.blt import BufferedToeplitz
from dpi.baselines.blt_parameters import Buffers, rational_approximation
from dpi.baselines.boosting import QueryBoosting
from dpi.baselines.budget_absorption import BudgetAbsorption
from dpi.baselines.budget_distribution import BudgetDistribution
from dpi.baselines.catalogue import CATALOGUE, Setting, baseline
from dpi.baselines.cgm_spirit import CgmSpirit
from dpi.baselines.concentrated import Concentrated
from dpi.baselines.consistency import Consistent
from dpi.baselines.demo import Demo
from dpi.baselines.dong_spirit import DongSpirit
from dpi.baselines.fast import Fast
from dpi.baselines.frequency import certain_gap, top_k
from dpi.baselines.honaker import Honaker
from dpi.baselines.hybrid import Hybrid
from dpi.baselines.key_selection import KeySelection
from dpi.baselines.ldp_budget import LBA, LBD, LBU, LSP
from dpi.baselines.ldp_population import LPA, LPD, LPU
from dpi.baselines.logarithmic import Logarithmic
from dpi.baselines.monitoring import SlidingWindow, jumps, low_signal
from dpi.baselines.noisy_histogram import NoisyHistogram
from dpi.baselines.pegasus import Pegasus
from dpi.baselines.per_bin import PerBin
from dpi.baselines.perrier import Perrier
from dpi.baselines.ranges import RangeCounter
from dpi.baselines.rescue import RescueDP
from dpi.baselines.restarted import Restarted
from dpi.baselines.square_root import SquareRoot
from dpi.baselines.thresh import Thresh
from dpi.baselines.topl import ToPL
from dpi.baselines.tops import ToPS
from dpi.baselines.user_level import Cap, UserLevel, user_level

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
    "QueryBoosting",
    "RangeCounter",
    "RescueDP",
    "Restarted",
    "Setting",
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
