"""Rows as a store keeps them give the histogram of the rows themselves, and keys are used up to their last value."""

import itertools
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpi.domain import Categories
from dpi.errors import OptionError
from dpi.events import rows as rows_module
from dpi.events.identity import extend
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS, MOST, wide_sum
from dpi.histogram import compression, grouping
from dpi.histogram.compression import Histogram, compress, count, counts, normalise, truncate, whole_pdf
from dpi.histogram.grouping import Groups
from played_rows import grains, name, row_of

KEY = bytes(range(32))
DOMAIN = Categories([str(i) for i in range(5)], other=None)
METHODS = [normalise, truncate(1, KEY), truncate(3, KEY), whole_pdf]
stored = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 9)), unique_by=lambda r: r[:2])


def of_store(rows):
    """Rows (user, bin, number of events) as a store keeps them."""
    names = np.array([(user // 2, user % 2) for user, _, _ in rows], dtype=np.uint64).reshape(-1, 2)
    bins, numbers = (np.array([row[i] for row in rows], dtype=np.int64) for i in (1, 2))
    return Rows(names, np.zeros_like(bins), bins, numbers)


@pytest.mark.parametrize("method", [normalise, whole_pdf], ids=repr)
@given(rows=stored)
def test_stored_rows_are_the_rows(method, rows):
    """However many users and bins: numbers of events give the histogram of that many events."""
    events = [(f"u{user}", str(value)) for user, value, number in rows for _ in range(number)]
    plain = compress([u for u, _ in events], [v for _, v in events], DOMAIN, method=method)
    assert grains(of_store(rows), 5, method) == plain.grains.tolist()


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 9)), max_size=60),
    bits=st.sampled_from([0, 60]),
)
@example(rows=[(0, 0, 1), (2, 0, 1), (3, 0, 1), (2, 0, 1)], bits=60)
def test_pairs_that_come_several_times_are_one(rows, bits):
    """Blocks of a slot repeat accounts and bins: their numbers add up, also where names share their first bits."""
    names = np.array([(user // 2 << bits, user) for user, _, _ in rows], dtype=np.uint64).reshape(-1, 2)
    bins, numbers = (np.array([row[i] for row in rows], dtype=np.int64) for i in (1, 2))
    found = Groups(Rows(names, np.zeros_like(bins), bins, numbers), 5)
    users = found.names[:, 1].tolist()
    pairs = [pairs for _, pairs in found.pairs()]
    told = {(users[u], b): c for each in pairs for u, b, c in zip(each.users, each.bins, each.counts, strict=True)}
    expected: dict[tuple[int, int], int] = {}
    for user, value, number in rows:
        expected[user, value] = expected.get((user, value), 0) + number
    assert told == expected
    assert sum(len(each.bins) for each in pairs) == len(expected)
    assert [r for each in pairs for r in each.rows] == [
        sum(c for (u, _), c in told.items() if u == user) for user in users
    ]


@pytest.mark.parametrize("c", [1, 3])
@given(rows=stored)
def test_stored_rows_are_truncated_by_their_own_content(c, rows):
    """Each user keeps at most c of their own events, the same ones whoever else is there."""
    method = truncate(c, KEY)
    total = np.zeros(5, dtype=np.int64)
    for user in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == user]
        added = np.array(grains(of_store(own), 5, method))
        assert added.sum() == min(c, sum(row[2] for row in own)) * (GRAINS // c)
        assert (added // (GRAINS // c) <= np.bincount([r[1] for r in own], [r[2] for r in own], 5)).all()
        total += added
    assert grains(of_store(rows), 5, method) == total.tolist()


def test_truncation_is_by_a_keyed_hash_of_user_bin_and_ordinal():
    """The event of the lowest hash is kept: another key, or another user, keeps another one."""
    kept = {}
    for key in (KEY, bytes(32)):
        names = np.array([(i, i) for i in range(64)], dtype=np.uint64)
        bins = np.tile(np.arange(5), 64)
        groups = Groups(Rows(np.repeat(names, 5, axis=0), np.zeros_like(bins), bins, np.ones_like(bins)), 5)
        (_, pairs), *_ = groups.pairs()
        assert groups.names.tolist() == names.tolist()
        kept[key] = truncate(1, key).grains(pairs, np.full(64, GRAINS), names).reshape(64, 5).argmax(axis=1)
        content = np.stack([np.arange(5), np.zeros(5)], axis=1).astype(np.uint64)
        named = extend(names, np.zeros_like(names), key)
        lowest = [extend(np.repeat(named[[u]], 5, axis=0), content, key).tolist() for u in range(64)]
        assert kept[key].tolist() == [row.index(min(row)) for row in lowest]
    assert (kept[KEY] != kept[bytes(32)]).any()


def test_a_flood_of_equal_events_takes_part_up_to_a_bound(monkeypatch):
    """Of very many equal events as many take part in the draw as the bound says, and never fewer than c."""
    monkeypatch.setattr(compression, "MOST_EQUAL", 4)
    flood = row_of(["ada", "ada"], np.array([0, 1]), np.array([1 << 30, 1]))
    for c in (1, 3, 7):
        assert sum(grains(flood, 5, truncate(c, KEY))) == c * (GRAINS // c)


def test_a_bin_of_another_domain_is_refused():
    """It would be taken for a bin of the next account."""
    names, none = np.ones((1, 2), dtype=np.uint64), np.zeros(1, dtype=np.int64)
    for bin_ in (5, -1):
        with pytest.raises(OptionError, match="the slot's own domain"):
            Groups(Rows(names, none, np.array([bin_]), none + 1), 5)


def test_the_bounds_of_options_are_taken():
    """Both c and `per_user` may be 2^24; a key must be one; counts are cut at 2^36, and 2^36 itself counts."""
    assert truncate(GRAINS, KEY).c == GRAINS
    assert counts([5], per_user=GRAINS).grains.tolist() == [5]
    assert counts([-1, (1 << 36) + 1, 1 << 36], per_user=1).grains.tolist() == [0, 1 << 60, 1 << 60]
    for bad in (GRAINS + 1, True, 1.0):
        with pytest.raises(OptionError, match="`per_user` must"):
            counts([5], per_user=bad)
    for bad in (True, 1.5, -1):
        with pytest.raises(OptionError, match="`seen` must"):
            counts([5], per_user=1, seen=bad)
    with pytest.raises(OptionError, match="32 random bytes"):
        truncate(1, b"short")


def test_assumptions_are_in_words():
    """One slot, several slots, or as many as there are."""
    says = "each user adds at most 2 to the counts of a slot"
    assert counts([1], per_user=2).assumption == says
    assert counts([1], per_user=2, seen=1).assumption == says + " and appears in at most 1 slot"
    assert counts([1], per_user=2, seen=2).assumption == says + " and appears in at most 2 slots"
    assert Histogram(np.zeros(2, dtype=np.int64), GRAINS).assumption is None


@pytest.mark.parametrize("bins", [1, 2, 3, 1 << 31, 1 << 33])
def test_keys_are_as_wide_as_they_need_to_be(bins):
    """Numbers of accounts times bins are told apart on both sides of 32 bits."""
    rows = row_of(["ada", "bob", "bob", "eve"], np.array([bins - 1, 0, bins - 1, bins - 1]))
    groups = Groups(rows, bins)
    users = {name(user): user for user in ("ada", "bob", "eve")}
    found = sorted(
        (users[tuple(groups.names[first + user].tolist())], int(bin), int(number))
        for first, pairs in groups.pairs()
        for user, bin, number in zip(pairs.users, pairs.bins, pairs.counts, strict=True)
    )
    bobs = [("bob", 0, 1), ("bob", bins - 1, 1)] if bins > 1 else [("bob", 0, 2)]
    assert found == [("ada", bins - 1, 1), *bobs, ("eve", bins - 1, 1)]


@pytest.mark.parametrize("chunk", [1, 3, 1 << 17])
@given(ids=st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40), data=st.data())
def test_integer_ids_are_the_same_rows_sorted_before_they_are_named(chunk, ids, data):
    """Many integer ids are grouped by number, and few as they come: the same accounts, with the same events."""
    codes = np.array(data.draw(st.lists(st.integers(-1, 4), min_size=len(ids), max_size=len(ids))), dtype=np.int64)
    plain = Rows.of(np.array(ids, dtype=np.int64), codes, KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "FEW", 0)
        patch.setattr(rows_module, "_CHUNK", chunk)
        patch.setattr(grouping, "_CHUNK", chunk)
        fast = Rows.of(np.array(ids, dtype=np.int64), codes, KEY)
        assert all(grains(fast, 5, method) == grains(plain, 5, method) for method in METHODS)
        if fast.grouped:
            assert len(fast) == len(Rows.sum([plain]))
    for one, other in zip(astuple(Rows.sum([fast]))[:4], astuple(Rows.sum([plain]))[:4], strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("largest", [2**31 - 3, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 - 1])
def test_bins_of_integer_ids_are_as_wide_as_they_need_to_be(largest, monkeypatch):
    """Bins on both sides of 31 and 32 bits are the bins that came."""
    monkeypatch.setattr(rows_module, "FEW", 0)
    rows = Rows.of(np.array([7, 7, 8, 7]), np.array([largest, 0, largest - 1, largest]), KEY)
    assert (rows.grouped, rows.bins.tolist(), rows.counts.tolist()) == (True, [0, largest, largest - 1], [1, 2, 1])


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("grouped", [False, True])
def test_numbers_of_32_bits_give_the_grains_of_those_of_64(method, grouped):
    """As many events as a row can hold: no sum or product is made in 32 bits, where it would be cut or negative."""
    names, bins, many = np.array([[1, 1], [1, 1], [2, 2]], dtype=np.uint64), np.array([0, 4, 4]), np.full(3, MOST)
    wide = Rows(names, np.zeros(3, np.int64), bins, many, grouped=grouped)
    narrow = replace(wide, bins=bins.astype(np.int32), counts=many.astype(np.int32))
    assert grains(narrow, 5, method) == grains(wide, 5, method)
    assert Rows.sum([narrow, narrow]).counts.tolist() == [MOST] * 3


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_wide_sums_are_exact(values):
    """A sum of any 64-bit integers is that of whole numbers."""
    assert wide_sum(np.array(values, dtype=np.int64)) == sum(values)


@pytest.mark.parametrize("total", [(1 << 51) - 1, 1 << 51, (1 << 51) + 1, (1 << 52) - 1, 1 << 53, 1 << 62])
def test_a_whole_pdf_is_exact_on_both_sides_of_51_bits(total):
    """Where 64 bits are enough and where they are not, floor(2^24 · h/Σh) is that of whole numbers."""
    for first in (0, 1, total // 3, total - 1, total):
        grains = [first, total - first]
        exact = [g * GRAINS // total for g in grains]
        assert whole_pdf.finish(np.array(grains)).tolist() == exact


@pytest.mark.parametrize("weights", [[-1, 5], [5, -1], [GRAINS + 1, 0], [0, GRAINS + 1]])
def test_one_bad_weight_among_good_ones_is_refused(weights):
    """Each weight is looked at, not the first or the largest alone."""
    with pytest.raises(OptionError, match="between 0 and"):
        count(Groups(row_of(["ada", "bob"], np.array([0, 1])), 5), 5, weights=np.array(weights))


@pytest.mark.parametrize("chunk", range(1, 9))
def test_a_cut_between_chunks_never_goes_through_a_user(chunk, monkeypatch):
    """Wherever a chunk may end, the rows of each user are in one chunk: with one to four rows each, in every order."""
    monkeypatch.setattr(grouping, "_CHUNK", chunk)
    for bins in (1, 2, 3):
        for sizes in itertools.product((1, 2, 4), repeat=4):
            users = np.repeat(np.arange(4), sizes)
            codes, names = np.arange(users.size) % bins, np.stack([users, users], axis=1).astype(np.uint64)
            groups = Groups(Rows(names << np.uint64(60), np.zeros_like(codes), codes, np.ones_like(codes)), bins)
            seen, found = 0, []
            for first, pairs in groups.pairs():
                assert first == seen
                seen += pairs.rows.size
                found += pairs.rows.tolist()
            assert found == list(sizes)
            assert (groups.names[:, 0] >> np.uint64(60)).tolist() == [0, 1, 2, 3]
