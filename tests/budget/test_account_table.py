"""The table of accounts: runs, and names that share a half."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.account_records import STANDING
from dpi.budget.account_table import AccountTable, largest

halves = st.integers(0, 3)
logs = st.lists(st.tuples(halves, halves), max_size=12)


@given(st.lists(logs, max_size=5), logs)
def test_found_rows_are_sorted_by_name_and_know_where_they_came_from(batches, asked):
    """`names` are the caller's rows in `order`, by their high half; what is not there is absent, with zeros."""
    table, plain = AccountTable(), {}
    for batch in batches:
        unique = list(dict.fromkeys(batch))
        positions = table.find(np.array(unique, dtype=np.uint64).reshape(-1, 2))
        rows = [(len(plain) + k + 1, k, 7) for k in range(len(unique))]
        table.put(positions, np.array(rows, dtype=STANDING))
        plain |= {tuple(map(int, name)): row for name, row in zip(positions.names, rows, strict=True)}
    wanted = np.array(asked, dtype=np.uint64).reshape(-1, 2)
    positions = table.find(wanted)
    assert positions.names.tolist() == wanted[positions.order].tolist()
    assert (np.diff(positions.names[:, 0].astype(np.int64)) >= 0).all()
    assert table.get(positions).tolist() == [plain.get(tuple(map(int, name)), (0, 0, 0)) for name in positions.names]
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
        positions = table.find(np.array([[i, 0]], dtype=np.uint64))
        table.put(positions, np.array([(1, 1, 0)], dtype=STANDING))
        recent += 1
        if recent > max(4, large // 8):
            large, recent = large + recent, 0
        assert [len(run) for run in table._runs] == [large, recent]


def test_some_positions_are_positions():
    """Chosen rows keep their names, their order and where they stand."""
    table = AccountTable()
    names = np.array([[3, 3], [1, 1], [2, 2]], dtype=np.uint64)
    table.put(table.find(names), np.array([(k, k, 0) for k in (10, 20, 30)], dtype=STANDING))
    positions = table.find(names).only(np.array([True, False, True]))
    assert positions.names.tolist() == [[1, 1], [3, 3]]
    assert positions.order.tolist() == [1, 0]
    assert table.get(positions)["spent"].tolist() == [10, 30]
    table.put(positions, np.array([(7, 1, 0), (8, 1, 0)], dtype=STANDING))
    assert table.get(table.find(names))["spent"].tolist() == [7, 20, 8]
