"""Each kind of bad input: the exit code, one line that says what to do, and nothing private (the fixture looks)."""

import sqlite3
from pathlib import Path

import polars as pl
import pytest

import dpi
from cli_files import PERIOD, rows


def run(cli, visits, *more, code=0):
    """One line of error, or none."""
    said = cli("run", *visits, *more, "--store", "visits.db", code=code)
    if code:
        assert cli.stdout == ""
        assert cli.stderr.startswith("dpi: error: ")
        assert cli.stderr.count("\n") == 1
    return said


@pytest.mark.parametrize("option", ["--user", "--time", "--value"])
def test_a_missing_column_is_named(cli, visits, option):
    """A column that is not there is named, beside those that are, and no store is made."""
    at = visits.index(option) + 1 if option in visits else None
    words = [*visits, option, "nobody"] if at is None else [*visits[:at], "nobody", *visits[at + 1 :]]
    said = run(cli, words, *PERIOD, code=2)
    assert "'nobody'" in said
    assert "'country'" in said
    assert not Path("visits.db").exists()


def test_a_missing_file(cli, visits):
    """A file that is not there is wrong usage."""
    assert "Nothing is there: 'none.csv'" in run(cli, ["none.csv", *visits[1:]], *PERIOD, code=2)


def test_a_column_that_cannot_be_read(cli, visits):
    """A type that holds no values is refused as a whole; its rows are not shown."""
    pl.DataFrame(rows()).with_columns(pl.concat_list("country").alias("country")).write_parquet("lists.parquet")
    said = run(cli, ["lists.parquet", *visits[1:]], *PERIOD, code=2)
    assert "country" in said


def test_mixed_types_are_rows_like_others(cli, visits):
    """Integers, texts, holes and structures in one column: each row by itself, none refused."""
    lines = ['{"user": 1, "at": "2026-01-01T00:10", "country": "DE"}', '{"user": "1", "at": 5, "country": 7}']
    lines += ['{"user": {"secret-user": 1}, "at": null, "country": ["SECRET-VALUE"]}', "{broken SECRET-VALUE", "[1]"]
    Path("mixed.ndjson").write_text("\n".join(lines) + "\n")
    assert "6 slots released" in run(cli, ["mixed.ndjson", *visits[1:]], *PERIOD)


def test_broken_rows_are_dropped_by_themselves(cli, visits):
    """A file with rows that cannot be read, or a header alone, is released in full, and nothing tells how many."""
    assert "6 slots released" in run(cli, visits, *PERIOD)
    Path("visits.csv").write_text("user,at,country,age\n")
    assert "6 slots released" in cli("run", *visits, *PERIOD, "--store", "empty.db")


def test_numbers_need_a_unit(cli, visits):
    """Times that are numbers are refused without their unit, and read with it."""
    begin = 1_767_225_600
    pl.DataFrame({"user": [1, 2], "at": [begin, begin + 5], "country": ["DE", "FR"]}).write_parquet("n.parquet")
    assert "unit" in run(cli, ["n.parquet", *visits[1:]], *PERIOD, code=2)
    run(cli, ["n.parquet", *visits[1:]], *PERIOD, "--unit", "s")


def test_time_zones(cli, visits):
    """Times without a zone are in `--zone`; an unknown one is refused."""
    assert "zone" in run(cli, visits, *PERIOD, "--zone", "Europe/Atlantis", code=2)
    run(cli, visits, *PERIOD, "--zone", "Asia/Tokyo")
    assert cli.json("query", "visits.db", "top", "1", "--slot", "last")["answers"][0]["start"].endswith("+09:00")


def test_events_before_the_origin(cli, visits):
    """They lie outside the period and are dropped; slots before the origin have negative numbers."""
    run(cli, visits, *PERIOD, "--config", "origin=2026-01-01T03:00")
    assert cli.json("query", "visits.db", "total")["answers"][0]["slot"] == 2


@pytest.mark.parametrize("period", [(), ("--from", "2026-01-01"), ("--to", "2026-01-02")])
def test_no_period(cli, visits, period):
    """Without a public period nothing is read, and the text says why."""
    assert "never read off the data" in run(cli, visits, *period, code=2)
    assert not Path("visits.db").exists()


