"""`dpi table` and rules of what is shown: what is good enough has a number, everything else a reason."""

import json
from pathlib import Path

import polars as pl
import pytest

import dpi
from cli_files import PERIOD
from dpi.settings.quality import read_quality


@pytest.fixture
def store(cli, visits):
    """A store with some hours."""
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    return "visits.db"


def made():
    """The files of the folder, but for those of the store."""
    return {path.name for path in Path().iterdir() if not path.name.startswith("visits.db")}


def test_a_table_is_that_of_the_library(cli, store):
    """Printed, as JSON and as files; of the last slot unless a period is given."""
    with dpi.open(store) as stored:
        whole = stored.table()
        last = stored.between(stored.newest.slot, None).table()
    assert cli.json("table", store)["rows"] == json.loads(last.write_json())
    assert cli("table", store).splitlines()[0].split() == [
        "slot", "value", "share", "95", "%", "interval", "users", "95", "%", "interval",
    ]  # fmt: skip
    assert cli.json("table", store, *PERIOD, "-o", "all.parquet")["rows"] == whole.height
    assert pl.read_parquet("all.parquet").equals(whole)
    assert "4 rows" in cli("table", store, "--out", "last.csv")
    assert pl.read_csv("last.csv")["value"].to_list() == last["value"].to_list()
    assert "exists already" in cli("table", store, "--out", "last.csv", code=2)
    assert not Path("last.csv-metadata.json").exists()


def test_rules_hold_in_tables_questions_and_exports(cli, store):
    """The same cells are shown everywhere; the others say the same."""
    with dpi.open(store) as stored:
        whole = stored.table()
        points = 100 * (whole["upper"] - whole["share"]).median()
        rules = f"points={points},percent=200,week"
        shown = stored.under(read_quality(rules)).table()
    assert 0 < shown["share"].null_count() < shown.height
    assert cli.json("table", store, *PERIOD, "--quality", rules)["rows"] == json.loads(shown.write_json())
    cli("export", store, "shown", "--as", "parquet", "--quality", rules)
    exported = pl.read_parquet("shown/").sort("slot", maintain_order=True)
    assert exported.select("slot", "value", "share", "users", "note").equals(
        shown.select("slot", "value", "share", "users", "note")
    )
    for row in shown.head(8).iter_rows(named=True):
        ((answer,),) = (
            each["rows"]
            for each in cli.json(
                "query", store, "probability", row["value"], "--slot", row["slot"], "--quality", rules
            )["answers"]
        )
        assert answer["value"] == row["share"]
        assert answer.get("note", "") == row["note"].partition("; users")[0].partition("users")[0]
    said = cli("query", store, "top", "3", *PERIOD, "--quality", "points=0.1")
    assert "not shown: ± " in said


def test_a_table_goes_on_under_its_own_rules(cli, store):
    """One that was begun under other rules, or none, gets nothing."""
    cli("export", store, "shown", "--as", "parquet", "--quality", "points=6")
    for more in ((), ("--quality", "points=5")):
        said = cli("export", store, "shown", "--as", "parquet", *more, code=2)
        assert "under other rules (shares within ± 6 points)" in said
    assert "0 slots added" in cli("export", store, "shown", "--as", "parquet", "--quality", "points=6")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("table", "--quality", "points=-2"), "`points` must be a number above 0: with -2.0 nothing would be shown."),
        (("table", "--quality", "points=0.0001"), "`points` leaves no share to show: every interval is wider."),
        (("query", "total", "--quality", "week"), "`week` replaces what is too noisy: give `points` or `percent`"),
        (("query", "total", "--quality", "wide"), "`--quality` must be rules such as points=10"),
        (("query", "--alerts", "--quality", "size=9"), "`--quality` is for questions: alerts are made of whole"),
        (("table", "--stream", "nobody"), "`--stream` must be one of: "),
        (("table", "--as", "lines"), "`--as` must be table or rows. Got 'lines'."),
        (("table", "--number", "5"), "`--number` is for `--as rows`."),
        (("table", "--as", "rows", "--number", "0"), "`--number` must be from 1 to 100,000,000 rows. Got 0."),
        (("table", "--as", "rows", "--quality", "size=9"), "synthetic rows are of one `--slot`, and follow no rules"),
        (("table", "--out", "visits.xlsx"), "`--out` must end in .parquet or .csv."),
        (("table", "--slot", "7"), "is not in the store"),
        (("export", "all.db", "--quality", "points=1"), "`--quality` is for a table: releases of a store are whole."),
    ],
)
def test_what_cannot_be_is_one_plain_sentence(cli, store, words, says):
    """It names the option, and no file is made."""
    before = made()
    command, *more = words
    assert says in cli(command, store, *more, code=2)
    assert cli.stderr.count("\n") == 1
    assert made() == before


def test_a_week_needs_a_clock(cli):
    """Slots of a stream without one are no days."""
    with dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store="clockless.db") as stream:
        stream.release(["ada"], ["a"])
    said = cli("table", "clockless.db", "--quality", "points=10,week", code=2)
    assert "`week` needs a stream with a clock and a time zone, and this one has none." in said


def test_synthetic_rows_are_marked(cli, store):
    """In their columns and their metadata: in the file itself, or beside a text."""
    assert cli.json("table", store, "--as", "rows", "--number", 500) == {"file": "visits-rows.parquet", "rows": 500}
    rows, said = pl.read_parquet("visits-rows.parquet"), pl.read_parquet_metadata("visits-rows.parquet")["dpi"]
    assert rows.columns == ["value", "users", "synthetic"]
    assert rows["synthetic"].all()
    with dpi.open(store) as stored:
        last = stored.newest
    assert rows["users"].sum() == pytest.approx(last.total)
    cli("table", store, "--as", "rows", "--number", 500, "-o", "rows.csv")
    beside = json.loads(Path("rows.csv-metadata.json").read_text())
    assert beside == json.loads(said)
    assert (beside["synthetic"], beside["slot"], beside["rows"]) == (True, last.slot, 500)
    assert pl.read_csv("rows.csv")["value"].equals(rows["value"])
