from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import ClockError, OptionError, SchemaError
from dpi.events.slots import UNREADABLE, Clock, Slots, duration

HOUR = Slots("1h", origin="2026-01-01")


@given(st.integers(-(10**9), 10**9), st.sampled_from(["500ms", "1s", "1h", "1d", "7d"]))
def test_every_moment_lies_in_its_slot(second, width):
    """start(n) ≤ t < start(n + 1)."""
    slots = Slots(width, origin="2026-01-01")
    moment = datetime.fromtimestamp(1_767_225_600 + second, UTC)
    number = slots.number(moment)
    assert slots.start(number) <= moment < slots.start(number + 1)
    assert slots.numbers([moment]).tolist() == [number]


@pytest.mark.parametrize(
    "times",
    [
        ["2026-01-01T01:30:00", "2025-12-31 23:00:00.5"],
        ["2026-01-01T02:30:00+01:00", "2025-12-31T23:00Z"],
        [datetime(2026, 1, 1, 1, 30), datetime(2025, 12, 31, 23, 0)],
        np.array(["2026-01-01T01:30", "2025-12-31T23:00"], dtype="datetime64[ns]"),
        pd.Series(pd.to_datetime(["2026-01-01 01:30", "2025-12-31 23:00"])),
        pl.Series(["2026-01-01T01:30", "2025-12-31T23:00"]).str.to_datetime(time_unit="ms"),
    ],
    ids=["text", "text with zone", "datetimes", "numpy", "pandas", "polars"],
)
def test_times_of_every_kind(times):
    """One moment is in one slot, however it is written."""
    assert HOUR.numbers(times).tolist() == [1, -1]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_need_a_unit(unit, factor):
    """Numbers since 1970 are read in the named unit, and refused without one."""
    moments = np.array([1_767_225_600, 1_767_225_600 + 3600]) * factor
    assert HOUR.numbers(moments, unit).tolist() == [0, 1]
    assert HOUR.numbers(moments.astype(float), unit).tolist() == [0, 1]
    with pytest.raises(SchemaError, match="name their unit"):
        HOUR.numbers(moments)


@given(st.lists(st.one_of(st.text(max_size=25), st.just("2026-01-01T05:00:00")), max_size=10), st.text(max_size=30))
def test_one_broken_time_breaks_no_other(times, odd):
    """Each row is read by itself."""
    assert HOUR.numbers([*times, odd]).tolist()[:-1] == HOUR.numbers(times).tolist()


def test_what_cannot_be_read_is_nowhere():
    """Broken, missing and absurd times are marked, not raised."""
    assert (HOUR.numbers(["soon", None, "2026-13-01"]) == UNREADABLE).all()
    assert (HOUR.numbers([float("nan"), 1e300, -1e300], "s") == UNREADABLE).all()
    assert (HOUR.numbers([2**62], "s") == UNREADABLE).all()


def test_extreme_times_are_bad_rows_in_every_kind_of_column():
    """The largest and smallest values of each type are unreadable, by themselves."""
    good = 1_767_225_600
    for column, unit in [
        (pl.Series([good * 10**6, 2**63 - 1, -(2**63)]).cast(pl.Datetime("us")), None),
        (pl.Series([good * 10**3, 2**63 - 1, -(2**63)]).cast(pl.Datetime("ms", "UTC")), None),
        (pa.array([good, 2**60, -(2**60)], pa.timestamp("s")), None),
        (pl.Series([20454, 2**31 - 1, -(2**31)], dtype=pl.Int32).cast(pl.Date), None),
        (np.array([good, 2**62, -(2**62)], dtype="datetime64[s]"), None),
        ([good, 2**63 - 1, -(2**63)], "s"),
        ([good * 1000, 2**63 - 1, -(2**63)], "ms"),
        ([float(good), 1e300, float("-inf")], "s"),
    ]:
        for zone in ("UTC", "Europe/Berlin"):
            numbers = Slots("1h", zone=zone).numbers(column, unit)
            assert numbers[0] != UNREADABLE
            assert (numbers[1:] == UNREADABLE).all()


