"""What every mechanism must do (`dpi.testing.check_mechanism`), on those of the package."""

import pytest

import dpi
from dpi.mechanism.published.linear import Ranges
from dpi.testing import MECHANISM_CHECKS
from dpi.testing.class_sums import ClassSums

FOUR = dpi.Categories(["a", "b", "c", "d"], other=None)
MECHANISMS = {
    "boosted": (dpi.Boosted(), FOUR),
    "boosted, one bin": (dpi.Boosted(), dpi.Categories(["a"], other=None)),
    "boosted, with a season": (dpi.Boosted(season=2), FOUR),
    "boosted, with blocks": (dpi.Boosted(partitions=(dpi.domain.Blocks(4),)), dpi.Bins(range(9))),
    "sums by class": (ClassSums(), FOUR),
    "published": (dpi.Published(dpi.mechanism.published.Multinomial(4, 6), draws=1, rounds=2, accumulative=True), FOUR),
    "published, with a floor and a total": (
        dpi.Published(
            dpi.mechanism.published.DirichletPool(4, 0.5),
            Ranges([0, 1], [2, 4], bins=4),
            draws=1,
            n_min=50,
            total_share="0.2",
        ),
        FOUR,
    ),
}


@pytest.mark.parametrize(("mechanism", "domain"), MECHANISMS.values(), ids=MECHANISMS.keys())
@pytest.mark.parametrize("check", MECHANISM_CHECKS, ids=lambda check: check.__name__)
def test_every_check_of_a_mechanism_holds(check, mechanism, domain):
    """What `dpi.testing.check_mechanism` asks of a mechanism holds for ours, whatever their options."""
    check(mechanism, domain)
