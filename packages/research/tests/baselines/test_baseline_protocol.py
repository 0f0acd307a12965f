import numpy as np
import pytest

from check_baseline import CHECKS
from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource as Seeded
from dpi_research.baselines import CATALOGUE, PublicFacts, baseline
from dpi_research.baselines.boosting import QueryBoosting
from dpi_research.baselines.counters import Binary, Hybrid, Logarithmic, RangeCounter
from dpi_research.baselines.honaker import Honaker, KeySelection
from dpi_research.baselines.ldp_ids import LBA, LBD, LBU, LPA, LPD, LPU, LSP
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.perrier import Perrier
from dpi_research.baselines.plain import Demo, NoisyHistogram
from dpi_research.baselines.sampling import Fast, RescueDP
from dpi_research.baselines.spirits import CgmSpirit, DongSpirit
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import ToPL
from dpi_research.baselines.tops import ToPS
from dpi_research.baselines.w_event import BudgetAbsorption, BudgetDistribution
from dpi_research.baselines.wrappers import PerBin, Restarted

MECHANISMS = {
    "binary": lambda seed: Binary(epsilon=1, bins=3, slots=50, unsafe_source=Seeded(seed)),
    "logarithmic": lambda seed: Logarithmic(epsilon=1, bins=3, unsafe_source=Seeded(seed)),
    "hybrid": lambda seed: Hybrid(epsilon=1, bins=3, unsafe_source=Seeded(seed)),
    "ranges": lambda seed: RangeCounter(epsilon=1, bins=5, unsafe_source=Seeded(seed)),
    "pegasus": lambda seed: Pegasus(epsilon=1, bins=3, unsafe_source=Seeded(seed)),
    "pegasus js": lambda seed: Pegasus(epsilon=1, smoother="js", threshold=2, unsafe_source=Seeded(seed)),
    "perrier": lambda seed: Perrier(epsilon=1, slots=60, prefix=10, largest=50, unsafe_source=Seeded(seed)),
    "tops": lambda seed: ToPS(
        epsilon=1, slots=60, prefix=10, largest=50, fan_out=4, dropped=1, unsafe_source=Seeded(seed)
    ),
    "topl": lambda seed: ToPL(epsilon=1, slots=60, prefix=10, largest=50, grid=16, unsafe_source=Seeded(seed)),
    "boosting": lambda seed: QueryBoosting(
        epsilon=10, bins=4, rows=100, rounds=2, sample=5, unsafe_source=Seeded(seed)
    ),
    "noisy": lambda seed: NoisyHistogram(epsilon=1, bins=3, unsafe_source=Seeded(seed)),
    "demo": lambda seed: Demo(bins=3, unsafe_source=Seeded(seed)),
    "restarted binary": lambda seed: Restarted(
        epsilon=1, bins=2, mechanism=Binary(epsilon=3, bins=2, slots=5), unsafe_source=Seeded(seed)
    ),
    "restarted tops": lambda seed: Restarted(
        epsilon=1,
        mechanism=ToPS(epsilon=3, slots=4, prefix=3, largest=9, fan_out=2, dropped=0),
        unsafe_source=Seeded(seed),
    ),
    "bd": lambda seed: BudgetDistribution(epsilon=1, bins=3, window=4, unsafe_source=Seeded(seed)),
    "ba": lambda seed: BudgetAbsorption(epsilon=1, bins=3, window=4, unsafe_source=Seeded(seed)),
    "one-slot window": lambda seed: BudgetDistribution(epsilon=1, bins=3, window=1, unsafe_source=Seeded(seed)),
    "fast": lambda seed: Fast(epsilon=1, bins=3, slots=60, unsafe_source=Seeded(seed)),
    "rescue": lambda seed: RescueDP(epsilon=1, bins=3, window=4, unsafe_source=Seeded(seed)),
    **{
        method.__name__: (
            lambda seed, method=method: method(epsilon=1, bins=3, users=100, window=4, unsafe_source=Seeded(seed))
        )
        for method in (LBU, LSP, LBD, LBA, LPU, LPD, LPA)
    },
    "thresh": lambda seed: Thresh(epsilon=40, bins=2, users=1000, epochs=2, length=1000, unsafe_source=Seeded(seed)),
    "cgm spirit": lambda seed: CgmSpirit(epsilon=1, bins=3, largest=50, step=5, period=4, unsafe_source=Seeded(seed)),
    "dong spirit": lambda seed: DongSpirit(epsilon=1, bins=3, unsafe_source=Seeded(seed)),
    "honaker": lambda seed: Honaker(epsilon=1, bins=3, slots=50, unsafe_source=Seeded(seed)),
    "dp-sqlp": lambda seed: KeySelection(epsilon=1, bins=3, slots=50, failure=0.3, unsafe_source=Seeded(seed)),
    "per bin": lambda seed: PerBin(
        epsilon=1,
        bins=2,
        mechanism=Perrier(epsilon=1, slots=60, prefix=10, largest=50),
        unsafe_source=Seeded(seed),
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_mechanism_passes_the_suite(name, check):
    """Each check of the shared suite holds for each mechanism."""
    check(MECHANISMS[name])


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_sets_every_mechanism_up_for_a_histogram(name):
    """By name, from public facts alone, a mechanism releases every declared slot."""
    setting = PublicFacts(epsilon=1, bins=4, slots=20, largest=100, rows=1000, unsafe_source=Seeded(1))
    mechanism = baseline(name, setting)
    for _ in range(20):
        release = mechanism.update([5, 0, 9, 1])
    assert release.shape == (4,)
    assert np.isfinite(release).all()
    assert mechanism.slot == 20


def test_an_unknown_name_is_refused():
    """The error lists what there is."""
    with pytest.raises(OptionError, match="known are binary"):
        baseline("magic", PublicFacts(epsilon=1, bins=2, slots=3))


MEMORY = {
    "bd": 3 + 4,
    "ba": 3 + 2,
    "fast": 3 * 10,
    "rescue": 3 * (18 + 3),
    "LBU": 3 + 1,
    "LSP": 3 + 1,
    "LPU": 3 + 1,
    "LBD": 3 + 4 + 1,
    "LBA": 3 + 3,
    "LPD": 3 + 4 + 1,
    "LPA": 3 + 3,
    "cgm spirit": 3 * 2,
    "honaker": 3 * 13,
    "dp-sqlp": 3 * 28,
}
"""What the facts say, for three bins, a window of four, 50 declared slots, after 20 slots."""


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_what_the_facts_say(name):
    """After 20 slots as many numbers are held as the table's formula gives; errors of samples may be fewer."""
    mechanism = MECHANISMS[name](0)
    for _ in range(20):
        mechanism.update([5, 9, 1])
    if name in ("fast", "rescue"):
        assert mechanism.memory <= MEMORY[name]
    else:
        assert mechanism.memory == MEMORY[name]
