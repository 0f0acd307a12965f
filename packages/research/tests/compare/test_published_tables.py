import json
from fractions import Fraction

import pytest

from dpi_research.compare import published_tables
from strategies import few


@pytest.fixture(scope="module")
def tables():
    """Both tables, computed once; with DPI_SLOW for slots of 5 seconds too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpi_research.compare.tables.SLOT_SECONDS", (Fraction(1, 2), Fraction(5))[: few(1, 2)])
        return published_tables.__wrapped__()


HONEST = {  # pure after 5 and 50 slots, ε at δ after 50, δ of the printed number
    "binary, T = 50": (1.005, 18.20, 14.7, 0.87),
    "binary, T = 2,700": (0.503, 9.10, 7.1, 0.41),
    "hybrid": (1.84, 19.16, 16.1, 0.95),
    "perturber alone": (2.68, 26.8, 19.0, 0.79),
    "tree, T = 50": (1.005, 18.20, 14.7, 0.84),
    "tree, T = 2,700, h = 3": (1.117, 21.9, 17.1, 0.947),
    "tree, T = 50, h = 2": (1.675, 32.8, 26.3, 0.995),
}


@pytest.mark.parametrize("variant", HONEST)
def test_losses_are_those_derived_by_hand(tables, variant):
    """Each recomputed number agrees with an independent derivation, to the digits in which that was written down."""
    (row,) = [r for r in tables.losses if r.variant == variant and r.slot_seconds == 0.5]
    first, last, at_delta, delta = HONEST[variant]
    assert row.pure == pytest.approx((first, last), rel=3e-3)
    assert row.law[1] == pytest.approx(at_delta, abs=0.06)
    assert row.delta_of_printed == pytest.approx(delta, abs=0.006)


def test_the_printed_sensitivities_are_reproduced(tables):
    """Rounded, c·t is 7 and 67 for slots of 0.5 s."""
    for row in tables.losses:
        if row.slot_seconds == 0.5:
            assert tuple(round(x) for x in row.sensitivity) == row.printed_sensitivity
        else:
            assert row.sensitivity == (67, 670)


def test_conversions_are_in_order(tables):
    """The law's ε is never above the pure loss, nor above the published conversion by more than the grid's rounding."""
    for row in tables.losses:
        for pure, law, renyi in zip(row.pure, row.law, row.renyi, strict=True):
            assert law <= pure * (1 + 1e-9)
            assert law <= renyi * (1 + 1e-3)


def test_no_printed_loss_is_a_valid_one(tables):
    """Every printed number after 50 slots would need a δ above 0.3: it bounds nothing."""
    assert min(row.delta_of_printed for row in tables.losses) > 0.3


def test_the_loss_grows_linearly_for_all_four(tables):
    """O(ε·t) is right: the ratio to ε·t stays between 0.3 and 1."""
    assert len(tables.methods) == 4
    for row in tables.methods:
        assert all(0.3 <= ratio <= 1 for ratio in row.user_loss_over_epsilon_t)


def test_what_could_not_be_reproduced_is_said(tables):
    """The notes name it, and text and JSON hold every row."""
    assert any("not reproduced" in note for note in tables.notes)
    assert tables.text().count("et al.") >= len(tables.losses) + len(tables.methods)
    assert len(json.loads(tables.to_json())["losses"]) == len(tables.losses)
