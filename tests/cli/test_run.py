import json
import re
import subprocess
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import dpi
from cli_files import ENVIRONMENT, PERIOD, rows
from dpi.cli._outfile import read_releases
from dpi.settings.rules import read_compression
from dpi.store.witness import Witness


def stored(path="visits.db", name=None):
    """The releases that a store holds, and its stream's options."""
    with dpi.open(path, name) as found:
        return list(found), found.store.streams()[found.name]


@pytest.mark.parametrize("out", ["releases.parquet", "releases.ndjson", "releases.jsonl"])
def test_the_out_file_holds_the_stored_releases(cli, visits, out):
    """Every slot of the period is released once, and the file has all of it, bit by bit."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", out)
    releases, _ = stored()
    assert [release.start_text[:13] for release in releases] == [f"2026-01-01T{hour:02d}" for hour in range(6)]
    assert read_releases(Path(out), [releases[0].domain]) == releases
    assert "6 slots released" in cli.stdout
    assert cli.stderr == ""  # no progress bar where nobody watches


@pytest.mark.parametrize("out", ["releases.parquet", "releases.ndjson"])
def test_a_second_run_goes_on(cli, visits, out):
    """Slots that are released are skipped and said to be; the file is that of one run over the whole period."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "visits.db", "--out", out)
    assert len(stored()[0]) == 2
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", out)
    assert "2 slots of the period are released already" in cli.stderr
    assert "4 slots released" in cli.stdout
    releases, _ = stored()
    once = Path(out).read_bytes()
    assert read_releases(Path(out), [releases[0].domain]) == releases
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", out)
    assert stored()[0] == releases
    assert Path(out).read_bytes() == once


def test_a_file_that_a_crash_has_cut_is_made_anew(cli, visits):
    """Half a line, or a line too many, is gone after the next run."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", "releases.ndjson")
    whole = Path("releases.ndjson").read_bytes()
    for damaged in (whole[:-100], whole + whole[:500], b""):
        Path("releases.ndjson").write_bytes(damaged)
        cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", "releases.ndjson")
        assert Path("releases.ndjson").read_bytes() == whole


def test_later_periods_go_into_files_of_their_own(cli, visits):
    """A run over a later period hands out that period alone."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "visits.db")
    cli(
        "run", *visits, "--from", "2026-01-01T02:00", "--to", "2026-01-01T06:00", "--store", "visits.db",
        "--out", "later.ndjson",
    )  # fmt: skip
    assert len(Path("later.ndjson").read_text().splitlines()) == 4


def test_no_slot_may_be_left_out(cli, visits):
    """A period that begins after the next slot, or before the stream, is refused."""
    cli("run", *visits, "--from", "2026-01-01T02:00", "--to", "2026-01-01T03:00", "--store", "visits.db")
    for begin, word in (("2026-01-01T04:00", "every slot is released"), ("2026-01-01", "begins at")):
        said = cli("run", *visits, "--from", begin, "--to", "2026-01-01T06:00", "--store", "visits.db", code=2)
        assert word in said
    assert len(stored()[0]) == 1


def test_every_option_reaches_the_stream(cli, visits):
    """What a stream certifies is what the command line says."""
    words = [word for word in visits if word not in ("--per-slot", "0.2")]
    cli(
        "run", *words, *PERIOD, "--store", "a.db", "--name", "first", "--config", "slots=4", "--config", "every=2",
        "--config", "period=3",
        "--zone", "Europe/Berlin", "--lateness", "5m", "--season", "2", "--config", "origin=2026-01-01",
        "--config", "not-returning=true",
    )  # fmt: skip
    releases, options = stored("a.db")
    told = json.loads(options)
    assert told["budget"] == {
        "kind": "ledger", "per_slot": "auto", "slots": 4, "every": 2, "policy": {"kind": "spend_first"}, "period": 3,
        "returning": False, "quota": None, "rest": None,
    }  # fmt: skip
    assert (told["mechanism"]["kind"], told["mechanism"]["season"]) == ("boosted", 2)
    assert (told["slots"]["zone"], told["slots"]["lateness"]) == ("Europe/Berlin", 300000000)
    assert (told["name"], told["start"]) == ("first", 0)
    assert releases[0].start_text == "2026-01-01T00:00:00+01:00"
    cli(
        "run", *words, *PERIOD, "--store", "b.db", "--config", "converging=spence:0.1,0.1", "--config",
        "draw=rba:1e3", "--config", "mechanism=published", "--config", "sign=none.pem", code=2,
    )  # fmt: skip
    cli("keys", "signing.pem")
    cli(
        "run", *words, *PERIOD, "--store", "b.db", "--config", "converging=spence:0.1,0.1", "--config",
        "draw=rba:1e3", "--config", "mechanism=published", "--config", "sign=signing.pem", "--witness", "seen",
        "--config", "key-file=elsewhere.key",
    )  # fmt: skip
    told = json.loads(stored("b.db")[1])
    assert told["budget"]["series"] == {"kind": "spence", "mu": "0.1", "zeta": "0.1"}
    assert told["budget"]["draw"] == {"kind": "rba", "rate": "1000"}
    assert told["mechanism"]["kind"] == "published"
    assert Path("elsewhere.key").exists()
    assert Witness(Path("seen")).read().sequence == 6
    assert cli.json("verify", "b.db", "--public-key", "signing.pub", "--witness", "seen")["signed"] is True


