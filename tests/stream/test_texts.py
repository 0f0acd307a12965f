"""Which texts of a user count, where no list says which values there are."""

import random

import numpy as np
import polars as pl
import pytest

from dpi.domain import Texts
from dpi.events.rows import Rows
from dpi.events.slots import Slots
from dpi.sources import Events
from dpi.stream.texts import MOST_TEXTS, SeenTexts, TextAdmission

KEY = bytes(range(32))
ADA = [("ada", f"text {number}") for number in range(3 * MOST_TEXTS)]
BOB = [("bob", f"text {number}") for number in range(3 * MOST_TEXTS)]
CROWD = [("bob", f"other {number}") for number in range(20)] + [(f"user {n}", f"text {n}") for n in range(40)]


def kept(rows, key=KEY):
    """The texts of each account that stay, of rows in the order in which they are read."""
    seen = SeenTexts(Texts(16))
    numbers = seen.encode([text for _, text in rows])
    return by_account(seen.kept(Rows.of([user for user, _ in rows], numbers, key), key), seen)


def by_account(rows, seen):
    """The texts of each account."""
    found = {}
    texts, places = seen.numbered(rows.bins)
    for name, place in zip(map(tuple, rows.names.tolist()), places.tolist(), strict=True):
        found.setdefault(name, set()).add(texts[place - 1])
    return found


def of_ada(found, key=KEY):
    """The texts of one account."""
    (name,) = kept(ADA[:1], key)
    return found[name]


@pytest.mark.parametrize("seed", range(5))
def test_which_texts_stay_is_decided_neither_by_arrival_nor_by_others(seed):
    """The user's rows in another order, before, between or after others' rows, or alone: the same texts stay.

    Texts are numbered as they come. If the number decided, a neighbour who writes some of the same texts first would
    change which of this user's count: one user would move what another does, and lose more than one unit for it.
    """
    rows = ADA + BOB + CROWD
    alone = of_ada(kept(ADA))
    assert len(alone) == MOST_TEXTS
    mixed = random.Random(seed).sample(rows, len(rows))
    for order in (mixed, mixed[::-1], CROWD + BOB[::-1] + ADA, ADA[::-1] + BOB):
        assert of_ada(kept(order)) == alone
    assert kept(mixed) == kept(rows)


def test_which_texts_stay_is_decided_by_a_secret_and_by_the_account():
    """Nobody can write texts that stay by their spelling: another key, or another user, keeps others."""
    both = kept(ADA + BOB)
    assert len({frozenset(texts) for texts in both.values()}) == 2
    assert of_ada(kept(ADA, bytes(32)), bytes(32)) != of_ada(both)
    assert of_ada(kept(ADA, bytes(32) + KEY), bytes(32) + KEY) != of_ada(kept(ADA, bytes(64)), bytes(64))


@pytest.mark.parametrize("seed", range(3))
def test_batches_in_any_order_keep_the_texts_of_one_batch(seed):
    """What is among the lowest of all is among the lowest of each part, however rows were cut into batches."""
    rows = random.Random(seed).sample(ADA + BOB + CROWD, len(ADA + BOB + CROWD))
    universe, seen = Texts(16), SeenTexts(Texts(16))
    admission = TextAdmission(Slots("1h"), seen, KEY, 0, 1, universe=universe)
    parts = []
    for cut in np.array_split(np.arange(len(rows)), 7):
        users, texts = zip(*(rows[place] for place in cut), strict=True)
        parts.append(admission.admit(Events(list(users), pl.Series([0] * len(users)), list(texts), "s")))
    assert by_account(seen.kept(Rows.join(parts), KEY), seen) == kept(rows)


def test_a_flood_of_texts_is_forgotten_with_its_batch():
    """Of ten batches of one user's own texts, a reading holds what can stay of each, and nothing else."""
    universe, seen = Texts(16), SeenTexts(Texts(16))
    admission = TextAdmission(Slots("1h"), seen, KEY, 0, 1, universe=universe)
    for batch in range(10):
        texts = [f"text {batch} {number}" for number in range(200)]
        admission.admit(Events(["ada"] * 200, pl.Series([0] * 200), texts, "s"))
    assert len(seen._texts) - 1 == 10 * MOST_TEXTS
