"""The systems of the published comparison, behind one protocol; and a way to make each protect a user for ever."""

from dpi.baselines.accounting import Loss
from dpi.baselines.base import Baseline, Facts
from dpi.baselines.binary import Binary
from dpi.baselines.boosting import QueryBoosting
from dpi.baselines.catalogue import CATALOGUE, Setting, baseline
from dpi.baselines.consistency import Consistent
from dpi.baselines.demo import Demo
from dpi.baselines.frequency import certain_gap, top_k
from dpi.baselines.hybrid import Hybrid
from dpi.baselines.logarithmic import Logarithmic
from dpi.baselines.monitoring import SlidingWindow, jumps, low_signal
from dpi.baselines.noisy_histogram import NoisyHistogram
from dpi.baselines.pegasus import Pegasus
from dpi.baselines.per_bin import PerBin
from dpi.baselines.perrier import Perrier
from dpi.baselines.ranges import RangeCounter
from dpi.baselines.restarted import Restarted
from dpi.baselines.topl import ToPL
from dpi.baselines.tops import ToPS
from dpi.baselines.user_level import Cap, UserLevel, user_level

__all__ = [
    "CATALOGUE",
    "Baseline",
    "Binary",
    "Cap",
    "Consistent",
    "Demo",
    "Facts",
    "Hybrid",
    "Logarithmic",
    "Loss",
    "NoisyHistogram",
    "Pegasus",
    "PerBin",
    "Perrier",
    "QueryBoosting",
    "RangeCounter",
    "Restarted",
    "Setting",
    "SlidingWindow",
    "ToPL",
    "ToPS",
    "UserLevel",
    "baseline",
    "certain_gap",
    "jumps",
    "low_signal",
    "top_k",
    "user_level",
]
