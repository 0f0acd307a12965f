import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.domain import Bins, Categories
from dpi.errors import OptionError, SchemaError
from dpi.events.columns import canonical
from dpi.events.identity import name_users
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS
from dpi.histogram import grouping
from dpi.histogram.compression import MOST_TOGETHER, compress, count, counts, finish, normalise, truncate, whole_pdf
from played_rows import grains, row_of
from strategies import events, keys, mixed_events, simple_ids

DOMAIN = Categories([str(i) for i in range(5)], other=None)
KEY = bytes(range(32))
METHODS = [normalise, truncate(1, KEY), truncate(3, KEY)]
weight_tables = st.lists(st.integers(0, GRAINS), min_size=9, max_size=9)


def histogram(rows, method=normalise, weights=None, classes=None):
    """Grains of (user, value) rows; weights and classes are those of the users 0, 1, …"""
    users, values = [u for u, _ in rows], [v for _, v in rows]
    if weights is None:
        return compress(users, values, DOMAIN, method=method).grains
    named = name_users(np.arange(len(weights)), KEY)[0].tolist()
    groups = grouping.Groups(Rows.of(users, DOMAIN.encode(values), KEY), DOMAIN.size)
    here = [named.index(name) for name in groups.names.tolist()]
    given = np.array([weights[user] for user in here], dtype=np.int64)
    if classes is None:
        return count(groups, DOMAIN.size, method, given)
    member = np.array([classes[user] for user in here], dtype=np.int64)
    return finish(count(groups, DOMAIN.size, method, given, member, 3), method, 3).by_group


@pytest.mark.parametrize("method", METHODS, ids=repr)
@given(rows=events, removed=simple_ids, table=weight_tables)
def test_one_user_moves_the_histogram_by_at_most_their_weight(method, rows, removed, table):
    """Removing all events of a user takes away at most their weight in ℓ₁, and exactly what they add alone."""
    moved = histogram(rows, method, table) - histogram([r for r in rows if r[0] != removed], method, table)
    alone = histogram([r for r in rows if r[0] == removed], method, table)
    assert (moved == alone).all()
    assert (alone >= 0).all()
    assert alone.sum() <= table[removed]


@pytest.mark.parametrize("method", METHODS, ids=repr)
@given(
    rows=events, removed=simple_ids, table=weight_tables, classes=st.lists(st.integers(0, 2), min_size=9, max_size=9)
)
def test_a_user_is_in_the_histogram_of_one_class(method, rows, removed, table, classes):
    """Each class has the histogram of its users alone; who is removed moves one of them, by at most their weight."""
    together = histogram(rows, method, table, classes)
    for m in range(3):
        mine = [row for row in rows if classes[row[0]] == m]
        assert (together[m] == histogram(mine, method, table)).all()
    without = histogram([row for row in rows if row[0] != removed], method, table, classes)
    moved = np.abs(together - without).sum(axis=1)
    assert moved[classes[removed]] == moved.sum() <= table[removed]


def test_groups_need_a_group_for_each_user():
    """A group that there is not, none at all, or a compression that knows no weights, is refused."""
    groups, one = grouping.Groups(row_of([7], np.array([0])), 5), np.array([GRAINS])
    for method, member, classes in (
        (normalise, np.array([2]), 2),
        (normalise, np.array([-1]), 2),
        (normalise, None, 2),
        (normalise, np.array([0]), 1),
        (whole_pdf, np.array([0]), 2),
    ):
        with pytest.raises(OptionError):
            count(groups, 5, method, one, member, classes)
    assert repr(finish(count(groups, 5, normalise, one, np.array([1]), 2), normalise, 2)) == (
        "Histogram(bins=5, groups=2, sensitivity=16777216, private)"
    )


@pytest.mark.parametrize("method", METHODS, ids=repr)
@given(rows=mixed_events, key=st.randoms())
def test_the_order_of_rows_does_not_matter(method, rows, key):
    """Any permutation of rows, with duplicates and ids of many types, gives the same histogram."""
    shuffled = rows.copy()
    key.shuffle(shuffled)
    assert (histogram(rows, method) == histogram(shuffled, method)).all()


