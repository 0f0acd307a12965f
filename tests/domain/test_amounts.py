"""Amounts: steps, the grid, and how it follows releases."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.domain._amounts import LEVELS, Amounts, Side
from dpi.domain.file import describe, from_description
from dpi.domain.overlap import recoding
from dpi.exact.integers import MOST

SIDES = st.builds(
    lambda first, depths: Side(min(first, LEVELS - len(depths)), tuple(depths)),
    st.integers(0, LEVELS),
    st.lists(st.integers(0, 2), max_size=LEVELS),
)


@given(SIDES, SIDES)
def test_a_grid_is_what_its_description_says(plus, minus):
    """Edges increase, zero is one of them, and the description gives the same domain again."""
    domain = Amounts("0.01", plus=plus, minus=minus)
    assert (np.diff(domain.cuts) > 0).all()
    assert 0 in domain.cuts
    assert from_description(describe(domain)) == domain
    assert domain.middles.size == domain.size


@given(SIDES, SIDES, st.integers(-MOST, MOST))
def test_a_middle_lies_in_its_bin(plus, minus, steps):
    """What stands for a bin is one of its own amounts, or the cap."""
    domain = Amounts(1, plus=plus, minus=minus)
    code = int(domain.bins(np.array([steps]))[0])
    assert code == domain.index(steps)
    assert domain.cuts[0] <= domain.middles[code] <= domain.cuts[-1]
    if 0 < code < domain.size - 1:
        assert domain.cuts[code - 1] <= domain.middles[code] <= domain.cuts[code]


def test_amounts_are_whole_steps():
    """Floats, texts, huge and missing ones: each by itself, rounded and cut."""
    amounts = [1.15, "-2.675", 0, 1e300, float("-inf"), None, "x", float("nan"), 0.001]
    codes, steps = Amounts("0.01").encode_rows(amounts)
    assert codes.tolist() == [0, 1, 2, 0, 1, -1, -1, -1, 2]
    assert steps.tolist()[:5] == [115, 268, 1, MOST, MOST]


def test_rows_do_not_depend_on_the_grid():
    """Events of open slots are the same under every grid of the same step, and lost under another step."""
    wide, narrow = Amounts(1), Amounts(1, plus=Side(2, (0, 1)), minus=Side(0, ()))
    assert wide.same_rows(narrow)
    assert recoding(wide, narrow).tolist() == [0, 1, 2]
    assert recoding(wide, Amounts(2)).tolist() == [-1, -1, -1]
    assert recoding(dpi.Bins([0]), wide).tolist() == [-1, -1]


def released(domain, sums):
    """A release without noise, of a known deviation."""
    pdf = np.bincount(domain.encode(sums), minlength=domain.size) / len(sums)
    return domain.refined(pdf, np.full(domain.size, 1e-6))


def test_the_grid_finds_the_scale_and_is_fine_where_users_are():
    """After one release the cap is near the largest amounts, and the bins are where most users are."""
    sums = np.random.default_rng(1).lognormal(3, 0.5, 10_000)
    domain = released(Amounts("0.01"), sums)
    assert sums.max() / 4 <= domain.edges[-1] <= 4 * sums.max()
    assert domain.edges[0] == -0.01
    inside = np.bincount(domain.encode(sums), minlength=domain.size) / sums.size
    assert inside.max() < 0.5
    assert domain.size < 15


def test_the_cap_grows_by_releases():
    """While users are beyond the cap it grows fourfold a slot; when they are gone it comes back."""
    domain = released(Amounts(1), [5, 6, 7, 9])
    caps = []
    for _ in range(6):
        caps.append(domain.edges[-1])
        domain = released(domain, [5, 1000, 2000, 3000])
    assert [after / before for before, after in pairwise(caps)] == [4, 4, 4, 4, 1]
    assert released(domain, [5, 6, 7, 9]).edges[-1] == caps[0]


def test_noise_alone_moves_nothing():
    """Where no level is significant, the grid stays: nothing is known of the scale."""
    domain = Amounts(1)
    assert domain.refined(np.full(domain.size, 1 / domain.size), np.full(domain.size, 1.0)) is domain


@given(SIDES, SIDES, st.integers(0, 2**32))
def test_every_release_gives_a_grid(plus, minus, seed):
    """Whatever is released, the next grid is one that a stream can have."""
    domain, chance = Amounts("0.5", plus=plus, minus=minus), np.random.default_rng(seed)
    pdf = chance.dirichlet(np.full(domain.size, 0.1))
    after = domain.refined(pdf, chance.exponential(1e-3, domain.size) ** 2)
    assert after.step == Fraction(1, 2)
    assert after == from_description(describe(after))


@pytest.mark.parametrize("step", [0, -1, "x", "nan", float("inf"), "1e-40", None])
def test_a_step_is_a_number_above_zero(step):
    """Anything else is refused, with the option's name."""
    with pytest.raises(dpi.OptionError, match="`step`"):
        Amounts(step)


@pytest.mark.parametrize("side", [[0], [0, [3]], [14, [0, 0]], [-1, []], "0", [0, "00"], [0, [0.5]]])
def test_a_damaged_description_is_refused(side):
    """A grid that no stream can have is no domain."""
    with pytest.raises(dpi.OptionError):
        from_description({"kind": "amounts", "plus": side})


def test_amounts_are_no_part_of_a_product():
    """A sum by user has no place beside values that are counted event by event."""
    with pytest.raises(dpi.OptionError, match="their own stream"):
        dpi.Product(country=dpi.Categories(["DE"]), revenue=Amounts())
