from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import OptionError
from dpi.events._calendar import UNITS, Calendar
from dpi.events.slots import UNREADABLE, Slots, Window

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut",
    "Pacific/Apia", "Pacific/Kiritimati", "Asia/Kathmandu", "Australia/Lord_Howe",
)  # fmt: skip
"""With changes of clocks at midnight, after midnight, of half an hour, and of a whole day."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

units, zones = st.sampled_from(UNITS), st.sampled_from(ZONES)
moments = st.datetimes(datetime(1950, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC))


@given(units, zones, moments)
def test_every_moment_lies_in_its_part(unit, zone, moment):
    """Begin ≤ moment < begin of the next, alone and in a column: parts follow each other without a gap."""
    slots = Slots(unit, zone=zone)
    number = slots.number(moment)
    assert slots.start(number) <= moment < slots.start(number + 1)
    assert slots.numbers([moment]).tolist() == [number]
    assert slots.boundary(slots.start(number)) == slots.at(slots.begin(number))


@given(units, zones, moments)
def test_parts_begin_where_a_calendar_on_the_wall_says(unit, zone, moment):
    """A day begins at the first moment that has its date or a later one; weeks on Mondays, months on the first."""
    slots = Slots(unit, zone=zone)
    start = slots.start(slots.number(moment))
    before = (start.astimezone(UTC) - timedelta(microseconds=1)).astimezone(ZoneInfo(zone))
    first = {"day": start.date(), "week": start.date() - timedelta(days=start.weekday()), "month": start.replace(day=1)}
    assert before.date() < start.date()
    assert first[unit] == (start if unit == "month" else start.date())


@pytest.mark.parametrize(
    ("zone", "day", "hours", "begins"),
    [
        ("Europe/Berlin", "2026-03-29", 23, "2026-03-29T00:00:00+01:00"),
        ("Europe/Berlin", "2026-10-25", 25, "2026-10-25T00:00:00+02:00"),
        ("America/Sao_Paulo", "2018-11-04", 23, "2018-11-04T01:00:00-02:00"),  # there is no midnight
        ("America/St_Johns", "2010-11-07", 25, "2010-11-07T00:00:00-02:30"),  # midnight comes twice
        ("Australia/Lord_Howe", "2026-04-05", 24.5, "2026-04-05T00:00:00+11:00"),
    ],
)
def test_days_on_which_clocks_are_changed(zone, day, hours, begins):
    """They are shorter or longer, and begin at the first midnight, or where the clock goes on after it."""
    slots = Slots("day", zone=zone)
    number = slots.number(datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone)))
    assert slots.start(number).isoformat() == begins
    assert slots.begin(number + 1) - slots.begin(number) == hours * 3_600_000_000


def test_a_day_that_was_left_out_is_empty():
    """Samoa had no 30 December 2011: its slot has no length and no event, and closes with the day before."""
    slots = Slots("day", zone="Pacific/Apia")
    before = slots.number("2011-12-29T12:00")
    assert slots.begin(before + 1) == slots.begin(before + 2)
    assert slots.closing(before) == slots.closing(before + 1)
    hours = slots.begin(before) + np.arange(48, dtype=np.int64) * 3_600_000_000
    assert np.unique(slots.at(hours)).tolist() == [before, before + 2]


def test_an_hour_that_comes_twice_after_midnight_stays_in_its_day():
    """In St. John's clocks went back from 0:01 to 23:01: the day that has begun goes on."""
    slots = Slots("day", zone="America/St_Johns")
    begin = slots.begin(slots.number("2010-11-07T12:00"))
    minutes = begin + np.arange(-5, 120, dtype=np.int64) * 60_000_000
    assert np.all(np.diff(slots.at(minutes)) >= 0)
    assert np.flatnonzero(np.diff(slots.at(minutes))).tolist() == [4]


