"""Measuring by class: noise of its own scale for every group, whether or not somebody is in it."""

from fractions import Fraction

import numpy as np
import pytest

import dpi
from dpi.budget.classes import GroupBudget
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.published.linear import Ranges
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi.testing import MECHANISM_CHECKS
from dpi.testing.class_sums import ClassSums, SharedSums
from dpi.testing.laws import law_of_groups

DOMAIN = dpi.Categories(["a", "b"], other=None)
GROUPS = tuple(GroupBudget(dpi.budget.Epsilon.at_most(epsilon), ()) for epsilon in ("0.5", "0.1", "0.02"))
SUMS = ClassSums()
STATE = SUMS.initial(DOMAIN, classes=3)


def histogram(*grains, **options):
    """Three groups of two bins."""
    return Histogram(np.array(grains) * GRAINS, **({"sensitivity": GRAINS, "groups": 3} | options))


def test_every_group_has_noise_of_its_own_price():
    """The draws are those of the groups' own scales, one group after the other; ε is the largest price."""
    clean = histogram(3, 0, 7, 1, 0, 0)
    found = SUMS.measure_classes(STATE, clean, GROUPS, 5, UnsafeSeededSource(1))
    source = UnsafeSeededSource(1)
    rows = zip(clean.by_group, GROUPS, strict=True)
    expected = np.concatenate([add_laplace(row, group.epsilon.scale, source) for row, group in rows])
    assert found.values.tolist() == expected.tolist()
    assert (found.slot, found.epsilon, found.groups) == (5, GROUPS[0].epsilon, GROUPS)


@pytest.mark.parametrize("member", range(3))
def test_a_user_loses_the_price_of_their_group_times_their_weight(member):
    """The largest log-likelihood ratio over all outputs is E·w, exactly, in both directions."""
    weight = GRAINS * 3 // 8
    one, other = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64)
    one[2 * member] += weight // 3
    one[2 * member + 1] += weight - weight // 3
    laws = [law_of_groups(Histogram(grains, GRAINS, groups=3), GROUPS) for grains in (one, other)]
    for first, second in (laws, laws[::-1]):
        assert first.worst(second).loss == GROUPS[member].epsilon.fraction * Fraction(weight, GRAINS)


@pytest.mark.parametrize("wrong", [{"sensitivity": 2 * GRAINS}, {"groups": 2}, {"groups": 1}])
def test_a_histogram_of_other_groups_or_another_sensitivity_is_refused(wrong):
    """What is refused follows from options, not from data."""
    with pytest.raises(OptionError):
        SUMS.measure_classes(STATE, histogram(0, 0, 0, 0, 0, 0, **wrong), GROUPS, 0, UnsafeSeededSource(1))


@pytest.mark.parametrize("mechanism", [dpi.Published(dpi.mechanism.published.Multinomial(4, 6)), dpi.Published()])
def test_who_needs_weight_one_knows_no_classes(mechanism):
    """The published mechanism asks no class for a share."""
    assert not mechanism.by_class
    with pytest.raises(OptionError, match="by class"):
        mechanism.request_payments(None, 0)


def test_a_state_of_classes_is_kept():
    """What the sums remember comes back from bytes, and damage is told."""
    after, estimate = SUMS.update(
        STATE, SUMS.measure_classes(STATE, histogram(9, 9, 1, 1, 0, 0), GROUPS, 0, UnsafeSeededSource(2))
    )
    assert SUMS.from_bytes(DOMAIN, SUMS.to_bytes(after)) == after != STATE
    assert estimate.pdf.sum() == pytest.approx(1)
    for data, domain in ((b"[]", DOMAIN), (SUMS.to_bytes(after), dpi.Categories(["a"], other=None))):
        with pytest.raises(dpi.StateError):
            SUMS.from_bytes(domain, data)


FOUR = dpi.Categories(["a", "b", "c", "d"], other=None)
MECHANISMS = {
    "boosted": (dpi.Boosted(), FOUR),
    "boosted, one bin": (dpi.Boosted(), dpi.Categories(["a"], other=None)),
    "boosted, with a season": (dpi.Boosted(season=2), FOUR),
    "boosted, with blocks": (dpi.Boosted(partitions=(dpi.domain.Blocks(4),)), dpi.Bins(range(9))),
    "sums by class": (ClassSums(), FOUR),
    "sums of shared histograms": (SharedSums(), FOUR),
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