def test_rules_for_users_reach_the_stream(cli, visits):
    """Compression, policy and tree are certified, kept by a second run, and checked by the curator."""
    rules = [
        "--config",
        "compression=truncate:2",
        "--config",
        "policy=fade:zeta:3",
        "--config",
        "accumulate=tree:0.05,4,2",
    ]
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "visits.db", *rules)
    cli("run", *visits, *PERIOD, "--store", "visits.db", *rules)
    releases, options = stored()
    told = json.loads(options)
    assert told["compression"] == {"kind": "truncate", "c": 2}
    assert told["budget"]["policy"] == {"kind": "fade", "series": {"kind": "zeta", "s": "3"}}
    assert told["accumulate"] == {"kind": "prefix_tree", "per_slot": 54975581388, "arity": 4, "levels": 2}
    assert len(releases) == 6
    cli("verify", "visits.db", "--curator")
    for option, value in (
        ("--config", "compression=normalise"),
        ("--config", "policy=spend-first"),
        ("--config", "accumulate=slots"),
    ):
        at = rules.index(option)
        other = [*rules[:at], option, value, *rules[at + 2 :]]
        assert "other options" in cli("run", *visits, *PERIOD, "--store", "visits.db", *other, code=3)


def test_a_clocked_ledger_is_declared(cli, visits):
    """Payments by a public clock, on the command line and in a file alike; the default top class is not stated."""
    words = [word for word in visits if word not in ("--per-slot", "0.2")]
    cli("run", *words, *PERIOD, "--store", "clocked.db", "--config", "policy=clocked")
    cli("run", *words, *PERIOD, "--store", "lower.db", "--config", "policy=clocked:6")
    Path("dpi.toml").write_text('[run]\npolicy = "clocked:6"\n')
    cli("run", *words, *PERIOD, "--store", "file.db", "--config", "dpi.toml")
    for path, policy in (("clocked", {"top": 20}), ("lower", {"top": 6}), ("file", {"top": 6})):
        with dpi.open_store(f"{path}.db", read_only=True) as store:
            assert json.loads(store.streams()[""])["budget"]["policy"] == {"kind": "clocked", **policy}
        cli("verify", f"{path}.db", "--curator")


def test_the_key_of_truncate_is_made_of_the_stores():
    """Every run keeps the same events of a user, another store's others, and the accounts' key is not used for it."""
    make = partial(read_compression, "truncate:2")
    assert make(bytes(32)) == make(bytes(32)) != make(bytes([1] * 32))
    assert make(bytes(32)).key != bytes(32)


def test_a_run_says_which_budget_it_had(cli, visits):
    """Left alone, "auto" is told as what it came to; a second stream takes the ledger's, and a policy may be named."""
    words = [word for word in visits if word not in ("--per-slot", "0.2")]
    said = cli("run", *words, *PERIOD, "--store", "a.db", "--name", "one")
    assert "Budget: Ledger(policy=Clocked(top=20))." in said
    said = cli.json("run", *words, *PERIOD, "--store", "a.db", "--name", "two", "--config", "policy=auto")
    assert said["budget"] == "Ledger(policy=Clocked(top=20))"
    said = cli.json("run", *words, *PERIOD, "--store", "b.db", "--config", "policy=spend-first")
    assert said["budget"] == "Ledger(policy=SpendFirst())"


