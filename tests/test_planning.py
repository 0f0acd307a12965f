import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.budget.epsilon import UNITS
from dpi.errors import OptionError


def lasts(plan, option):
    """Whether accounts last as long as was stated."""
    return option.slots == plan.seen if plan.population is None else option.dry_after >= plan.lasting


@given(
    st.floats(1e-10, 10), st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 10**4) | st.none(),
    st.tuples(st.integers(1, 10**3), st.integers(1, 10**4)) | st.none(),
)  # fmt: skip
def test_every_row_is_possible_and_no_two_are_the_same(epsilon, users, bins, seen, staying):
    """A share is off by at most 1, all by at most 2; an account pays no more slots than its user is seen in."""
    stated = {"seen": seen} if staying is None else {"population": users * staying[0], "lasting": staying[1]}
    plan = dpi.plan(epsilon=epsilon, users=users, bins=bins, **stated)
    assert (plan.best is None) == all(option.half_width == 1 for option in plan.options if lasts(plan, option))
    assert plan.best is None or plan.best.half_width == min(o.half_width for o in plan.options if lasts(plan, o))
    for option in plan.options:
        assert 0 < option.half_width <= 1
        assert 0 < option.l1 <= 2
        assert 0 < option.paying <= users
        assert option.per_slot * UNITS >= 1
        assert staying is not None or option.slots <= (seen or 1)
    assert len({(option.per_slot, option.slots) for option in plan.options}) == len(plan.options)
    assert len({tuple(line.split()) for line in str(plan).splitlines()}) == len(plan.options) + 2


@given(st.floats(1e-3, 10), st.integers(1, 10**9))
def test_by_a_clock_accounts_are_never_empty(epsilon, users):
    """A half at first, then a quarter of what is left, each wait twice the one before: all of ε is never spent."""
    payments = dpi.plan(epsilon=epsilon, users=users, bins=3).payments
    assert [paid.after for paid in payments] == [0, 2, 6, 14, 22, 30]
    spent = 0.0
    for number, paid in enumerate(payments):
        assert paid.cost == pytest.approx((epsilon - spent) * (0.25 if number else 0.5))
        spent += paid.cost
        assert paid.left == pytest.approx(epsilon - spent)
        assert paid.left > 0
        assert 0 < paid.half_width <= 1


def test_no_price_is_recommended_for_users_who_stay_for_ever():
    """Every price empties their accounts; for a stream that ends, the dearest that lasts until then is."""
    assert dpi.plan(epsilon=1, users=10_000, bins=20, population=10_000).best is None
    advice = dpi.plan(epsilon=1, users=10_000, bins=20, population=10_000).advice()
    assert "every price empties their accounts (0.01 after 100 slots)" in advice
    assert "--per-slot" not in advice
    ends = dpi.plan(epsilon=1, users=10_000, bins=20, population=10_000, lasting=50)
    assert (ends.best.slots, ends.best.dry_after) == (50, 50)
    assert "--per-slot 0.02" in ends.advice()


def test_no_price_is_recommended_whose_noise_is_larger_than_any_share():
    """Of ten users a slot by itself tells nothing."""
    plan = dpi.plan(epsilon=1, users=10, bins=20, seen=20)
    assert plan.best is None
    assert "larger than any share" in plan.advice()


def test_accounts_that_cannot_last_so_long_are_refused():
    """No slot costs less than the smallest amount of budget there is."""
    with pytest.raises(OptionError, match="`lasting` must be shorter"):
        dpi.plan(epsilon=2**-39, users=1, bins=1, population=1, lasting=3)


def test_for_ever_depends_on_what_newcomers_bring_and_on_how_long_the_same_users_stay():
    """More users, a larger ε and fewer bins know more; users who stay longer bring less."""
    usual = dpi.plan(epsilon=1, users=5_000, bins=200, seen=10).for_ever
    assert dpi.plan(epsilon=2, users=5_000, bins=200, seen=10).for_ever == pytest.approx(usual / 2 ** (1 / 3))
    assert dpi.plan(epsilon=1, users=10_000, bins=200, seen=10).for_ever < usual
    assert dpi.plan(epsilon=1, users=5_000, bins=400, seen=10).for_ever > usual
    assert dpi.plan(epsilon=1, users=5_000, bins=200, seen=20).for_ever > usual
    assert dpi.plan(epsilon=1, users=5_000, bins=200, population=5_000, lasting=10).for_ever == pytest.approx(usual)
    assert dpi.plan(epsilon=0.01, users=10, bins=1_000).for_ever == 1
