"""Accounts as records: logs of changes, and names that share a half."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.account_records import STANDING, merged, to_records
from dpi.budget.account_table import AccountTable
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


def test_logs_are_merged_alike_in_any_ranges(monkeypatch):
    """Two logs amount to what they do in one piece, however many ranges of names they are cut into."""
    rng = np.random.default_rng(1)
    logs = []
    for size in (40, 60):
        names = np.stack([rng.integers(0, 8, size) << 61, rng.integers(0, 3, size)], axis=1).astype(np.uint64)
        logs.append(merged(to_records(names, np.array([(n, 1, 0) for n in range(size)], dtype=STANDING))))
    expected = merged(b"".join(logs))
    for piece in (1, 7, 50):
        monkeypatch.setattr("dpi.budget.account_records._PIECE", piece)
        assert merged(*logs) == expected
    assert merged() == merged(b"") == b""