def test_streams_of_one_store(cli, visits):
    """A second stream shares the ledger; one with an ε of its own must say so."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--name", "one")
    said = cli.json("run", *visits, *PERIOD, "--store", "visits.db", "--name", "two")
    assert "all streams of this store together" in said["guarantee"]
    words = [word for word in visits if word not in ("--per-slot", "0.2")] + ["--config", "converging=zeta:2"]
    assert "`separate`" in cli("run", *words, *PERIOD, "--store", "visits.db", "--name", "three", code=2)
    said = cli.json("run", *words, *PERIOD, "--store", "visits.db", "--name", "three", "--config", "separate=true")
    assert "sum to 2 per user" in said["guarantee"]


def test_a_second_stream_must_have_a_name(cli, visits):
    """One without a name may be alone, or the first: a store of several is read by their names. It may go on."""
    run = ["run", *visits, "--from", "2026-01-01"]
    cli(*run, "--to", "2026-01-01T02:00", "--store", "named.db", "--name", "one")
    said = cli(*run, "--to", "2026-01-01T02:00", "--store", "named.db", code=2)
    assert said.endswith("dpi: error: `--name` is required: the store has stream 'one' already.\n")
    cli(*run, "--to", "2026-01-01T02:00", "--store", "first.db")
    cli(*run, "--to", "2026-01-01T02:00", "--store", "first.db", "--name", "two")
    cli(*run, "--to", "2026-01-01T03:00", "--store", "first.db")
    shown = cli("verify", "first.db")
    assert re.search(
        r"slots, the stream without a name +2026-01-01T00:00:00\+00:00 … 2026-01-01T02:00:00\+00:00", shown
    )
    assert re.search(r"slots, stream 'two' +2026-01-01T00:00:00\+00:00 … 2026-01-01T01:00:00\+00:00", shown)


def test_the_guarantee_is_printed_when_a_stream_is_declared(cli, visits):
    """Once, and not after every run that goes on; a document has it always."""
    run = ["run", *visits, "--from", "2026-01-01", "--store", "visits.db"]
    assert cli(*run, "--to", "2026-01-01T02:00").count("Pure differential privacy") == 1
    assert "Pure differential privacy" not in cli(*run, "--to", "2026-01-01T03:00")
    assert "Pure differential privacy" in cli.json(*run, "--to", "2026-01-01T04:00")["guarantee"]
    assert cli(*run, "--to", "2026-01-01T02:00", "--name", "two").count("Pure differential privacy") == 1


def test_a_stream_that_takes_newcomers_from_another_says_so(cli, visits):
    """Who shares the ε is said when a stream is declared: not of a stream with its own, and not a second time."""
    run = ["run", *visits[:-2], *PERIOD, "--store", "visits.db"]
    cli(*run, "--to", "2026-01-01T02:00", "--name", "one")
    assert "newcomers" not in cli(*run, "--name", "apart", "--config", "separate=true")
    cli(*run, "--to", "2026-01-01T02:00", "--name", "two")
    said = "later releases of stream 'one' have no numbers of newcomers, because the new stream shares its ε."
    assert cli.stderr == f"dpi: {said}\n"
    assert "newcomers" not in cli(*run, "--name", "two")
    assert "newcomers" not in cli(*run, "--name", "one")
    with dpi.open("visits.db", "one") as stored:
        assert [release.people is None for release in stored] == [False, False, True, True, True, True]


def test_what_is_lost_is_said_of_the_stream_and_of_the_store(cli, visits):
    """One stream's part is said to be that stream's, and the sum over the store stands beside it."""
    period = ("--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "visits.db")
    said = cli("run", *visits, *period, "--name", "one")
    assert "By this stream no user can have lost more than 0.4 so far." in said
    assert "spent by all of them" not in cli("verify", "visits.db")
    said = cli("run", *visits, *period, "--name", "two", "--config", "separate=true")
    words = "By this stream no user can have lost more than 0.4 so far; by all 2 streams of this store together, 0.8."
    assert words in said
    assert cli.json("verify", "visits.db")["epsilon_spent_by_all"] == pytest.approx(0.8)
    assert "spent by all of them" in cli("verify", "visits.db")
    assert words in cli("report", "visits.db", "--as", "review", "--stream", "one")
    assert words in " ".join(cli("serve", "top", "visits.db", "--every", "0").split())
    cli("report", "visits.db", "--stream", "one", "-o", "one.html")
    page = (cli.folder / "one.html").read_text()
    assert "Spent at most by this stream, per user" in page
    assert "Spent at most by all 2 streams of the store" in page


def test_a_change_is_certified(cli, visits):
    """Another domain in mid-stream needs `--change`; each release keeps the domain it was made for."""
    half = ["--from", "2026-01-01", "--to", "2026-01-01T03:00"]
    cli("run", *visits, *half, "--store", "visits.db")
    (cli.folder / "countries.txt").write_text("DE\nFR\n")
    assert "--change" in cli("run", *visits, *PERIOD, "--store", "visits.db", code=3)
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--change", "--out", "releases.ndjson")
    assert [release.domain.size for release in stored()[0]] == [4, 4, 4, 3, 3, 3]
    cli("report", "visits.db", "-o", "page.html")
    assert cli.stderr == ""
    other = "From 2026-01-01 00:00 to 2026-01-01 02:00 the domain was another; it has all rows."
    assert other in (cli.folder / "page.html").read_text(encoding="utf-8")
    cli("report", "visits.db", "-o", "page.html", "--to", "2026-01-01T03:00")
    assert cli.stderr == ""
    assert "4 values" in (page := (cli.folder / "page.html").read_text(encoding="utf-8"))
    assert "the domain was another" not in page
    assert "`--from`" in cli("report", "visits.db", "-o", "page.html", "--from", "2030-01-01", code=2)
    cli("verify", "visits.db")
    (cli.folder / "before.txt").write_text("DE\nFR\nIT\n")
    for file in ("releases.ndjson", "releases.parquet"):
        cli("run", *visits, *PERIOD, "--store", "visits.db", "--change", "--out", file)
        cli("verify", file, "--domain", "before.txt", "--domain", "countries.txt", "--other", "elsewhere")
        cli("verify", file, "--store", "visits.db")
        assert "domain" in cli("verify", file, "--domain", "countries.txt", "--other", "elsewhere", code=1)
    cli("export", "visits.db", "public.db")
    cli("verify", "public.db")


def test_products_take_a_column_for_each_part(cli, visits):
    """`--value part=column` for each part of a product; one that is missing is named."""
    cli("domain", "--list", "countries.txt", "-o", "countries.json")
    cli("domain", "--bins", "0:100:25", "-o", "ages.json")
    cli("domain", "--product", "land=countries.json", "--product", "age=ages.json", "-o", "pairs.json")
    words = ["visits.csv", "--time", "at", "--domain", "pairs.json", "--slot", "1h", "--epsilon", "1", *PERIOD]
    assert "--value land=COLUMN --value age=COLUMN" in cli("run", *words, "--store", "pairs.db", code=2)
    cli("run", *words, "--store", "pairs.db", "--value", "land=country", "--value", "age=age")
    assert stored("pairs.db")[0][-1].domain.size == 24
    assert len(cli.json("query", "pairs.db", "top", "2", "--part", "land", "--where", "age=30")["answers"]) == 1


def test_hashed_domains_need_their_key(cli, visits):
    """A hashed domain is read with its key file, and without it a run is refused."""
    cli("domain", "--hashed", "16", "--key-file", "urls.key", "-o", "urls.json")
    words = ["visits.csv", "--time", "at", "--value", "country", "--domain", "urls.json", "--slot", "1h"]
    words += ["--epsilon", "1", *PERIOD, "--store", "urls.db"]
    assert "without its key" in cli("run", *words, code=2)
    cli("run", *words, "--config", "domain-key=urls.key")
    assert cli.json("query", "urls.db", "probability", "DE", "--config", "domain-key=urls.key")["answers"]


def test_formats_agree(cli, visits):
    """The same rows as CSV, NDJSON and Parquet give streams with the same options."""
    table = pl.DataFrame(rows())
    table.write_parquet("visits.parquet")
    table.write_ndjson("visits.ndjson")
    told = set()
    for form in ("csv", "ndjson", "parquet"):
        cli("run", f"visits.{form}", *visits[1:], *PERIOD, "--store", f"{form}.db", "--config", "memory=10MB")
        releases, options = stored(f"{form}.db")
        told.add(options)
        assert len(releases) == 6
    assert len(told) == 1


def test_standard_input(cli, visits, warm):
    """Events can be piped in."""
    command = [*warm, "run", "-", "--config", "format=csv", *visits[1:], *PERIOD, "--store", "p.db"]
    with Path("visits.csv").open() as events:
        done = subprocess.run(command, stdin=events, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert "6 slots released" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("words", "left"), [((), "left 0.8 "), (("--ids", "exact"), "left 1 ")])
def test_spellings_of_one_name_are_one_account_unless_it_is_said_otherwise(cli, visits, words, left):
    """`dpi ledger` finds the user by any spelling; a rule that there is none of is refused."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--ids", "folded", code=2)
    assert "`--ids` must be exact or nfc-strip. Got 'folded'." in cli.stderr
    Path("visits.csv").write_text("user,at,country\nZoe\u0308 ,2026-01-01T00:30:00,DE\n", "utf-8")
    cli("run", *visits, *PERIOD, "--store", "visits.db", *words)
    cli("ledger", "visits.db", "--user", "Zoë")
    assert cli.stdout.startswith(left)
    cli("ledger", "visits.db", "--user", "Zoe\u0308 ")
    assert cli.stdout.startswith("left 0.8 ")