@given(st.lists(st.integers(-(2**57), 2**57), min_size=1), units, zones)
def test_a_column_is_as_its_moments_one_by_one(column, unit, zone):
    """No moment decides on the slot of another, however far apart they are."""
    calendar = Calendar(unit, zone)
    together = calendar.numbers(np.array(column, dtype=np.int64)).tolist()
    assert together == [int(calendar.numbers(np.array([moment]))[0]) for moment in column]


def test_months_are_counted_from_1970():
    """Number 0 is January 1970; there are twelve a year."""
    slots = Slots("month", zone="Asia/Tokyo")
    assert slots.number("1970-01-15") == 0
    assert slots.boundary("2026-03-01") == 12 * 56 + 2
    assert slots.numbers(["2026-02-28T23:59:59", "2026-03-01", "soon"]).tolist() == [673, 674, UNREADABLE]
    assert str(Slots("week").start(0).date()) == "1969-12-29"


def test_what_is_no_boundary_or_no_option_is_told():
    """The nearest boundaries of the calendar are named, and an origin is not for it."""
    with pytest.raises(OptionError, match=r"2026-01-05T00:00:00\+00:00 and 2026-01-12"):
        Slots("week").boundary("2026-01-07", "start")
    with pytest.raises(OptionError, match="`origin` is for slots of fixed width"):
        Slots("week", origin="2026-01-05")
    with pytest.raises(OptionError, match='"day", "week" or "month"'):
        Slots("year")
    with pytest.raises(OptionError, match="`lateness` must be a duration"):
        Slots("week", lateness="month")


def test_late_and_open_events_by_the_calendar():
    """A month closes its lateness after its end, whatever its length."""
    slots = Slots("month", zone="Europe/Berlin", lateness="2h")
    march = slots.boundary("2026-03-01")
    end = slots.instant("2026-04-01")
    assert slots.closing(march) == end + 7_200_000_000
    assert slots.first_open(end + 7_199_999_999) == march
    assert slots.first_open(end + 7_200_000_000) == march + 1
    times = slots.moments(["2026-03-31T23:59", "2026-04-01T00:00", "never"])
    assert Window(march + 1, end).admits(slots, times).tolist() == [False, True, False]


def test_a_stream_of_months_goes_on_in_its_store(tmp_path):
    """Its options are certified, and the store is opened again with the same words and with no others."""
    options = {"domain": dpi.Categories(["a"]), "epsilon": 1, "start": "2026-01-01", "store": tmp_path / "s.db"}
    with dpi.Stream(slot="month", zone="Europe/Berlin", **options) as stream:
        table = {"user": [1, 2, 3], "time": ["2026-01-31T23:30", "2026-02-01T00:10", "2026-03-01"], "value": ["a"] * 3}
        releases = list(stream.replay(table, start="2026-01-01", end="2026-03-01"))
        assert [release.start_text for release in releases] == [
            "2026-01-01T00:00:00+01:00",
            "2026-02-01T00:00:00+01:00",
        ]
    with dpi.Stream(slot="month", zone="Europe/Berlin", **options) as stream:
        assert stream.next_slot == 12 * 56 + 2
    with pytest.raises(dpi.StateError, match="slots"):
        dpi.Stream(slot="day", zone="Europe/Berlin", **options)


def test_live_events_of_a_calendar(tmp_path):
    """Events are kept for the day they lie in, and released when the clock has closed it."""
    stream = dpi.Stream(
        domain=dpi.Categories(["a"]),
        epsilon=1,
        slot="day",
        zone="Europe/Berlin",
        start="2026-03-29",
        store=tmp_path / "s",
    )
    stream.append(["ada"], ["2026-03-29T23:30"], ["a"], now="2026-03-29T23:40")
    assert list(stream.advance("2026-03-29T23:59")) == []
    (release,) = stream.advance("2026-03-30")
    assert release.start_text == "2026-03-29T00:00:00+01:00"
    stream.close()
