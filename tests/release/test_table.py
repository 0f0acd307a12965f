"""The tidy table: each row is what a question about its value answers; groups have the interval of a sum."""

import math

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.release import table as tables
from dpi.settings.questions import asked
from made_releases import release, releases, without_total

PAGES = dpi.Categories(["home", "cart", "help"], other="elsewhere")
HOURS = dpi.Slots("1h", origin="2026-03-01T00:00Z", zone="Europe/Berlin")
COLUMNS = [
    "slot", "start", "end", "value", "share", "lower", "upper", "users", "lower_users", "upper_users",
    "newcomers", "lower_newcomers", "upper_newcomers", "returning", "lower_returning", "upper_returning",
    "reach", "lower_reach", "upper_reach", "active_7", "lower_active_7", "upper_active_7", "active_28",
    "lower_active_28", "upper_active_28", "measured_at", "carried", "payers", "epsilon_spent", "certificate",
]  # fmt: skip


def tidy(made, *more):
    """Return the table of releases without a week."""
    return tables.tidy([(each, None) for each in made], *more)


def test_rows_are_what_questions_answer():
    """Shares to the bit, users to the last digits: there is one definition of every interval."""
    made = releases(PAGES, 3)
    table = tidy(made, HOURS)
    assert table.columns == COLUMNS
    assert table.height == 3 * PAGES.size
    for row in table.iter_rows(named=True):
        (of,) = (each for each in made if each.slot == row["slot"])
        (share,), (users,) = asked(["probability", row["value"]])(of), asked(["count", row["value"]])(of)
        assert (row["share"], row["lower"], row["upper"]) == (share.value, share.lower, share.upper)
        found = row["users"], row["lower_users"], row["upper_users"]
        assert found == pytest.approx((users.value, users.lower, users.upper), rel=1e-12)


def test_every_row_of_a_slot_has_its_people():
    """Newcomers, returning users and reach with their intervals, or null where they cannot be told."""
    people = {"newcomers": 5.0, "newcomers_variance": 9.0, "returning": 90.0, "returning_variance": 16.0}
    people |= {"reach": 300.0, "reach_variance": 25.0, "active_7": 200.0, "active_7_variance": 16.0}
    rng = np.random.default_rng(1)
    made = [release(PAGES, 0, rng, people=people), release(PAGES, 1, rng)]
    table = tidy(made, HOURS)
    assert table["active_28"].null_count() == table.height
    for name in ("newcomers", "returning", "reach", "active_7"):
        (row,) = asked(name.split("_"))(made[0])
        found = table.select("slot", name, f"lower_{name}", f"upper_{name}").unique(maintain_order=True).rows()
        assert found == [(0, row.value, row.lower, row.upper), (1, None, None, None)]


def test_times_are_those_of_the_clock():
    """A slot's beginning and end, and when its picture was measured: two slots before, on average."""
    rng = np.random.default_rng(1)
    made = [release(PAGES, 5, rng, carried=0.5, age=4.0, certificate={"digest": "c0ffee"})]
    row = tidy(made, HOURS).row(0, named=True)
    assert row["start"].isoformat() == "2026-03-01T06:00:00+01:00"
    assert (row["end"] - row["start"]).total_seconds() == 3600
    assert (row["end"] - row["measured_at"]).total_seconds() == 2 * 3600
    assert (row["carried"], row["certificate"], row["epsilon_spent"]) == (0.5, "c0ffee", made[0].epsilon_spent)


def test_a_stream_without_clock_or_total():
    """What is not known is null, never a number."""
    table = tidy(without_total(PAGES, 2), None)
    assert table["users"].null_count() == table["upper_users"].null_count() == table["end"].null_count() == 8
    assert table["share"].null_count() == 0
    assert tidy([], None).schema == table.schema


def test_a_group_has_the_variance_of_its_sum():
    """Errors are independent but for their sum: the interval is wider than one value's, and narrower than ends' sums.

    All values together are all users: nothing is uncertain but their number.
    """
    made = releases(PAGES, 4)
    rows = tidy(made, HOURS)
    groups = {"shop": ["home", "cart"], "help": ["help"], "all": ["home", "cart", "help", "elsewhere"]}
    table = tidy(made, HOURS, groups)
    assert table["value"].unique(maintain_order=True).to_list() == [*groups]
    for of in made:
        one = rows.filter(slot=of.slot, value="help").select(COLUMNS[4:10]).row(0)
        assert table.filter(slot=of.slot, value="help").select(COLUMNS[4:10]).row(0) == one
        shop = table.filter(slot=of.slot, value="shop").row(0, named=True)
        pair = rows.filter(pl.col("slot") == of.slot, pl.col("value").is_in(["home", "cart"]))
        assert shop["share"] == pytest.approx(pair["share"].sum())
        assert shop["upper"] - shop["lower"] < pair["upper"].sum() - pair["lower"].sum()
        chosen = np.array([1.0, 1.0, 0.0, 0.0])
        error = of._linear(chosen).error  # Σ v(c - c̄)², as `range` has it
        half = 1.959964 * math.hypot(error * of.total, shop["share"] * math.sqrt(of.total_variance))
        assert shop["upper_users"] - shop["users"] == pytest.approx(half, rel=1e-6)
        everybody = table.filter(slot=of.slot, value="all").row(0, named=True)
        (total,) = asked(["total"])(of)
        found = everybody["users"], everybody["lower_users"], everybody["upper_users"]
        assert found == pytest.approx((total.value, total.lower, total.upper), rel=1e-9)


def test_a_part_of_a_product():
    """Rows are those of the part, with the shares of its marginal."""
    domain = dpi.Product(land=dpi.Categories(["DE", "FR"], other="elsewhere"), age=dpi.Bins([18, 65]))
    made = releases(domain, 2)
    table = tidy(made, HOURS, "land")
    assert table["value"].to_list() == ["DE", "FR", "elsewhere"] * 2
    assert table["share"].to_numpy() == pytest.approx(np.concatenate([each.marginal("land").pdf for each in made]))
    pair = tidy(made, HOURS, {"young in DE": [{"land": "DE", "age": 20}]})
    assert pair["share"][0] == made[0].probability({"land": "DE", "age": 20}).value


def test_slots_whose_domain_lacks_a_value_have_no_rows():
    """As with `dpi query`; refused where that is so of all."""
    more = dpi.Categories(["home", "cart", "help", "offer"], other="elsewhere")
    made = [*releases(PAGES, 2), *releases(more, 4)[2:]]
    assert tidy(made, HOURS)["value"].value_counts().filter(value="offer")["count"].to_list() == [2]
    assert tidy(made, HOURS, {"both": ["home", "offer"]})["slot"].to_list() == [2, 3]
    for wrong in ({"none": ["nowhere"]}, {}, {"empty": []}, "land", {"text": "home"}):
        with pytest.raises(dpi.OptionError):
            tidy(made, HOURS, wrong)


def test_a_stream_has_its_table():
    """Of a store, of a period of it, and as any Arrow library takes it."""
    store = dpi.MemoryStore()
    with dpi.Stream(domain=PAGES, epsilon=1, slot="1h", start="2026-01-01", store=store) as stream:
        for _ in range(3):
            stream.release(["ada", "bob"], ["home", "cart"])
    stored = dpi.open(store)
    assert stored.table().height == 12
    part = stored["2026-01-01T01:00":].table()
    assert part["slot"].n_unique() == 2
    assert "certificate" not in part.columns  # 64 digits in each row; files and the service's tables have it