def test_a_list_of_times_is_never_refused():
    """Numbers without a unit are unreadable rows of a list, with or without a text among them."""
    for column in ([1_767_225_600], [1_767_225_600, "x"], [], np.array([]), (t for t in [5])):
        assert (HOUR.numbers(column) == UNREADABLE).all()
    with pytest.raises(SchemaError, match="name their unit"):
        HOUR.numbers(np.array([1_767_225_600]))


def test_nanoseconds_are_exact_beside_an_odd_row():
    """An integer of 19 digits keeps its slot when a text stands beside it."""
    moment = 1_767_229_199_999_999_900
    for column in ([moment, moment], [moment, moment, "x"], (m for m in [moment, moment])):
        assert HOUR.numbers(column, "ns").tolist()[:2] == [0, 0]


@pytest.mark.parametrize(("text", "micros"), [("8.2s", 8_200_000), ("1.001s", 1_001_000), ("1.1h", 3_960_000_000)])
def test_durations_are_read_exactly(text, micros):
    """Decimal fractions of a unit are no floats."""
    assert duration(text) == micros


def test_local_time_around_a_change_of_clocks():
    """An ambiguous local time is the earlier one, a time that does not exist cannot be read; a day has 24 hours."""
    slots = Slots("1h", origin="2026-10-25", zone="Europe/Berlin")
    assert slots.numbers(["2026-10-25T02:30:00"]).tolist() == [2]
    spring = Slots("1h", origin="2026-03-29", zone="Europe/Berlin")
    assert spring.numbers(["2026-03-29T02:30:00"]).tolist() == [UNREADABLE]
    day = Slots("1d", origin="2026-03-28", zone="Europe/Berlin")
    assert day.start(2).isoformat() == "2026-03-30T01:00:00+02:00"


@pytest.mark.parametrize("text", ["", "1", "h", "1 year", "-1h", "1h30m", None, 3600, "0.0000001s"])
def test_bad_durations_are_refused(text):
    """A duration has a number and a unit."""
    with pytest.raises(OptionError, match="must be a duration"):
        duration(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Slots("0s"),
        lambda: Slots("1h", zone="Nowhere/City"),
        lambda: Slots("1h", origin="tomorrow"),
        lambda: Slots("1h", origin=5),
        lambda: Slots("1h", lateness="later"),
    ],
)
def test_bad_options_are_refused(make):
    """Width, zone, origin and lateness are checked once, at the start."""
    with pytest.raises(OptionError):
        make()


def test_a_column_that_holds_no_times_is_refused():
    """Booleans are no times."""
    with pytest.raises(SchemaError, match="must hold times"):
        HOUR.numbers(pl.Series([True, False]))


def test_only_the_clock_decides_what_is_late():
    """A far-future event neither closes a slot nor makes another event late."""
    clock = Clock(Slots("1h", origin="2026-01-01", lateness="10m"), "2026-01-01T05:05:00")
    times = [
        "2026-01-01T04:00:00",
        "2026-01-01T03:59:59",
        "2026-01-01T05:05:00",
        "2026-01-01T05:05:01",
        "9999-01-01",
        "x",
    ]
    admitted = clock.admit(times)
    assert admitted.tolist() == [True, False, True, False, False, False]
    for i, time in enumerate(times):
        assert Clock(clock.slots, clock.now).admit([time]).tolist() == [admitted[i]]
    assert clock.dropped == {"late": 1, "future": 2, "unreadable": 1}
    assert "dropped" not in repr(clock)


def test_a_slot_closes_at_its_end_plus_lateness():
    """The first open slot moves exactly when the clock passes end + lateness."""
    clock = Clock(Slots("1h", origin="2026-01-01", lateness="10m"), "2026-01-01T05:09:59")
    assert clock.first_open == 4
    clock.advance("2026-01-01T05:10:00")
    assert clock.first_open == 5


def test_the_clock_does_not_go_backwards():
    """Going back is refused and leaves the clock where it was."""
    clock = Clock(HOUR, "2026-01-01T05:00:00")
    with pytest.raises(ClockError, match="backwards"):
        clock.advance("2026-01-01T04:59:59")
    assert clock.first_open == 5


