"""Bins of one domain in another: exact where a bin stays, shared where it is split, and nothing made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.domain._domain import OUTSIDE
from dpi.domain.overlap import Overlap, encode, recoding
from dpi.errors import SchemaError
from dpi.options.schedule import Schedule

LETTERS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6, unique=True)
OTHERS = st.sampled_from([None, "other", "rest"])
CATEGORIES = st.builds(dpi.Categories, LETTERS, OTHERS)
BINS = st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True).map(lambda edges: dpi.Bins(sorted(edges)))
VALUES = [*"abcdefg", "unheard of"]
NUMBERS = [-1.0, *(number + half for number in range(13) for half in (0.0, 0.5)), 99.0]


def pairs(overlap):
    """The pairs of bins that overlap."""
    return set(zip(overlap.old.tolist(), overlap.new.tolist(), strict=True))


@given(old=CATEGORIES, new=CATEGORIES)
def test_bins_of_categories_overlap_where_a_value_lies_in_both(old, new):
    """No pair is missing; and none is there that no value has, but for the two bins of all other values."""
    codes = zip(old.encode(VALUES).tolist(), new.encode(VALUES).tolist(), strict=True)
    assert pairs(Overlap.of(old, new)) == {(a, b) for a, b in codes if a >= 0 and b >= 0}


@given(old=BINS, new=BINS)
def test_intervals_overlap_where_they_intersect(old, new):
    """By every number that can tell them apart."""
    codes = zip(old.encode(NUMBERS).tolist(), new.encode(NUMBERS).tolist(), strict=True)
    assert pairs(Overlap.of(old, new)) == set(codes)


@given(old=CATEGORIES, new=CATEGORIES, edges=BINS, other_edges=BINS)
def test_combinations_overlap_where_all_their_parts_do(old, new, edges, other_edges):
    """A product's pairs are those of its parts, and its shares their products."""
    found = Overlap.of(dpi.Product(a=old, b=edges), dpi.Product(a=new, b=other_edges))
    one, two = Overlap.of(old, new), Overlap.of(edges, other_edges)
    expected = {(i * edges.size + k, j * other_edges.size + m) for i, j in pairs(one) for k, m in pairs(two)}
    assert pairs(found) == expected
    assert np.isclose(found.share.sum(), one.share.sum() * two.share.sum())


@given(old=CATEGORIES, new=CATEGORIES, data=st.data())
def test_a_value_in_both_lists_keeps_every_bit(old, new, data):
    """Its estimate and its sums; what is not listed any more is added to `other`, and no mass is made."""
    numbers = st.floats(-1, 1, allow_subnormal=False).map(lambda number: number + 0.0)
    values = np.array(data.draw(st.lists(numbers, min_size=old.size, max_size=old.size)))
    overlap = Overlap.of(old, new)
    spread, gathered = overlap.spread(values), overlap.gathered(values)
    for value in set(old.values) & set(new.values):
        assert spread[new.index(value)] == gathered[new.index(value)] == values[old.index(value)]
    if old.other is not None and new.other is not None:
        assert np.isclose(spread.sum(), values.sum())
        assert np.isclose(gathered.sum(), values.sum())
        assert all(gathered[new.index(value)] == 0 for value in set(new.values) - set(old.values))


def test_other_is_shared_evenly_with_the_values_that_are_new():
    """Of k new values each takes 1/(k + 1), and so does `other`, which may have another name."""
    overlap = Overlap.of(dpi.Categories(["a"], other="o"), dpi.Categories(["b", "a", "c"], other="rest"))
    assert overlap.spread(np.array([0.4, 0.6])).tolist() == [0.6 / 3, 0.4, 0.6 / 3, 0.6 / 3]


def test_the_name_of_other_is_not_its_meaning():
    """A value that is listed under the old name of `other` is one of those that were in it, not all of them."""
    overlap = Overlap.of(dpi.Categories(["a"], other="b"), dpi.Categories(["a", "b"], other="rest"))
    assert overlap.spread(np.array([0.4, 0.6])).tolist() == [0.4, 0.3, 0.3]
    assert overlap.gathered(np.array([4.0, 6.0])).tolist() == [4.0, 0.0, 6.0]


def test_bins_that_become_one_add_up_and_those_that_are_split_cannot_say():
    """Sums stay where every old bin lies in one new bin."""
    coarser = Overlap.of(dpi.Bins([0, 5, 10]), dpi.Bins([0, 10]))
    assert coarser.gathered(np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [1.0, 5.0, 4.0]
    finer = Overlap.of(dpi.Bins([0, 10]), dpi.Bins([0, 5, 10]))
    assert finer.into is None
    assert finer.spread(np.array([1.0, 4.0, 2.0])).tolist() == [1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (dpi.Categories(["1"]), dpi.Bins([1])),
        (dpi.Hashed(8, bytes(32)), dpi.Hashed(9, bytes(32))),
        (dpi.Hashed(8, bytes(32)), dpi.Hashed(8, bytes(31) + b"1")),
        (dpi.Product(a=dpi.Bins([1])), dpi.Product(b=dpi.Bins([1]))),
        (dpi.Product(a=dpi.Bins([1]), b=dpi.Hashed(2, bytes(32))), dpi.Product(a=dpi.Bins([1]), b=dpi.Bins([1]))),
    ],
    ids=repr,
)
def test_domains_that_have_nothing_to_do_with_each_other(old, new):
    """Other kinds, other hashes, other parts: nothing is carried over, and no event finds a bin."""
    assert Overlap.of(old, new) is None
    assert set(recoding(old, new).tolist()) == {OUTSIDE}


@given(old=CATEGORIES, new=CATEGORIES)
def test_an_event_is_told_by_the_bin_that_takes_its_old_one(old, new):
    """A listed value by its own new bin; what was in `other` stays there, if there still is one."""
    bins = recoding(old, new)
    assert bins[: len(old.values)].tolist() == new.encode(old.values).tolist()
    if old.other is not None:
        assert bins[-1] == (OUTSIDE if new.other is None else new.size - 1)


def test_blocks_overlap_as_their_bins_do():
    """A block that stays keeps all of itself; one of which half the bins go elsewhere shares."""
    old, new = dpi.Bins([0, 1, 2]), dpi.Bins([0, 1, 2, 3])
    blocks = Overlap.of(old, new).of_blocks(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1, 2]))
    assert pairs(blocks) == {(0, 0), (1, 1), (1, 2)}
    assert blocks.share.tolist() == [1.0, 0.75, 0.25]


@given(slots=st.lists(st.integers(0, 9), max_size=20), data=st.data())
def test_every_row_is_told_by_the_domain_of_its_own_slot(slots, data):
    """Whatever other rows are in the column."""
    values = data.draw(st.lists(st.sampled_from(VALUES), min_size=len(slots), max_size=len(slots)))
    domains = (
        Schedule.of(dpi.Categories(["a", "b"]))
        .changed(3, dpi.Categories(["b", "c"], None))
        .changed(7, dpi.Categories(["x", "y"]))
    )
    found, counts = encode(domains, np.array(slots, dtype=np.int64), values)
    assert (counts == 1).all()
    assert found.tolist() == [domains.at(slot).index(value) for slot, value in zip(slots, values, strict=True)]


def test_columns_of_another_length_are_refused_in_words():
    """Before they are put together."""
    with pytest.raises(SchemaError, match="as many rows"):
        encode(dpi.Categories(["a", "b"]), np.arange(2), ["a"])