@pytest.mark.parametrize("method", METHODS, ids=repr)
@given(rows=mixed_events)
def test_users_of_any_type_add_up(method, rows):
    """The histogram is the sum of each canonical user's own: no two users are merged, none is split."""
    names = canonical([u for u, _ in rows], "user").cast(pl.String).to_list()
    total = np.zeros(DOMAIN.size, dtype=np.int64)
    for name in set(names) - {None, ""}:
        own = histogram([(name, v) for n, (_, v) in zip(names, rows, strict=True) if n == name], method)
        assert own.sum() <= GRAINS
        total += own
    assert (histogram(rows, method) == total).all()


@given(events)
def test_normalise_loses_next_to_nothing(rows):
    """Each user with a row in the domain adds one unit but for less than a grain a bin."""
    active = len({u for u, v in rows if v in range(5)})
    missing = active * GRAINS - histogram(rows).sum()
    assert 0 <= missing < max(1, 5 * active)


@given(st.lists(st.tuples(simple_ids, st.integers(0, 4)), min_size=1, max_size=60), keys)
def test_truncate_keeps_at_most_c_of_the_users_own_events(rows, key):
    """A user's grains are a multiple of 2^24/c for at most c events, each of which the user has."""
    for user in {u for u, _ in rows}:
        own = [v for u, v in rows if u == user]
        kept = histogram([(user, v) for v in own], truncate(3, key)) / (GRAINS // 3)
        assert kept.sum() == min(3, len(own))
        assert (kept <= np.bincount(own, minlength=5)).all()


def test_truncate_chooses_evenly():
    """Over many users the kept event is each of four with frequency 1/4 (six standard errors: false alarm 10^-8)."""
    users = np.repeat(np.arange(20_000), 4)
    values = np.tile(np.arange(4), 20_000)
    kept = compress(users, values, DOMAIN, method=truncate(1, KEY)).grains / GRAINS
    assert np.abs(kept[:4] - 5000).max() < 6 * np.sqrt(20_000 * 3 / 16)


@given(events, simple_ids)
def test_whole_pdf_moves_by_at_most_two(rows, removed):
    """The published compression: a PDF in grains, of sum at most 2^24, so two of them differ by at most 2·2^24."""
    one, other = histogram(rows, whole_pdf), histogram([r for r in rows if r[0] != removed], whole_pdf)
    assert one.sum() <= GRAINS
    assert np.abs(one - other).sum() <= whole_pdf.sensitivity == 2 * GRAINS


def test_whole_pdf_counts_users_of_weight_one_only():
    """A weight in between would not make the bound smaller: such a user does not take part, and nothing fails."""
    assert histogram([(0, 0), (1, 1)], whole_pdf, [5, GRAINS]).tolist() == [0, GRAINS, 0, 0, 0]


def test_a_bad_row_is_dropped_by_itself():
    """Missing users, NaN, unseen values and empty ids neither raise nor change other rows."""
    users = [1, None, 2, float("nan"), "", 2]
    values = ["0", "0", "9", "1", "1", None]
    assert (histogram(list(zip(users, values, strict=True))) == histogram([(1, "0")])).all()


def test_millions_of_events_by_one_user_are_one_unit():
    """A flood counts as one user, and the others keep their place."""
    flood = np.concatenate([np.zeros(2_000_000, dtype=np.int64), np.arange(1, 1001)])
    h = compress(flood, np.where(flood == 0, 1, 2), Bins([0, 2]))
    assert h.grains.tolist() == [0, GRAINS, 1000 * GRAINS]


def test_names_that_begin_alike_do_not_merge_users():
    """If names share their first bits, or the whole first half, their rows are told apart by the rest."""
    users, codes = np.arange(500) % 50, np.arange(500) % 5
    for high in (np.zeros(500), users // 10):
        names = np.stack([high, users], axis=1).astype(np.uint64)
        rows = Rows(names, np.zeros_like(codes), codes, np.ones_like(codes))
        assert grains(rows, 5) == compress(users, codes, DOMAIN).grains.tolist()


def test_two_texts_of_one_id_are_one_user():
    """The text 1.0 is the user 1."""
    ids, codes = ["1.0", "ada", "1"], np.array([0, 1, 0])
    assert len(grouping.Groups(Rows.of(ids, codes, KEY), 2).names) == 2


def test_chunks_do_not_split_a_user(monkeypatch):
    """The histogram does not depend on how many rows are handled at a time."""
    random_rows = [(random.randrange(40), random.randrange(5)) for _ in range(3000)]
    expected = [histogram(random_rows, method) for method in METHODS]
    monkeypatch.setattr(grouping, "_CHUNK", 7)
    for method, whole in zip(METHODS, expected, strict=True):
        assert (histogram(random_rows, method) == whole).all()


def test_integer_ids_of_any_size():
    """Ids at both ends of 64 bits are as good as any, and equal to their texts."""
    ids = [-(2**63), 2**63 - 1, 0, -1]
    whole = histogram([(i, i % 5) for i in ids])
    assert (whole == histogram([(str(i), i % 5) for i in ids])).all()
    assert whole.sum() == 4 * GRAINS


def test_an_empty_slot_is_a_histogram_of_zeros():
    """No events are no error: every slot is released."""
    for method in [*METHODS, whole_pdf]:
        assert histogram([], method).tolist() == [0] * 5
        assert histogram([], method, []).sum() == 0


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.array([GRAINS + 1]), "between 0 and"),
        (np.array([-1]), "between 0 and"),
        (np.array([0.5]), "whole number"),
        (np.array([1, 2]), "whole number"),
    ],
)
def test_bad_weights_are_refused(weights, says):
    """A weight is a whole number of grains between zero and one unit, one for each user."""
    with pytest.raises(OptionError, match=says):
        count(grouping.Groups(row_of([7], np.array([0])), 5), 5, normalise, weights)


