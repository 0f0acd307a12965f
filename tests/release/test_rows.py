"""Synthetic rows say what their release says, and no more."""

import numpy as np
import pytest

import dpi
from dpi.release.rows import draw_rows
from made_releases import release, without_total

PLACES = dpi.Product(page=dpi.Categories(["home", "cart"]), age=dpi.Bins([20, 40, 60]))


@pytest.mark.parametrize("number", [1, 7, 1000, 20_000])
def test_every_value_has_as_many_rows_as_its_share_up_to_one(number):
    """The parts of a product stay together; weights sum to the released number of users."""
    one = release(PLACES, 0, np.random.default_rng(1))
    rows, _ = draw_rows(one, number)
    assert rows.columns == ["page", "age", "users", "synthetic"]
    assert rows.height == number
    assert rows["users"].sum() == pytest.approx(one.total)
    assert rows["synthetic"].all()
    codes = PLACES.encode({"page": rows["page"], "age": rows["age"]})
    counts = np.bincount(codes, minlength=PLACES.size)
    assert (np.abs(counts - number * one.pdf) < 1 + 1e-9).all()


def test_rows_follow_from_the_release():
    """Equal releases give equal rows, another one other rows; without a number, a row is one user."""
    rng = np.random.default_rng(2)
    one, other = (release(PLACES, 0, rng) for _ in range(2))
    rows, about = draw_rows(one)
    assert rows.equals(draw_rows(dpi.Release.from_json(one.to_json(), PLACES))[0])
    assert not rows.equals(draw_rows(other, rows.height)[0])
    assert rows.height == about["rows"] == round(one.total)


def test_rows_state_the_intervals_of_their_release():
    """In their metadata: those of every value that has a row, and of the number of users."""
    one = release(PLACES, 3, np.random.default_rng(3), certificate={"digest": "c0ffee"})
    _, about = draw_rows(one, 50_000)
    lower, upper = one.interval()
    assert about["synthetic"] is True
    assert (about["slot"], about["certificate"], about["guarantee"]) == (3, "c0ffee", one.guarantee)
    assert about["users"] == dict(zip(("value", "lower", "upper"), (one.total, *one.count().interval()), strict=True))
    known = {PLACES.label(code): code for code in range(PLACES.size)}
    for row in about["shares"]:
        code = known[row["label"]]
        assert (row["value"], row["lower"], row["upper"]) == (one.pdf[code], lower[code], upper[code])


@pytest.mark.parametrize("number", [0, -5, 1 << 40])
def test_a_number_of_rows_that_cannot_be_is_refused(number):
    """By the name of the option."""
    one = release(PLACES, 0, np.random.default_rng(4))
    with pytest.raises(dpi.OptionError, match=rf"^`number` must be from 1 to 100,000,000 rows. Got {number}"):
        draw_rows(one, number)


def test_without_a_total_the_number_must_be_said():
    """Then a row stands for nobody knows how many."""
    (one,) = without_total(PLACES, 1)
    with pytest.raises(dpi.OptionError, match=r"^`number` is required"):
        draw_rows(one)
    rows, about = draw_rows(one, 10)
    assert rows["users"].null_count() == 10
    assert about["users"] is None
