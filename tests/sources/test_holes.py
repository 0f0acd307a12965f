"""Holes among ids: a row is in the first mark whose snapshot shows it, whatever transactions do in between."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.brokers._holes import Hole, Holes, Pending, contains, difference, intersection, ranks, width
from strategies import few

IDS = st.lists(st.integers(0, 60), unique=True).map(sorted)


def holes_of(ids: set[int]) -> Holes:
    """Some ids as holes."""
    found: list[Hole] = []
    for number in sorted(ids):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)


def ids_of(holes: Holes) -> set[int]:
    """The ids of holes."""
    return {number for at, end in holes for number in range(at, end)}


@given(first=IDS, second=IDS, number=st.integers(0, 60))
def test_arithmetic_of_holes_is_that_of_sets(first: list[int], second: list[int], number: int) -> None:
    """Against sets of ids."""
    holes, others = holes_of(set(first)), holes_of(set(second))
    assert tuple(difference(holes, others)) == holes_of(set(first) - set(second))
    visible = sorted(set(first) & set(second))
    assert tuple(difference(holes, [(each, each + 1) for each in visible])) == holes_of(set(first) - set(second))
    assert contains(holes, number) == (number in first)
    assert tuple(intersection(holes, others)) == holes_of(set(first) & set(second))
    assert [first[each] for each in ranks(holes, visible)] == visible
    assert width(holes) == len(first)


class Database:
    """Transactions that draw ids one at a time; a name changes when its transaction is prepared."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.drawn, self.visible, self.open = random, 0, set[int](), dict[str, set[int]]()

    def act(self) -> None:
        """Let a transaction begin, draw an id, commit, roll back or be prepared."""
        what = self.random.integers(5)
        name = str(self.random.choice([*self.open, f"transaction {self.drawn}"]))
        if what < 2 and not name.startswith("prepared"):
            self.drawn += 1
            self.open.setdefault(name, set()).add(self.drawn)
        elif what == 2:
            self.visible |= self.open.pop(name, set())
        elif what == 3:
            self.open.pop(name, None)
        elif name in self.open:
            self.open[f"prepared {name.removeprefix('prepared ')}"] = self.open.pop(name)


def test_what_is_forgotten_never_appears_and_what_appears_counts_once() -> None:
    """In random histories: looks are opened ahead of their counting, lists come after it and may be missing."""
    for seed in range(few(100, 400)):
        _play(np.random.default_rng(seed))


def _play(random: np.random.Generator) -> None:
    database, pending, offset, forgotten = Database(random), Pending(), 1, set[int]()
    looks: list[tuple[int, frozenset[int]]] = []
    for now in range(150):
        kind = random.random()
        if kind < 0.6:
            database.act()
            assert not forgotten & database.visible
        elif kind < 0.8 and len(looks) < 3:
            looks.append((now, frozenset(database.visible)))
        elif looks:
            opened, seen = looks.pop(0)
            new = holes_of(set(range(offset, max(seen, default=0) + 1)) - seen)
            before = ids_of(pending.holes)
            left = pending.advance(opened, lambda holes: difference(holes, holes_of(seen)), new)  # noqa: B023
            offset = max(offset, max(seen, default=0) + 1)
            assert left == len(before - ids_of(pending.holes))
            forgotten |= before - seen - ids_of(pending.holes)
            assert set(range(1, offset)) - ids_of(pending.holes) - forgotten == seen
            if random.random() < 0.8:
                pending.settle(frozenset(database.open), now)


def test_a_hole_outlives_the_name_of_its_transaction() -> None:
    """A transaction that is prepared leaves one list and is in the next; its hole is kept until that name is gone."""
    pending = Pending()
    pending.advance(0, lambda holes: holes, [(1, 2)])
    for moment, running in ((1, "a"), (2, "prepared"), (4, "prepared"), (6, "another")):
        pending.settle(frozenset({running}), moment)
        pending.advance(moment + 1, lambda holes: holes, [])
        assert pending.holes == ((1, 2),) if moment < 6 else pending.holes == ()


def test_the_second_list_is_a_later_one() -> None:
    """A transaction may have drawn an id just before it can be listed: an empty first list forgets nothing."""
    pending = Pending()
    pending.advance(0, lambda holes: holes, [(1, 2)])
    pending.settle(frozenset(), 1)
    pending.advance(2, lambda holes: holes, [])
    assert pending.holes == ((1, 2),)
    pending.settle(frozenset(), 3)
    pending.advance(3, lambda holes: holes, [])
    assert pending.holes == ((1, 2),)  # a snapshot of the same moment may be older than the list
    pending.advance(4, lambda holes: holes, [])
    assert pending.holes == ()