def test_columns_of_different_length_are_a_schema_error():
    """The error says so, and no more."""
    with pytest.raises(SchemaError, match="same number of rows"):
        compress([1, 2], ["0"], DOMAIN)


@pytest.mark.parametrize("c", [0, -1, 1.5, True, GRAINS + 1])
def test_a_bad_truncation_is_refused(c):
    """`c` is a whole number of events."""
    with pytest.raises(OptionError, match="`c` must"):
        truncate(c, KEY)


def test_nothing_private_is_printed():
    """A histogram prints its size and bound only; a truncation does not print its key."""
    h = compress(["ada"], ["3"], DOMAIN)
    assert repr(h) == "Histogram(bins=5, sensitivity=16777216, private)"
    assert repr(truncate(3, KEY)) == "truncate(3, key=…)"
    (_, pairs), *_ = grouping.Groups(row_of(["ada"], np.array([0])), 1).pairs()
    assert "array" not in repr(pairs)


@given(st.lists(st.integers(-5, 2**40), min_size=1, max_size=8), st.integers(1, 100), st.data())
def test_declared_counts_move_by_at_most_one_unit(values, per_user, data):
    """A user who adds at most `per_user` in all moves the histogram of counts by at most 2^24 grains."""
    share = data.draw(st.lists(st.integers(0, per_user), min_size=len(values), max_size=len(values)))
    if sum(share) > per_user:
        share = [0] * len(values)
    more = [v + s for v, s in zip(values, share, strict=True)]
    moved = np.abs(counts(more, per_user=per_user).grains - counts(values, per_user=per_user).grains).sum()
    assert moved <= GRAINS


def test_declarations_are_printed():
    """What the program cannot check is said."""
    assert counts([1], per_user=1, seen="once").assumption == (
        "each user adds at most 1 to the counts of a slot and appears in at most 1 slot"
    )
    assert "at most 7 slots" in counts([1], per_user=1, seen=7).assumption


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"values": [], "per_user": 1}, SchemaError),
        ({"values": [0.5], "per_user": 1}, SchemaError),
        ({"values": [[1]], "per_user": 1}, SchemaError),
        ({"values": [1], "per_user": 0}, OptionError),
        ({"values": [1], "per_user": 1, "seen": 0}, OptionError),
        ({"values": [1], "per_user": 1, "seen": "twice"}, OptionError),
    ],
)
def test_bad_declarations_are_refused(arguments, error):
    """Counts need whole numbers and a declaration."""
    with pytest.raises(error):
        counts(**arguments)


def test_a_chunk_whose_sum_might_be_rounded_is_not_summed():
    """Beyond 2^53 grains floats skip numbers: so many users never come in one chunk, and would be refused."""

    class Crowd:
        names = np.empty((0, 2), dtype=np.uint64)

        def pairs(self):
            nobody = np.broadcast_to(np.int64(0), (1 << 29,))  # takes no memory
            yield 0, grouping.Pairs(nobody, nobody, nobody, nobody)

    with pytest.raises(AssertionError):
        count(Crowd(), 1)
    assert grouping._LARGEST_CHUNK < MOST_TOGETHER
