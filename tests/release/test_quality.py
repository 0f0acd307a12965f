"""What is not good enough is not shown, says why, and its week stands in for it where that is known better."""

import math

import numpy as np
import pytest

import dpi
from dpi.release.quality import SMALL, WEEK, Quality, note, slots_of_week, with_weeks
from dpi.release.table import tidy
from dpi.settings.quality import read_quality
from dpi.settings.questions import asked, asked_under
from made_releases import release, releases, without_total

PAGES = dpi.Categories(["home", "cart", "help"], other="elsewhere")
DAYS = dpi.Slots("day", zone="Europe/Berlin")


def alone(made):
    """Releases without a week."""
    return [(each, None) for each in made]


@pytest.mark.parametrize(
    "given", [{"points": 0}, {"points": -3}, {"percent": math.nan}, {"size": 0}, {"size": math.inf}]
)
def test_a_rule_that_hides_everything_is_refused_by_its_name(given):
    """Zero, negative and infinite bounds."""
    (name,) = given
    with pytest.raises(dpi.OptionError, match=rf"^`{name}` must be a number above 0: with .* nothing would be shown"):
        Quality(**given)


@pytest.mark.parametrize("text", ["", "points", "points=x", "week=1", "width=3", "points=1,,size=2"])
def test_a_text_that_states_no_rules_is_refused(text):
    """One sentence with an example."""
    with pytest.raises(dpi.OptionError, match=r"^`quality` must be rules such as points=10"):
        read_quality(text)


def test_a_week_needs_a_clock_slots_shorter_than_it_and_a_rule():
    """Each is refused by the name of the option."""
    with pytest.raises(dpi.OptionError, match=r"^`week` replaces what is too noisy: give `points` or `percent`"):
        Quality(week=True, size=20)
    with pytest.raises(dpi.OptionError, match=r"^`week` needs a stream with a clock and a time zone"):
        slots_of_week(None)
    for slot in ("1m", "1w", "week", "month", "4d"):
        with pytest.raises(dpi.OptionError, match=r"^`week` is for slots from an hour to three days"):
            slots_of_week(dpi.Slots(slot))
    assert [slots_of_week(dpi.Slots(slot)) for slot in ("1h", "day", "1d", "3d")] == [168, 7, 7, 2]


@pytest.mark.parametrize("points", [0.2, 0.5, 1.0, 3.0])
def test_a_table_shows_exactly_the_shares_that_are_known_well_enough(points):
    """A share has its numbers if no end of its interval is farther than the rule says, and else a reason."""
    made = releases(PAGES, 5)
    plain = tidy(alone(made), None)
    ruled = tidy(alone(made), None, None, Quality(points=points))
    assert ruled.columns == [*plain.columns, "note", "rules"]
    for before, after in zip(plain.iter_rows(named=True), ruled.iter_rows(named=True), strict=True):
        wide = 100 * max(before["share"] - before["lower"], before["upper"] - before["share"])
        if wide <= points:
            assert after == before | {"note": "", "rules": str(Quality(points=points))}
        else:
            assert (after["share"], after["lower"], after["upper"]) == (None, None, None)
            assert after["note"] == note(wide, "points")
            assert after["users"] == before["users"]


def test_numbers_of_users_are_hidden_by_their_relative_error():
    """Those of a value and those of people; a number that is a lower bound has no width that would be enough."""
    rng, people = np.random.default_rng(1), {}
    for name, value in (("newcomers", 5.0), ("returning", 90.0), ("reach", 300.0)):
        people |= {name: value, f"{name}_variance": 25.0}
    one = release(PAGES, 0, rng, people=people)
    row = tidy([(one, None)], None, None, Quality(percent=50)).row(0, named=True)
    assert (row["newcomers"], row["returning"], row["reach"]) == (None, 90.0, 300.0)
    bound = release(PAGES, 0, rng, payers=True)
    row = tidy([(bound, None)], None, None, Quality(percent=50)).row(0, named=True)
    assert (row["users"], row["note"]) == (None, "users not shown: above ± 999 %")


def test_small_values_are_one_row_with_the_interval_of_their_sum():
    """What is grouped is what a group by hand gives; nobody is lost by it."""
    (one,) = releases(PAGES, 1)
    few = [PAGES.label(code) for code in range(PAGES.size) if one.pdf[code] * one.total < 400]
    assert 1 < len(few) < PAGES.size
    ruled = tidy([(one, None)], None, None, Quality(size=400))
    assert ruled["share"].sum() == pytest.approx(1.0)
    last = ruled.row(-1, named=True)
    by_hand = tidy([(one, None)], None, {"small": few}).row(0, named=True)
    assert last["value"] == f"{len(few)} values of fewer than 400 users"
    assert all(last[name] == by_hand[name] for name in ("share", "lower", "upper", "users"))
    assert set(ruled["value"][:-1]) == {PAGES.label(code) for code in range(PAGES.size)} - set(few)
    with pytest.raises(dpi.OptionError, match=r"^`size` needs numbers of users"):
        tidy(alone(without_total(PAGES, 1)), None, None, Quality(size=20))