def test_a_week_is_seven_days():
    """Weeks are slots of fixed width, counted from the origin: from a Monday, if that is one."""
    weeks = Slots("1w", origin="2026-01-05")
    assert weeks.width == Slots("7d").width
    assert [weeks.start(n).date().isoformat() for n in (0, 1)] == ["2026-01-05", "2026-01-12"]
    assert weeks.numbers(["2026-01-11T23:59", "2026-01-12"]).tolist() == [0, 1]


def test_a_time_within_a_slot_is_told_the_nearest_boundaries():
    """The error has the slot's own boundaries, in the zone, and says what decides them."""
    with pytest.raises(OptionError) as caught:
        Slots("1w", zone="Europe/Berlin").boundary("2026-01-05", "start")
    assert caught.value.options == ("start", "origin")
    for text in ("`start`", "2026-01-01T00:00:00+01:00", "2026-01-08T00:00:00+01:00", "as `origin`"):
        assert text in str(caught.value)
    with pytest.raises(OptionError, match="boundary"):
        Slots("1d").boundary("9999-12-31T12:00")


def test_a_column_with_a_zone_is_read_in_it_and_one_without_in_the_stream_s():
    """02:30 in Berlin is half past one in London: a zone of the column's own counts, and else that of the slots."""
    slots = Slots("1h", origin="2026-01-01T00:00Z", zone="Europe/Berlin")
    wall = pl.Series([datetime(2026, 1, 1, 2, 30)])
    for unit in ("ms", "us", "ns"):
        naive = wall.cast(pl.Datetime(unit))
        assert slots.numbers(naive).tolist() == [1]
        assert slots.numbers(naive.dt.replace_time_zone("UTC")).tolist() == [2]
        assert slots.numbers(naive.dt.replace_time_zone("America/New_York")).tolist() == [7]


def test_a_border_is_counted_from_the_origin_and_nothing_within_a_slot_is_one():
    """Slot n begins at origin + n·width, before the origin too; a microsecond later is no border."""
    slots = Slots("1h", origin="2026-01-01T00:30")
    for time, number in (("2026-01-01T00:30", 0), ("2026-01-01T05:30", 5), ("2025-12-31T23:30", -1)):
        assert slots.boundary(time) == slots.number(time) == number
        assert slots.start(number).isoformat() == f"{time}:00+00:00"
    for time in ("2026-01-01T00:00", "2026-01-01T00:30:00.000001", "2026-01-01T01:29:59.999999"):
        with pytest.raises(OptionError, match="boundary of a slot"):
            slots.boundary(time)


def test_times_up_to_the_farthest_are_read_and_no_further():
    """Of both signs, in every unit, as whole numbers and as fractions: one microsecond more cannot be read."""
    farthest = 8030 * 366 * 86_400 * 10**6
    slots = Slots("1us")
    for sign in (1, -1):
        assert slots.numbers([sign * farthest], "us").tolist() == [sign * farthest]
        assert slots.numbers([sign * (farthest + 1)], "us").tolist() == [UNREADABLE]
        assert slots.numbers([sign * farthest // 10**6], "s").tolist() == [sign * farthest]
        assert slots.numbers([sign * (farthest // 10**6 + 1)], "s").tolist() == [UNREADABLE]
        assert slots.numbers([sign * farthest, None, "x"], "us").tolist() == [sign * farthest, UNREADABLE, UNREADABLE]
        assert slots.numbers([sign * (farthest + 1), None, "x"], "us").tolist() == [UNREADABLE] * 3


def test_about_how_long_a_slot_is():
    """Its width, or about as long as the days of its calendar."""
    day = 86_400 * 10**6
    assert [Slots(each).about for each in ("1h", "day", "week", "month")] == [day // 24, day, 7 * day, 30 * day]


def test_no_boundary_is_named_where_a_slot_ends_after_the_last_year():
    """No time can be written there."""
    with pytest.raises(OptionError, match="there is none near"):
        Slots("1h").boundary("9999-12-31T23:30")
