"""The table of accounts: runs, records, and names that share a half."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.account_table import STANDING, AccountTable, largest, merged, to_records
from dpi.errors import StateError

halves = st.integers(0, 3)
logs = st.lists(st.tuples(halves, halves), max_size=12)


def log_of(names):
    """A log of records, whose k-th has spent k + 1."""
    standing = np.array([(k + 1, k, k) for k in range(len(names))], dtype=STANDING)
    return to_records(np.array(names, dtype=np.uint64).reshape(-1, 2), standing)


@given(logs)
def test_a_log_amounts_to_the_last_record_of_each_name(names):
    """Whatever halves names share: sorted by name, each once, with its last record; merging again changes nothing."""
    records = np.frombuffer(merged(log_of(names)), dtype=np.dtype([("name", "<u8", 2), ("standing", STANDING)]))
    last = {name: k for k, name in enumerate(names)}
    assert [tuple(r) for r in records["name"].tolist()] == sorted(last)
    assert records["standing"]["spent"].tolist() == [last[name] + 1 for name in sorted(last)]
    assert merged(merged(log_of(names))) == merged(log_of(names))
    assert merged(log_of(names)) == b"".join(
        log_of([(9, 9)] * last[name] + [name])[-36:] for name in sorted(last)
    )  # the whole record, byte for byte


def test_a_name_that_shares_its_high_half_with_the_one_before_and_its_low_half_with_the_first_is_kept():
    """No account is lost in a merge: that would be a refill."""
    names = [(1, 9), (2, 8), (2, 9)]
    assert len(merged(log_of(names))) == 3 * 36
    assert len(merged(log_of([(1, 9)] * 4))) == 36


@pytest.mark.parametrize("size", [1, 35, 37, 71])
def test_an_incomplete_record_is_damage(size):
    """A log is a whole number of records of 36 bytes."""
    with pytest.raises(StateError, match="incomplete"):
        merged(bytes(size))
    assert len(AccountTable.from_bytes(bytes(36))) == 1


@given(st.lists(logs, max_size=5), logs)
def test_found_rows_are_sorted_by_name_and_know_where_they_came_from(batches, asked):
    """`names` are the caller's rows in `order`, by their high half; what is not there is absent, with zeros."""
    table, plain = AccountTable(), {}
    for batch in batches:
        unique = list(dict.fromkeys(batch))
        place = table.find(np.array(unique, dtype=np.uint64).reshape(-1, 2))
        rows = [(len(plain) + k + 1, k, 7) for k in range(len(unique))]
        table.put(place, np.array(rows, dtype=STANDING))
        plain |= {tuple(map(int, name)): row for name, row in zip(place.names, rows, strict=True)}
    wanted = np.array(asked, dtype=np.uint64).reshape(-1, 2)
    place = table.find(wanted)
    assert place.names.tolist() == wanted[place.order].tolist()
    assert (np.diff(place.names[:, 0].astype(np.int64)) >= 0).all()
    assert table.get(place).tolist() == [plain.get(tuple(map(int, name)), (0, 0, 0)) for name in place.names]
    assert largest(table) == max((row[0] for row in plain.values()), default=0)
    assert len(table) == len(plain)
    assert table.nbytes == 36 * len(plain)


def test_an_empty_table_holds_nothing():
    """No account, nothing spent, no bytes."""
    assert (largest(AccountTable()), len(AccountTable()), AccountTable().to_bytes()) == (0, 0, b"")


def test_newcomers_are_merged_when_they_are_more_than_an_eighth(monkeypatch):
    """The small run grows to the larger of the smallest merge and an eighth of the large one, and then starts anew."""
    monkeypatch.setattr("dpi.budget.account_table._SMALLEST_MERGE", 4)
    table, large, recent = AccountTable(), 0, 0
    for i in range(300):
        place = table.find(np.array([[i, 0]], dtype=np.uint64))
        table.put(place, np.array([(1, 1, 0)], dtype=STANDING))
        recent += 1
        if recent > max(4, large // 8):
            large, recent = large + recent, 0
        assert [len(run) for run in table._runs] == [large, recent]


def test_part_of_a_place_is_a_place():
    """Chosen rows keep their names, their order and where they stand."""
    table = AccountTable()
    names = np.array([[3, 3], [1, 1], [2, 2]], dtype=np.uint64)
    table.put(table.find(names), np.array([(k, k, 0) for k in (10, 20, 30)], dtype=STANDING))
    place = table.find(names).only(np.array([True, False, True]))
    assert place.names.tolist() == [[1, 1], [3, 3]]
    assert place.order.tolist() == [1, 0]
    assert table.get(place)["spent"].tolist() == [10, 30]
    table.put(place, np.array([(7, 1, 0), (8, 1, 0)], dtype=STANDING))
    assert table.get(table.find(names))["spent"].tolist() == [7, 20, 8]


def test_logs_are_merged_alike_in_any_ranges(monkeypatch):
    """Two logs amount to what they do in one piece, however many ranges of names they are cut into."""
    rng = np.random.default_rng(1)
    logs = []
    for size in (40, 60):
        names = np.stack([rng.integers(0, 8, size) << 61, rng.integers(0, 3, size)], axis=1).astype(np.uint64)
        logs.append(merged(to_records(names, np.array([(n, 1, 0) for n in range(size)], dtype=STANDING))))
    expected = merged(b"".join(logs))
    for piece in (1, 7, 50):
        monkeypatch.setattr("dpi.budget.account_table._PIECE", piece)
        assert merged(*logs) == expected
    assert merged() == merged(b"") == b""
