import numpy as np
import pytest

import dpi
from dpi.report._facts import COLUMNS, LOWER, UPPER, VALUE, reduce
from dpi.report._rows import BARS, VALUES
from made_releases import release, releases

MANY = dpi.Categories([f"v{i}" for i in range(150)], other=None)


def test_rows_and_columns_are_the_releases_own_numbers():
    """Up to the bounds nothing is averaged: a cell is the share and interval of its release."""
    stream = releases(dpi.Categories(list("abc"), other=None), 25)
    facts = reduce(stream)
    assert facts.rows.labels == ("a", "b", "c")
    for column, made in enumerate(stream):
        lower, upper = made.interval(0.95)
        assert facts.shares[VALUE, :, column].tolist() == made.pdf.tolist()
        assert facts.shares[LOWER, :, column].tolist() == lower.tolist()
        assert facts.shares[UPPER, :, column].tolist() == upper.tolist()


def test_everything_else_is_one_minus_the_named_values():
    """The last row holds what the named ones leave, with the error that `queries` gives to such a sum."""
    stream = releases(MANY, 3)
    facts = reduce(stream)
    assert (len(facts.rows.labels), facts.rows.others) == (VALUES, 150 - VALUES)
    codes = [int(label[1:]) for label in facts.rows.labels]
    others = np.ones(150)
    others[codes] = 0
    answer = stream[-1]._linear(others)
    share, lower, upper, _ = facts.rest[:, -1]
    assert share == pytest.approx(answer.value)
    assert (lower, upper) == pytest.approx(answer.interval(0.95))


def test_the_largest_of_the_newest_slot_always_have_a_row():
    """A value that is large now has a row, even if it was small before."""
    rng = np.random.default_rng(3)
    pdf = np.full(150, 0.1 / 149)
    pdf[149] = 0.9
    facts = reduce([release(MANY, 0, rng), release(MANY, 1, rng, pdf=pdf)])
    assert "v149" in facts.rows.labels
    assert len(facts.rows.labels) == VALUES
    assert set(facts.rows.labels[: VALUES - BARS]) == {f"v{i}" for i in range(VALUES - BARS)}, "accumulated is falling"


def test_columns_average_neighbours_and_keep_the_newest_slot():
    """Every slot is in exactly one column, and the last column is the newest slot alone."""
    domain = dpi.Categories(["a", "b"], other=None)
    stream = releases(domain, 3100)
    facts = reduce(stream)
    assert facts.per_column == 3
    assert len(facts.names) <= COLUMNS
    first = [made.pdf[0] for made in stream]
    assert facts.shares[VALUE, 0, 0] == pytest.approx(np.mean(first[:3]))
    assert facts.shares[VALUE, 0, -1] == first[-1]
    sizes = np.append(np.full(len(facts.names) - 2, 3), [3099 - 3 * (len(facts.names) - 2), 1])
    assert (facts.shares[VALUE, 0] * sizes).sum() == pytest.approx(np.sum(first))
    assert facts.spent[-1] == 1.0
    assert facts.names[0].endswith("mean of 3 slots")


@pytest.mark.parametrize("count", [1, 2, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS - 1, 2 * COLUMNS])
def test_there_are_never_more_columns_than_the_bound(count):
    """Just below, at and just above the bound."""
    facts = reduce(releases(dpi.Categories(["a"], other=None), count))
    assert len(facts.names) == facts.shares.shape[2] == facts.epsilon.size
    assert len(facts.names) <= COLUMNS
    assert (facts.per_column == 1) == (count <= COLUMNS)


def test_an_ordered_domain_keeps_its_order():
    """Rows of bins stand in the order of the numbers, and so do bars and curves."""
    domain = dpi.Bins([0, 1, 2])
    rng = np.random.default_rng(3)
    facts = reduce([release(domain, 0, rng, accumulated=np.array([0.1, 0.2, 0.4, 0.3]))])
    assert facts.rows.labels == ("< 0", "[0, 1)", "[1, 2)", "≥ 2")
    assert facts.rows.bars == facts.rows.curves == (0, 1, 2, 3)


def test_releases_are_read_once_and_one_at_a_time():
    """A sequence that loads releases from a store is asked for each of them once, and for the newest first."""
    made = releases(dpi.Categories(["a", "b"]), 50)
    asked = []

    class Store(list):
        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

        def __iter__(self):
            return (self[i] for i in range(len(self)))

    reduce(Store(made))
    assert asked == [49, *range(50)]
