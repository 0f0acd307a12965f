from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpi.budget.billing import SHARE_STEPS
from dpi.mechanism import cells

numbers = st.floats(0, 1e9)


@settings(max_examples=50, deadline=None)
@given(arrays(float, (5, 2), elements=numbers), arrays(float, (5, 2), elements=numbers), st.integers(1, 5))
def test_shares_are_fractions_that_accounts_can_pay(known, evidence, due):
    """Above zero, below one, in steps of 2^-12, one for each due class, whatever was learned."""
    state = replace(cells.initial(3, 5), precision=np.array([np.diag(row) for row in known]), evidence=evidence)
    shares = cells.shares(state, due)
    assert len(shares) == due
    for share in shares:
        assert isinstance(share, Fraction)
        assert 0 < share < 1
        assert (share * SHARE_STEPS).denominator == 1


def test_newcomers_pay_about_half_at_first():
    """Before anything is known of who returns."""
    newcomers, others = cells.shares(cells.initial(3, 5), 2)
    assert 0.5 <= newcomers < 0.6
    assert 0.25 <= others < 0.4