def test_a_week_stands_in_for_a_day_that_is_too_noisy():
    """Its share is the mean of seven days, its deviation the mean of theirs; the seventh day is the first with one."""
    rng = np.random.default_rng(2)
    made = [release(PAGES, day, rng, variance=np.full(PAGES.size, 1e-6)) for day in range(9)]
    made[7] = release(PAGES, 7, rng, variance=np.full(PAGES.size, 4e-4))
    pairs = list(with_weeks(made, 7))
    assert [week is None for _, week in pairs] == [True] * 6 + [False] * 3
    week = pairs[7][1]
    assert week.pdf == pytest.approx(np.mean([each.pdf for each in made[1:8]], axis=0))
    assert np.sqrt(week.variance) == pytest.approx(np.full(PAGES.size, (6 * 1e-3 + 2e-2) / 7))
    table = tidy(pairs, DAYS, None, Quality(points=1, week=True))
    by_day = table.partition_by("slot", maintain_order=True)
    assert by_day[6]["share"].to_list() == made[6].pdf.tolist()
    assert by_day[7]["share"].to_list() == week.pdf.tolist()
    assert set(by_day[7]["note"]) == {"of a week"}


def test_there_is_no_week_over_a_gap_or_another_domain():
    """A mean of other days than the seven would be told as theirs."""
    rng = np.random.default_rng(3)
    gap = [release(PAGES, day, rng) for day in (0, 1, 2, 4, 5, 6, 7)]
    other = [release(dpi.Categories(["home"]) if day == 3 else PAGES, day, rng) for day in range(8)]
    assert all(week is None for made in (gap, other) for _, week in with_weeks(made, 7))


@pytest.mark.parametrize("words", [["probability", "home"], ["count", "home"], ["total"], ["range", "0", "10"]])
def test_an_answer_is_shown_or_says_why(words):
    """By its 95 % interval, whatever level is asked for; numbers that are shown stay as they were."""
    domain = dpi.Bins([0, 5, 10]) if words[0] == "range" else PAGES
    one = release(domain, 0, np.random.default_rng(4))
    (row,), (wide,) = asked(words, 0.5)(one), asked(words)(one)
    half = max(wide.value - wide.lower, wide.upper - wide.value)
    unit = {"probability": "points", "range": "points"}.get(words[0], "percent")
    width = 100 * half / (1 if unit == "points" else wide.value)
    (shown,) = asked_under(Quality(**{unit: 1.01 * width}), words, 0.5)(one, None)
    assert shown == row
    (hidden,) = asked_under(Quality(**{unit: 0.99 * width}), words, 0.5)(one, None)
    assert hidden.plain() | {"note": ""} == {"value": None, "lower": None, "upper": None, "note": ""}
    assert hidden.note.startswith("not shown: ± ")


def test_the_largest_values_are_shown_with_all_small_ones_as_one():
    """A small value is in no row of its own; a week's number is that of the same value."""
    rng = np.random.default_rng(5)
    made = [release(PAGES, day, rng) for day in range(7)]
    (one, week) = list(with_weeks(made, 7))[-1]
    size = float(np.median(one.pdf) * one.total)
    rows = asked_under(Quality(size=size), ["top", "4"])(one, None)
    few = one.pdf * one.total < size
    assert [row.label for row in rows[:-1]] == [label for label, share in one.top(4) if share * one.total >= size]
    assert rows[-1].value == pytest.approx(one.pdf[few].sum())
    noisy = release(PAGES, 6, rng, pdf=one.pdf, variance=np.full(PAGES.size, 1e-2))
    for row in asked_under(Quality(points=3, week=True), ["top", "4"])(noisy, week):
        assert (row.value, row.note) == (week.probability(row.label).value, "of a week")
    (alone,) = asked_under(Quality(size=1e9), ["probability", "home"])(one, None)
    assert alone.note == note(SMALL, "points")


def test_rules_are_told_in_words():
    """What a table and a service say of them."""
    assert str(Quality(points=2.5, percent=50)) == "shares within ± 2.5 points, numbers of users within ± 50 %"
    assert note(WEEK, "%") == "of a week"


def test_releases_of_a_store_are_shown_under_rules():
    """A part of them has its weeks too: earlier slots are read for it. Releases stay whole."""
    store = dpi.MemoryStore()
    stream = dpi.Stream(domain=PAGES, epsilon=9, slot="day", start="2026-01-05", store=store)
    for _ in range(9):
        stream.release([f"user {n}" for n in range(60)], ["home", "cart", "help"] * 20)
    ruled = dpi.open(store).under(Quality(points=50, week=True))
    ((one, week),) = ruled.between(stream.next_slot - 1, None).shown()
    assert week is not None
    assert one == dpi.open(store).newest
    assert [week is None for _, week in ruled.shown()] == [True] * 6 + [False] * 3
    assert "note" in ruled.table().columns
    with pytest.raises(dpi.OptionError, match=r"^`points` leaves no share to show"):
        dpi.open(store).under(Quality(points=1e-9)).table()