@pytest.mark.parametrize(
    ("begin", "end", "word"),
    [("2026-01-01T00:30", "2026-01-02", "boundary"), ("2026-01-02", "2026-01-01", "after"), ("x", "y", "ISO 8601")],
)
def test_odd_periods(cli, visits, begin, end, word):
    """A period that is no period of slots is refused."""
    assert word in run(cli, visits, "--from", begin, "--to", end, code=2)


def test_another_epsilon(cli, visits):
    """A second run with another ε on the same store is refused; the store stays as it is."""
    run(cli, visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00")
    before = cli.json("verify", "visits.db")
    said = run(cli, [*visits, "--epsilon", "2"], *PERIOD, code=3)
    assert "stored is ε = 1, given is ε = 2" in said
    assert cli.json("verify", "visits.db") == before


def test_a_newer_store(cli, visits):
    """A store of a newer program is refused by every command."""
    run(cli, visits, *PERIOD)
    with sqlite3.connect("visits.db") as database:
        database.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
    database.close()
    assert "newer version" in run(cli, visits, *PERIOD, code=3)
    for words in (["report"], ["query", "top", "1"], ["verify"]):
        assert "newer version" in cli(words[0], "visits.db", *words[1:], code=3)


def test_no_store(cli):
    """A store that is not there, or is something else, is refused in one line."""
    Path("text.db").write_text("SECRET-VALUE" * 1000)
    for words in (["report"], ["query", "top", "1"], ["verify"], ["ledger", "--user", "ada"]):
        assert "there is no store" in cli(words[0], "none.db", *words[1:], code=3)
        if words[0] != "ledger":  # which looks for its key first
            assert "no store of dpi" in cli(words[0], "text.db", *words[1:], code=3)


def test_a_lost_key(cli, visits):
    """Without its key a store is read, not continued; the text says what to do."""
    run(cli, visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00")
    key = Path("visits.db.key").read_bytes()
    Path("visits.db.key").unlink()
    assert "Put it back from your backup" in run(cli, visits, *PERIOD, code=3)
    assert "is missing" in cli("ledger", "visits.db", "--user", "ada", code=3)
    cli("query", "visits.db", "top", "2")
    cli("verify", "visits.db")
    Path("visits.db.key").write_bytes(b"00" * 32)
    assert "may be read by others" in run(cli, visits, *PERIOD, code=3)
    Path("visits.db.key").chmod(0o600)
    assert "not the one this store was made with" in run(cli, visits, *PERIOD, code=3)
    Path("visits.db.key").write_bytes(key)
    run(cli, visits, *PERIOD)


def test_a_busy_store(cli, visits):
    """One process writes at a time; `--wait` waits."""
    with dpi.open_store("visits.db"):
        assert "another process writes" in run(cli, visits, *PERIOD, "--config", "wait=0.1", code=3)
    run(cli, visits, *PERIOD)


def test_domain_files(cli, visits):
    """What is wrong with one is told by its lines' numbers: a file that is no domain may be private."""
    Path("countries.txt").write_text("DE\nFR\nDE\n")
    assert "lines 1 and 3 are the same" in run(cli, visits, *PERIOD, code=2)
    Path("countries.txt").write_text("\n\n")
    assert "holds no values" in run(cli, visits, *PERIOD, code=2)
    Path("countries.txt").unlink()
    assert "countries.txt cannot be read" in run(cli, visits, *PERIOD, code=2)


@pytest.mark.parametrize(
    "more",
    [
        ("--epsilon", "much"), ("--epsilon", "0"), ("--per-slot", "2"), ("--config", "slots=3"), ("--config",
        "every=0"),
        ("--config", "converging=zeta:2"), ("--config", "draw=rba:1"), ("--config", "mechanism=large"), ("--config",
        "memory=some"),
        ("--slot", "1x"),
        ("--out", "releases.csv"), ("--out", "nowhere/releases.ndjson"), ("--follow", "--out", "releases.parquet"),
        ("--season", "x"), ("--value", "a", "--value", "b"), ("--config", "format=xml"),
    ],
)  # fmt: skip
def test_wrong_options(cli, visits, more):
    """An option out of its range is wrong usage."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", *more, code=2)
    assert cli.stdout == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--config", "compression=cut"), "`compression` must be normalise, truncate:C or whole-pdf"),
        (("--config", "compression=truncate:-1"), "`c` must be a whole number from 1 to 2^24. Got -1"),
        (("--config", "compression=truncate:0"), "`c` must be a whole number from 1 to 2^24. Got 0"),
        (("--config", "compression=whole-pdf"), "use `normalise`"),
        (("--config", "accumulate=tree"), "`accumulate` must be slots, tree:PER_SLOT or tree:PER_SLOT,ARITY,LEVELS"),
        (("--config", "accumulate=tree:much"), "`accumulate`: `per_slot` must be"),
        (("--config", "accumulate=tree:0.1,1,3"), "`arity` must be a whole number from 2 to 1000. Got 1"),
        (("--config", "accumulate=tree:0.1,x,3"), "for example tree:0.025. Got 'tree:0.1,x,3'"),
        (
            ("--config", "policy=thrift"),
            "`policy` must be auto, spend-first, fade, fade:SERIES, clocked or clocked:TOP",
        ),
        (("--config", "policy=spend-first:2"), "Got 'spend-first:2'"),
        (("--config", "policy=clocked:slowly"), "Got 'clocked:slowly'"),
        (("--config", "policy=clocked:0"), "`top` must be a whole number from 1 to 40. Got 0."),
        (("--config", "policy=fade:slowly"), "`policy` must be log-squared, zeta:S, geometric:R or spence:MU,ZETA"),
    ],
)
def test_a_wrong_rule_is_told_what_is_right(cli, visits, more, said):
    """An unknown rule, or a number out of its range, names what is expected, and makes no release."""
    assert said in run(cli, visits, *PERIOD, *more, code=2)
    assert cli.stdout == ""


def test_a_series_has_no_policy(cli, visits):
    """Where there are no accounts, nobody spends from them."""
    words = [word for word in visits if word not in ("--per-slot", "0.2")]
    assert "`policy`" in run(cli, words, *PERIOD, "--config", "converging=zeta:2", "--config", "policy=fade", code=2)
    assert "`not-returning`" in run(
        cli, words, *PERIOD, "--config", "converging=zeta:2", "--config", "not-returning=true", code=2
    )


def test_an_old_copy_of_the_store(cli, visits):
    """With a witness an old copy is refused, or continued with every account charged."""
    half = ("--from", "2026-01-01", "--to", "2026-01-01T02:00", "--witness", "seen")
    run(cli, visits, *half)
    old = Path("visits.db").read_bytes()
    run(cli, visits, *PERIOD, "--witness", "seen")
    Path("visits.db").write_bytes(old)
    assert "charge-lost" in run(cli, visits, *PERIOD, "--witness", "seen", code=3)
    later = ("--from", "2026-01-01T06:00", "--to", "2026-01-01T07:00")
    assert "the store is an old copy" in cli("verify", "visits.db", "--witness", "seen", code=1)
    run(cli, visits, *later, "--witness", "seen", "--config", "charge-lost=true")
    assert cli.json("ledger", "visits.db", "--user", "nobody")["left"] == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_events_are_not_replaced_by_releases(cli, visits, form):
    """An `--out` that is there and holds no releases, such as the events themselves, stays as it is."""
    table = pl.DataFrame(rows())
    table.write_parquet("visits.parquet")
    table.write_ndjson("visits.ndjson")
    before = Path(f"visits.{form}").read_bytes()
    said = run(cli, [f"visits.{form}", *visits[1:]], *PERIOD, "--out", f"visits.{form}", code=2)
    assert "it is not replaced" in said
    assert not Path("visits.db").exists()
    assert Path(f"visits.{form}").read_bytes() == before
    run(cli, visits, *PERIOD)
    assert "must end in .html" in cli("report", "visits.db", "-o", "visits.db", code=2)


def test_a_fault_shows_no_rows(cli, visits, monkeypatch):
    """An error that nobody thought of is told by type and place: its text could hold a row."""

    def broken(*_, **__):
        raise RuntimeError("secret-user-1")

    monkeypatch.setattr(dpi.Stream, "play", broken)
    assert "a fault of this program: RuntimeError at test_bad_input.py" in run(cli, visits, *PERIOD, code=70)
