"""Open events on disk: what was appended, in whatever batches, is read back summed; and a flood stays small."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.store import event_log
from dpi.store.base import OpenEvents
from dpi.store.event_log import LARGEST, TOGETHER, EventLog
from dpi.exact.integers import MOST

CELLS = st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3), st.integers(1, 5))
"""Account, slot, bin, number."""


def packed(cells: list[tuple[int, int, int, int]]) -> OpenEvents:
    """A batch of events."""
    account, slots, bins, counts = (np.array(column, dtype=np.int64) for column in zip(*cells, strict=True))
    names = np.stack([account.astype(np.uint64) << np.uint64(60), account.astype(np.uint64)], axis=1)
    return OpenEvents(names, slots, bins, counts)


def summed(events: OpenEvents) -> dict[tuple[int, int], int]:
    """Events by account and bin, each once."""
    keys = [(int(name[1]), int(place)) for name, place in zip(events.names, events.bins, strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, events.counts.tolist(), strict=True))


@given(batches=st.lists(st.lists(CELLS, min_size=1, max_size=6), max_size=70))
@settings(max_examples=25)
def test_events_are_read_back_summed_whatever_the_batches(batches, tmp_path_factory) -> None:
    """Over all tiers, each (account, bin) of a slot has one record with the sum of what was appended."""
    true: dict[int, Counter[tuple[int, int]]] = {slot: Counter() for slot in range(3)}
    with dpi.open_store(tmp_path_factory.mktemp("log") / "visits.db") as store:
        log = EventLog(store.engine)
        for batch in batches:
            with store.engine.transaction():
                log.append("", packed(batch))
            for account, slot, place, number in batch:
                true[slot][account, place] += number
        assert [summed(log.read("", slot)) for slot in range(3)] == [dict(each) for each in true.values()]
        assert log.slots("", 0) == [slot for slot in true if true[slot]]
        with store.engine.transaction():
            log.drop("", 0, 1)
        assert log.slots("", 0) == [slot for slot in (2,) if true[slot]]


def test_a_flood_of_equal_events_in_many_batches_leaves_a_few_records(durable) -> None:
    """However many batches one user sends, their records are as many as there are tiers, times sixteen."""
    with durable() as store:
        log = EventLog(store.engine)
        for _ in range(TOGETHER**2 + 5):
            with store.engine.transaction():
                log.append("", packed([(1, 0, 0, MOST)]))
        rows = store.engine.rows("SELECT tier, size FROM events")
        assert len(rows) <= 3 * TOGETHER
        assert {int(size) for _, size in rows} == {32}
        assert max(int(tier) for tier, _ in rows) == 2
        assert summed(log.read("", 0)) == {(1, 0): MOST}


def test_a_run_has_a_largest_size(durable, monkeypatch) -> None:
    """A batch that is larger is split, and full runs are not merged further: a cell of a database has its bounds."""
    assert LARGEST < 10**9
    monkeypatch.setattr(event_log, "LARGEST", 96)
    cells = [(account, 0, place, 1) for account in range(5) for place in range(4)]
    with durable() as store:
        log = EventLog(store.engine)
        for _ in range(TOGETHER):
            with store.engine.transaction():
                log.append("", packed(cells))
        assert max(int(size) for (size,) in store.engine.rows("SELECT size FROM events")) <= 96
        assert set(summed(log.read("", 0)).values()) == {TOGETHER}


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_batches_is_not_told(durable, order) -> None:
    """What is read is in the order of names and bins, whichever batch came first."""
    cells = [(account, 0, place, 1) for account in range(3) for place in range(3)]
    with durable() as store:
        log = EventLog(store.engine)
        for cell in cells[::order]:
            with store.engine.transaction():
                log.append("", packed([cell]))
        events = log.read("", 0)
        assert [*zip(events.names[:, 1].tolist(), events.bins.tolist(), strict=True)] == [cell[::2] for cell in cells]
