"""Neighbours differ in the rows of one user and in nothing else."""

import random

import polars as pl
import pytest

from dpi.events.columns import canonical
from dpi_audit import neighbours
from dpi_audit.neighbours import FAMILIES, TARGET, mutate
from dpi_audit.small import VALUES


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_only_the_users_rows_are_missing(family):
    """What is left is in the same order, and the user is nowhere in it."""
    pair = family(20, VALUES)
    assert len(pair) == 20
    assert pair.one != pair.other
    for with_user, without in zip(pair.one, pair.other, strict=True):
        rest = iter(with_user)
        assert all(any(row == other for other in rest) for row in without)
        assert TARGET not in [user for user, _ in without]
    assert removed_users(pair) == [str(pair.user)]


def removed_users(pair):
    """Canonical ids of all rows that are in one stream only."""
    slots = zip(pair.one, pair.other, strict=True)
    rows = [user for with_user, without in slots for user, _ in with_user if user not in [u for u, _ in without]]
    return sorted(set(canonical([*rows, None], "user").cast(pl.String).to_list()[:-1]))


def test_the_public_clock_drops_the_users_late_and_early_events():
    """Of three events a slot, the one in time is left; the others' rows do not depend on it."""
    pair = neighbours.late(20, VALUES)
    assert all(len(a) == len(b) + 1 for a, b in zip(pair.one, pair.other, strict=True))
    assert all(len(b) == 6 for b in pair.other)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_changes_keep_the_others_and_stay_one_user(family):
    """A changed pair has the same rows of others in every slot, and what differs is still one user's: two cost 2ε."""
    pair, chance = family(20, VALUES), random.Random(1)
    for _ in range(30):
        changed = mutate(pair, VALUES, chance)
        assert changed.other == pair.other
        assert removed_users(changed) in ([], [str(pair.user)])
        pair = changed


def test_a_witness_is_readable():
    """It says in how many slots the user was, and with how many rows."""
    assert neighbours.giant(20, VALUES).describe().startswith("giant: user in 20 of 20 slots: 0 (×400), 1 (×200)")
