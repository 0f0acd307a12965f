"""How much of a release was measured in its slot, and how long ago the rest was."""

import numpy as np
import pytest

import dpi
from made_releases import release

ON = " of this picture is carried forward, from "
DOMAIN = dpi.Categories(["DE", "FR"])


@pytest.mark.parametrize(
    ("given", "share", "ago", "words"),
    [
        ({}, 1.0, 0.0, None),
        ({"epsilon": 0.0}, 0.0, None, "Nothing was measured in this slot."),
        ({"carried": 0.0, "age": 0.0}, 1.0, 0.0, "This picture was measured in its slot."),
        ({"carried": 0.5, "age": 12.0}, 0.5, 6.0, f"50 %{ON}12 slots ago on average."),
        ({"carried": 1.0, "age": 7.0}, 0.0, 7.0, f"100 %{ON}7 slots ago on average."),
        ({"carried": 1.0, "age": 7.0, "epsilon": 0.0}, 0.0, 7.0, f"100 %{ON}7 slots ago on average."),
        ({"carried": 1.0, "age": 0.0, "epsilon": 0.0}, 0.0, None, "Nothing was measured in this slot."),
    ],
)  # fmt: skip
def test_what_a_release_says_of_its_measurement(given, share, ago, words):
    """The share, and the mean age of the whole picture; None where no measurement was made up to then."""
    made = release(DOMAIN, 3, np.random.default_rng(1), **given)
    assert (made.measured, made.measured_ago, made.freshness) == (share, ago, words)


def test_a_slot_without_budget_is_not_measured():
    """A series of which nothing is left gives slots of ε = 0: their releases say that they were not measured."""
    stream = dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Converging(dpi.budget.Geometric("0.0000001")))
    found = [stream.release(["ada"], ["DE"]) for _ in range(4)]
    assert [(made.epsilon > 0, made.measured) for made in found] == [
        (True, 1.0),
        (True, 1.0),
        (False, 0.0),
        (False, 0.0),
    ]
