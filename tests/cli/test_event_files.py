from pathlib import Path

import pytest

from cli_files import PERIOD


@pytest.fixture
def tabbed(visits):
    """The same visits without a header, and with tabs."""
    text = Path("visits.csv").read_text().partition("\n")[2]
    Path("plain.txt").write_text(text.replace(",", "\t"))
    words = [
        "plain.txt",
        "--config",
        "format=csv",
        "--config",
        r"separator=\t",
        "--config",
        "columns=user,at,country,age",
    ]
    return [*words, *visits[1:]]


def test_a_run_needs_no_header(cli, visits, tabbed):
    r"""`--columns` names the columns of a file without a header, and `\t` is a tab: the same events are counted."""
    generous = ("--epsilon", "1000", "--per-slot", "100")
    totals = []
    for words, store in ((visits, "one.db"), (tabbed, "two.db")):
        cli("run", *words, *PERIOD, *generous, "--store", store)
        found = cli.json("query", store, "total", "--from", "2026-01-01", "--to", "2026-01-02")["answers"]
        totals.append([round(answer["rows"][0]["value"]) for answer in found])
    assert totals[0] == totals[1]  # half a user of noise has a probability below 10⁻²⁰
    assert sum(totals[0]) > 0


def test_a_comparison_needs_no_header(cli, tabbed):
    """`compare` reads events as `run` does."""
    events = [*tabbed[: tabbed.index("--epsilon")], *PERIOD, "--config", "rows=40"]
    (found,) = cli.json("compare", "noisy", *events, "--epsilon", "1000", "--config", "cap=4")["comparisons"]
    assert max(found["courses"]["noisy"]["l1"][:4]) < 0.01  # a false alarm has a probability below 10⁻⁹


def test_wrong_columns_are_told_by_their_option(cli, visits, tabbed):
    """The options are named, and nothing of the file is."""
    words = [*tabbed, "--config", "columns=a,b,c,d"]
    assert "`columns` must name the columns of 'plain.txt'" in cli("run", *words, *PERIOD, "--store", "s.db", code=2)
    assert "`separator` must be one character" in cli(
        "run", *visits, "--config", "separator=ab", *PERIOD, "--store", "s.db", code=2
    )
    assert not Path("s.db").exists()


def test_weeks_and_months_are_slots(cli, visits):
    """A run by weeks of the calendar or by seven days; the store is asked by time, and tells where weeks begin."""
    at = visits.index("--slot")
    words = [*visits[:at], *visits[at + 2 :]]
    week = ("--from", "2025-12-29", "--to", "2026-01-05")
    said = cli("run", *words, "--slot", "week", "--from", "2026-01-01", "--to", "2026-01-05", "--store", "w.db", code=2)
    assert "2025-12-29T00:00:00+00:00" in said
    cli("run", *words, "--slot", "week", *week, "--store", "w.db", "--lateness", "1h")
    (answer,) = cli.json("query", "w.db", "total", "--from", "2025-12-29", "--to", "2026-02-01")["answers"]
    assert answer["start"] == "2025-12-29T00:00:00+00:00"
    said = cli("run", *words, "--slot", "1w", *week, "--store", "f.db", code=2)
    assert "`origin`" in said
    cli("run", *words, "--slot", "1w", "--config", "origin=2025-12-29", *week, "--store", "f.db")
    plan = ("plan", "--epsilon", "1", "--users", "900", "--bins", "20")
    assert "after 210 days" in cli(*plan, "--slot", "week")
