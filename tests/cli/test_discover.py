"""`dpi domain --discover`: from events without a list of values to a domain that `dpi run` takes, in one store."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT, PROGRAM

PERIOD = ("--slot", "day", "--from", "2026-01-01", "--to", "2026-01-02", "--config", "failure=1e-9")
"""With the probability of a false alarm: that of a value which nobody has, and which is shown."""
STORE = ("--store", "visits.db", "--epsilon", "1")
FILE = ("visits.csv", "--time", "at", "--value", "country")


@pytest.fixture
def events(cli):
    """Three countries of 300 users each, and a value of one user's own in every row besides."""
    lines = ["user,at,country"]
    for user in range(900):
        lines.append(f"secret-user-{user},2026-01-01T0{user % 10}:10,{('DE', 'FR', 'IT')[user % 3]}")
        lines.append(f"secret-user-{user},2026-01-01T0{user % 10}:20,SECRET-VALUE-{user}")
    lines.append("secret-user-broken,1999-12-31")
    (cli.folder / "visits.csv").write_text("\n".join(lines) + "\n")
    return cli.folder


def test_from_events_without_a_list_to_releases(cli, events):
    """Discovery, the run that uses its domain, and the chain of both; a user pays ε in all."""
    found = cli.json("domain", "--discover", *FILE, *PERIOD, *STORE, "--config", "quota=0.4", "-o", "countries.json")
    assert (list(found["users"]), found["bins"], found["failure"]) == (["DE", "FR", "IT"], 4, 1e-9)
    assert "quota of 0.4" in found["guarantee"]
    said = cli(
        "run", *FILE, *STORE, "--domain", "countries.json", "--slot", "1h", "--from", "2026-01-01", "--to",
        "2026-01-01T03:00",
    )  # fmt: skip
    assert "at most the remaining 0.6" in said
    checked = cli.json("verify", "visits.db", "--curator")
    assert checked["whole"]
    assert checked["epsilon_spent"]["discovery"] == pytest.approx(0.4)
    assert sum(checked["epsilon_spent"].values()) <= 1
    assert "DE" in cli("query", "visits.db", "top", "4")  # beside a discovery, the run is meant


