"""Whether an account runs out, by budget: the table in docs/streams.md says what streams do, row by row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.noise import UnsafeSeededSource
from dpi.testing.class_sums import ClassSums

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"
SLOTS = 120
EMPTY = 2.0**-20
"""Of ε: who has less than a millionth left has no weight that matters."""


def stream(store=None, **options):
    """A stream of ε = 1."""
    known = {"domain": dpi.Categories(["a", "b"]), "epsilon": 1, "unsafe_source": UnsafeSeededSource(1)}
    known["mechanism"] = ClassSums()  # for rows in which a mechanism asks for no shares
    return dpi.Stream(**(known | {"store": store or dpi.MemoryStore()} | options))


def costly(**options):
    """A stream by class whose user is also in another stream of the store, in which a slot has a cost."""
    store = dpi.MemoryStore()
    opened = stream(store, name="by class", mechanism="boosted", **options)
    other = stream(store, name="costly", budget=dpi.Ledger(per_slot="0.1"))
    return opened, other


ROWS = {
    "`Ledger()`, by class (the default)": lambda: (stream(mechanism="boosted"),),
    "the same, where another stream of the ledger has a cost per slot": costly,
    "the same, with a quota": lambda: costly(budget=dpi.Ledger(quota="0.5")),
    "`Ledger()`, not by class; `policy=spend_first`": lambda: (
        stream(budget=dpi.Ledger(policy=dpi.budget.spend_first)),
    ),
    "`per_slot=c`, `slots=n`, `every=k`": lambda: (stream(budget=dpi.Ledger(per_slot="0.1")),),
    "`returning=False`": lambda: (stream(budget=dpi.Ledger(returning=False)),),
    "`policy=fade()`, slots of at most 0.6·ε": lambda: (
        stream(budget=dpi.Ledger(per_slot="0.6", policy=dpi.budget.fade())),
    ),
    "`policy=fade()`, slots of more": lambda: (stream(budget=dpi.Ledger(per_slot="0.7", policy=dpi.budget.fade())),),
}


def table():
    """The rows of the page: whether an account runs out."""
    text = PAGE.read_text(encoding="utf-8").partition("\n### Empty accounts\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    return {line[0].strip(): line[1].strip().partition(":")[0] for line in lines}


@pytest.mark.parametrize("row", ROWS)
def test_the_page_says_whose_account_runs_out(row):
    """One who is in every slot of every stream has something left after 120 slots exactly where the page says so."""
    streams = ROWS[row]()
    for _ in range(SLOTS):
        for opened in streams:
            opened.release(["ada"], ["a"])
    opened = streams[0]
    (left,) = opened._accounts.remaining(pl.Series(["ada"]), opened.next_slot)
    assert table()[row] == ("yes" if left < EMPTY else "no")


def test_every_row_is_tried():
    """No row of the page is without a stream here, but those that say when accounts are refilled or are none."""
    assert set(table()) - set(ROWS) == {"any ledger with `period=n`", "`Converging(series)`"}


def test_the_promise_on_one_page_says_the_same():
    """Who cannot pay is left out; by default nobody ever has to be."""
    text = (PAGE.parent / "promise.md").read_text(encoding="utf-8")
    assert "is heard no more" not in text
    assert "streams.md#empty-accounts" in text
