"""Real streams keep their events, and the truth beside them is that of all users."""

import numpy as np
import polars as pl
import pytest

import dpi
from dpi_research.reproduce.play import open_stream
from dpi_research.reproduce.streams import RealStream, Recorded, by_clock, frequent, in_slots

pytestmark = pytest.mark.filterwarnings("ignore::dpi.errors.WeakPromise")  # a count above the noise

TABLE = pl.DataFrame(
    {
        "user": ["a", "a", "b", "c", "b"],
        "timestamp": (pl.Series([0, 3_599, 10, 7_200, 7_300]) * 1_000_000).cast(pl.Datetime("us")),
        "value": [22, 80, 80, 22, 443],
    }
)


def stream() -> RealStream:
    """Three hours, the second empty."""
    return RealStream(frequent(TABLE, "value", 2), in_slots(TABLE, by_clock(TABLE, "1h"), ["value"]))


def test_no_event_is_lost_and_none_is_moved() -> None:
    """Every slot has its own users, an empty one none."""
    slots = stream().slots
    assert [sorted(users.to_list()) for users, _ in slots] == [["a", "a", "b"], [], ["b", "c"]]


def test_a_user_counts_once_in_a_slot() -> None:
    """Who has two values is shared out among them; an empty slot has the PDF before it."""
    real = stream()
    assert sorted(real.domain.values) == ["22", "80"]  # type: ignore[attr-defined]
    counts = {label: [slot[real.domain.index(label)] for slot in real.counts] for label in ("22", "80", "443")}
    assert counts == {"22": [0.5, 0, 1], "80": [1.5, 0, 0], "443": [0, 0, 1]}
    assert real.pdfs[1].tolist() == real.pdfs[0].tolist()
    assert real.accumulated[-1].tolist() == (np.sum(real.counts, axis=0) / 4).tolist()


def test_recorded_counts_are_those_that_were_measured() -> None:
    """With next to no noise they are the truth, and the release is that of the boosted mechanism itself."""
    real, mechanism = stream(), Recorded()
    ledger = dpi.Ledger(per_slot=300)
    recorded = open_stream("ledger", real.domain, 900, seed=1, ledger=ledger, boosted=mechanism)
    plain = open_stream("ledger", real.domain, 900, seed=1, ledger=ledger)
    for users, values in real.slots:
        assert np.array_equal(recorded.release(users, values).pdf, plain.release(users, values).pdf)
    # P(|noise| > 0.1) = exp(-30) for each of nine counts
    assert np.array(mechanism.noisy) == pytest.approx(np.array(real.counts), abs=0.1)
