"""Open events on disk: what was appended, in whatever batches, is read back summed; and a flood stays small."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.events.rows import Rows
from dpi.exact.integers import MOST
from dpi.store import _sql_events
from dpi.store._sql_events import LARGEST, TOGETHER
from dpi.store.base import Arrival

CELLS = st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3), st.integers(1, 5))
"""Account, slot, bin, number."""


def append(store, cells: list[tuple[int, int, int, int]], sequence: int) -> None:
    """Keep a batch."""
    assert store.append_all([Arrival("", packed(cells), "", sequence)]) == [True]


def packed(cells: list[tuple[int, int, int, int]]) -> Rows:
    """A batch of events."""
    account, slots, bins, counts = (np.array(column, dtype=np.int64) for column in zip(*cells, strict=True))
    names = np.stack([account.astype(np.uint64) << np.uint64(60), account.astype(np.uint64)], axis=1)
    return Rows(names, slots, bins, counts)


def summed(events: Rows) -> dict[tuple[int, int], int]:
    """Numbers of events by account and bin, cut as a user's are."""
    found: Counter[tuple[int, int]] = Counter()
    for name, place, number in zip(events.names, events.bins.tolist(), events.counts.tolist(), strict=True):
        found[int(name[1]), place] = min(found[int(name[1]), place] + number, MOST)
    return dict(found)


@given(batches=st.lists(st.lists(CELLS, min_size=1, max_size=6), max_size=70))
@settings(max_examples=25, deadline=None)
def test_events_are_read_back_summed_whatever_the_batches(batches, tmp_path_factory) -> None:
    """Over all tiers, the rows of each (account, bin) of a slot sum to what was appended."""
    true: dict[int, Counter[tuple[int, int]]] = {slot: Counter() for slot in range(3)}
    with dpi.open_store(tmp_path_factory.mktemp("log") / "visits.db") as store:
        for sequence, batch in enumerate(batches):
            append(store, batch, sequence)
            for account, slot, place, number in batch:
                true[slot][account, place] += number
        assert [summed(store.events("", slot)) for slot in range(3)] == [dict(each) for each in true.values()]
        blocks = store.engine.rows("SELECT slot, tier, COUNT(*) FROM events GROUP BY slot, tier")
        assert all(number < TOGETHER for _, _, number in blocks)


def test_a_flood_of_equal_events_in_many_batches_leaves_a_few_rows(durable) -> None:
    """However many batches one user sends, their rows are as many as there are tiers, times sixteen."""
    with durable() as store:
        for sequence in range(TOGETHER**2 + 5):
            append(store, [(1, 0, 0, MOST)], sequence)
        rows = store.engine.rows("SELECT tier, size FROM events")
        assert len(rows) <= 3 * TOGETHER
        assert {int(size) for _, size in rows} == {24}
        assert max(int(tier) for tier, _ in rows) == 2
        assert summed(store.events("", 0)) == {(1, 0): MOST}


def test_a_block_has_a_largest_size(durable, monkeypatch) -> None:
    """A batch that is larger is split, and full blocks are not merged further: a cell of a database has its bounds."""
    assert LARGEST < 10**9
    monkeypatch.setattr(_sql_events, "LARGEST", 72)
    cells = [(account, 0, place, 1) for account in range(5) for place in range(4)]
    with durable() as store:
        for sequence in range(TOGETHER):
            append(store, cells, sequence)
        assert max(int(size) for (size,) in store.engine.rows("SELECT size FROM events")) <= 72
        assert set(summed(store.events("", 0)).values()) == {TOGETHER}
