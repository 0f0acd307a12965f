"""Users who are measured alike: whatever noise and data do, an estimate is one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.mechanism.class_estimator._single_class import SingleClassState, update_single_class

sums = st.floats(-1e4, 1e4) | st.sampled_from([-1e9, -1022.0, 0.0, 1024.0, 1e9])


@settings(max_examples=150, deadline=None)
@given(
    st.integers(2, 6).flatmap(
        lambda bins: st.lists(st.none() | st.lists(sums, min_size=bins, max_size=bins), max_size=8)
    ),
    st.floats(1e-3, 3),
    st.booleans(),
    st.sampled_from([0, 3]),
)
def test_every_estimate_is_a_law(slots, epsilon, partial, season):
    """Of any counts, measured or not: shares above zero that sum to one, finite variances, a state that goes on."""
    bins = next((len(counts) for counts in slots if counts is not None), 3)
    state = SingleClassState.begun(bins, season)
    for slot, counts in enumerate(slots):
        given_counts = None if counts is None else np.array(counts)
        state, estimate = update_single_class(state, slot, given_counts, epsilon, partial=partial)
        assert abs(estimate.pdf.sum() - 1) < 1e-9
        assert (estimate.pdf > 0).all()
        assert np.isfinite(estimate.variance).all()
        assert (estimate.variance >= 0).all()
        assert np.isfinite(state.laws.mean).all()
        assert np.isfinite(state.laws.covariance).all()


def test_sums_that_all_contradict_the_law_are_taken_as_they_are():
    """Where every bin looks like a crowd there is nobody left to go by: sums that an auditor forces, and no others."""
    state, _ = update_single_class(SingleClassState.begun(3, 0), 0, np.array([1024.0, 1.0, 1.0]), 0.1)
    for slot in (1, 2, 3):
        state, estimate = update_single_class(state, slot, np.array([-1021.0, -1021.0, 1024.0]), 0.1)
        assert abs(estimate.pdf.sum() - 1) < 1e-9
