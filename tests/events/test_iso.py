"""Times of a fixed width are read at the speed of arrays, and mean what the reader of all forms takes them for."""

from __future__ import annotations

import calendar
import datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.events import _iso as iso
from dpi.events.slots import Slots

PLAIN = [
    "2026-01-31T23:59:59Z", "2026-01-31 23:59:59", "2026-01-31T23:59:59.1", "2026-01-31T23:59:59.123456+01:00",
    "2024-02-29T00:00:00-14:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
]  # fmt: skip
ODD = [
    "2026-01-31", "2026-01-31T23:59", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z",
    "2026-01-31T23:59:60Z", "2026-01-31T23:59:59.1234567Z", "2026-01-31T23:59:59.Z", " 2026-01-31T23:59:59Z",
    "2026-01-31T23:59:59z", "2026-01-31T23:59:59+0100", "2026-01-31T23:59:59+25:00", "2026/01/31T23:59:59Z",
    "٢٠٢٦-01-31T23:59:5", "+026-01-31T23:59:59Z", "0000-01-01T00:00:00Z", "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z", "2026-01-31T23:59:5", "2026-01-31T23:59:59 Z", "", None, "2026-01-31T23:59:59.12:456Z",
    "2026-01-31T23:59:59.-1Z",
]  # fmt: skip


def both(texts: list[str | None], zone: str) -> tuple[list[int], list[int]]:
    """What the stream reads, and what its reader of all forms reads alone."""
    slots, column = Slots("1h", zone=zone), pl.Series(texts, dtype=pl.String)
    anyhow = slots._parse_any(column)
    return slots.moments(column).tolist(), slots.moments(anyhow, "us").tolist()


@pytest.mark.parametrize("text", PLAIN)
def test_plain_forms_are_read_at_once(text: str) -> None:
    """They are those that most programs write; Python's own reader agrees."""
    found = iso.moments(pl.Series([text]))
    moment = datetime.datetime.fromisoformat(text)
    local = moment.tzinfo is None
    moment = moment.replace(tzinfo=datetime.UTC) if local else moment
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert found.read.tolist() == [True]
    assert found.local.tolist() == [local]
    assert found.micros.tolist() == [(moment - epoch) // datetime.timedelta(microseconds=1)]


def test_the_calendar_is_that_of_python() -> None:
    """Every month of every year from 1 to 9999: the days before it, and its own; other months have none."""
    first, length = (table.reshape(-1, 13) for table in iso._calendar())
    epoch = datetime.date(1970, 1, 1).toordinal()
    for year in range(1, 10_000):
        for month in range(1, 13):
            assert first[year, month] + 1 == datetime.date(year, month, 1).toordinal() - epoch
            assert length[year, month] == calendar.monthrange(year, month)[1]
    assert not length[0].any()
    assert not length[:, 0].any()


@pytest.mark.parametrize("text", ODD)
def test_other_texts_are_left_to_the_reader_of_all_forms(text: str | None) -> None:
    """Also what is no time in any calendar."""
    assert iso.moments(pl.Series([text], dtype=pl.String)).read.tolist() == [False]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_row_means_the_same_whatever_stands_beside_it(zone: str) -> None:
    """Hours that a change of clocks repeats or leaves out included."""
    clocks = ["2026-03-29T02:30:00", "2026-10-25T02:30:00.5", "2026-10-25T02:30:00+01:00"]
    fast, anyhow = both([*PLAIN, *ODD, *clocks], zone)
    assert fast == anyhow
    for text, moment in zip([*PLAIN, *ODD, *clocks], fast, strict=True):
        assert both([text], zone)[0] == [moment]


digits = st.integers(0, 99).map("{:02}".format)
texts = st.builds(
    "{}{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["19", "20", "00", "99"]), digits, digits, digits, st.sampled_from(["T", " ", "t"]),
    digits, digits, digits, st.sampled_from(["", ".", ".5", ".123", ".123456", ".1234567"]),
    st.sampled_from(["", "Z", "+01:00", "-14:59", "+15:00", "+1:00", "-00:60"]),
)  # fmt: skip
sound = st.datetimes().map(datetime.datetime.isoformat)


@given(st.lists(texts | sound | st.text(max_size=30), max_size=8), st.sampled_from(["UTC", "America/New_York"]))
def test_both_readers_agree(column: list[str | None], zone: str) -> None:
    """On texts that are nearly times, and on any text."""
    fast, anyhow = both(column, zone)
    assert fast == anyhow