def test_the_same_command_again_pays_nothing_and_writes_the_same(cli, events):
    """What was found is read from the store."""
    words = ("domain", "--discover", *FILE, *PERIOD, *STORE, "-o", "countries.json")
    assert "DE" in cli(*words, "--config", "quota=0.4")
    first = Path("countries.json").read_bytes()
    Path("countries.json").unlink()
    assert "they cost nothing now" in cli(*words, "--config", "quota=0.4")
    assert Path("countries.json").read_bytes() == first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*FILE, *PERIOD), "give `--store`"),
        ((*FILE, *PERIOD, "--store", "visits.db"), "`--epsilon`"),
        ((*FILE, *STORE), "the period is public"),
        ((*FILE, *STORE, *PERIOD[:2]), "the period is public"),
        ((*PERIOD, *STORE), "name the files"),
        ((*FILE, *STORE, *PERIOD, "--config", "alphabet=runes"), "`alphabet` must be one of"),
        ((*FILE, *STORE, *PERIOD, "--config", "characters="), "`characters` must be"),
        ((*FILE, *STORE, *PERIOD, "--config", "characters=€", "--config", "length=2"), "`length` is too short"),
        ((*FILE, *STORE, *PERIOD, "--config", "length=4000"), "`length`"),
        ((*FILE, *STORE, *PERIOD, "--config", "quota=1.5"), "`quota`"),
        ((*FILE, *STORE, *PERIOD, "--config", "quota=1e-10"), "larger `quota`"),
        ((*FILE, *STORE, *PERIOD, "--config", "failure=0"), "`failure`"),
        ((*FILE, *STORE, *PERIOD, "--config", "most=0"), "`most`"),
        ((*FILE[:-1], "town", *STORE, *PERIOD), "must have a column 'town'"),
        ((*FILE, *STORE, *PERIOD, "--list", "countries.txt"), "give either values"),
        ((*FILE, *STORE, *PERIOD, "-o", "notes.json"), "is no domain file"),
        ((*FILE, *STORE, *PERIOD, "--config", "sign=none.key"), "no signing key"),
        (("nowhere.csv", *STORE, *PERIOD), "nowhere.csv"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(cli, events, words, said):
    """One line that says what to do, before a store or a key is made or a user has paid."""
    Path("notes.json").write_text("[]")
    assert said in " ".join(cli("domain", "--discover", *words, code=2).split())
    assert {path.name for path in events.iterdir()} == {"visits.csv", "notes.json"}


def test_a_store_is_for_discovery_alone(cli):
    """Any other domain is made of public things."""
    assert "is for `--discover`" in cli("domain", "a", "b", "--store", "visits.db", code=2)


def test_nothing_found_is_said_and_what_helps_does(cli, events):
    """The exit code tells a script not to go on; another name looks again in the same store, and ε holds all."""
    words = ("domain", "--discover", *FILE, *PERIOD, *STORE)
    said = " ".join(cli(*words, "--config", "quota=0.01", code=1).split())
    assert "no value was found" in said
    assert "of 32 bytes" in said
    assert "another `name`" in said
    assert "never with a new store" in said
    assert not Path("domain.json").exists()
    assert "change" not in cli(*words, "--config", "quota=0.4", code=3)
    found = cli.json(*words, "--config", "quota=0.4", "--config", "name=again")
    assert list(found["users"]) == ["DE", "FR", "IT"]
    assert found["failure_of"] == "one slot"
    assert sum(cli.json("verify", "visits.db", "--curator")["epsilon_spent"].values()) <= 1


def test_a_value_does_not_command_the_terminal(cli):
    """Direction marks and the like are written out where people read them, and kept in the file."""
    rows = [f"user-{n},2026-01-01T01:00,\u202eDE" for n in range(600)]
    Path("visits.csv").write_text("\n".join(["user,at,country", *rows]) + "\n")
    said = cli("domain", "--discover", *FILE, *PERIOD, *STORE, "--config", "quota=0.4")
    assert "\\u202eDE" in said
    assert "\u202e" not in said
    assert json.loads(Path("domain.json").read_text())["values"] == ["\u202eDE"]


def test_characters_and_a_length_of_ones_own(cli, events):
    """A narrower universe needs fewer users; values outside of it are not found."""
    words = ("domain", "--discover", *FILE, *PERIOD, *STORE, "--config", "length=2", "--config", "characters=DEFR")
    found = cli.json(*words, "--config", "quota=0.4")
    assert list(found["users"]) == ["DE", "FR"]
    assert found["thresholds"]["2"] < 65  # among texts of all characters, 83


def test_an_interruption_ends_in_one_line_and_the_same_command_goes_on(cli, events):
    """Ctrl-C while events come in by a pipe: nobody has paid, and nothing is torn."""
    words = ("domain", "--discover", "-", *FILE[1:], "--config", "format=csv", *PERIOD, *STORE, "--config", "quota=0.4")
    with subprocess.Popen(
        [*PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as started:
        started.stdin.write(Path("visits.csv").read_bytes())
        started.stdin.flush()
        while not Path("visits.db").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(started.pid, signal.SIGINT)
        said = started.stderr.read().decode()
        assert started.wait(60) == 130, said
    assert said.startswith("dpi: stopped")
    assert len(said.splitlines()) == 1
    found = cli.json("domain", "--discover", *FILE, *PERIOD, *STORE, "--config", "quota=0.4")
    assert list(found["users"]) == ["DE", "FR", "IT"]
    assert json.loads(Path("domain.json").read_text())["values"] == ["DE", "FR", "IT"]


def test_one_user_more_changes_nothing_that_is_said(cli):
    """Among few users nothing passes: with and without one of them, with odd rows, the same words, code and files."""

    def told(rows):
        folder = cli.folder / f"{len(rows)}"
        folder.mkdir()
        os.chdir(folder)
        Path("visits.csv").write_text("\n".join(["user,at,country", *rows]) + "\n")
        said = cli("domain", "--discover", *FILE, *PERIOD, *STORE, code=1)
        again = cli("domain", "--discover", *FILE, *PERIOD, *STORE, code=1)
        other = cli("domain", "--discover", *FILE, *PERIOD, *STORE, "--config", "length=9", code=3)
        return said, again, other, sorted((path.name, oct(path.stat().st_mode)) for path in folder.iterdir())

    others = [f"secret-user-{n},2026-01-01T01:00,DE" for n in range(9)]
    mine = ["secret-user-odd,2026-01-01T01:00," + "SECRET-VALUE" * n for n in (0, 1, 9, 400)]
    mine += ["secret-user-odd,SECRET-VALUE,DE", '"secret-user-odd', "secret-user-odd"]
    assert told(others) == told([*mine, *others, *mine])


def test_a_stream_that_finds_its_values(cli, tmp_path):
    """`--domain discover` runs from a file, lists what many users have, and goes on where it stopped."""
    rows = ["user,time,page", *(f"u{n},2026-01-{1 + n % 2:02d}T10:00,/home" for n in range(2000))]
    (tmp_path / "visits.csv").write_text("\n".join(rows))
    store = tmp_path / "visits.db"
    options = ["--value", "page", "--domain", "discover", "--slot", "1d", "--from", "2026-01-01", "--epsilon", "1"]
    cli("run", tmp_path / "visits.csv", *options, "--to", "2026-01-02", "--store", store)
    cli("run", tmp_path / "visits.csv", *options, "--to", "2026-01-03", "--store", store)
    cli("query", store, "top", "1")
    assert "/home" in cli.stdout
    cli("verify", store, "--curator")
    cli("run", tmp_path / "visits.csv", *options, "--other", "x", "--to", "2026-01-03", "--store", store, code=2)
    assert "leave out `--other`" in cli.stderr
