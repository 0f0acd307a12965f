"""A look before slots are paid for, and a warning after: columns, unit and period that are not those of the events."""

import signal
import subprocess
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT, PROGRAM
from dpi.noise import UnsafeSeededSource

BEGIN = 1_767_225_600
USERS = 300


@pytest.fixture
def numbered(cli, monkeypatch):
    """Events with times in seconds since 1970, and the options that read them; noise is drawn from a seed."""
    rows = [(f"secret-user-{user}", BEGIN + 3600 * hour + 5, "DE") for hour in range(6) for user in range(USERS)]
    Path("n.csv").write_text("user,at,country\n" + "".join(f"{u},{t},{c}\n" for u, t, c in rows))
    Path("countries.txt").write_text("DE\nFR\nIT\n")
    monkeypatch.setattr("dpi.stream._stream.SystemSource", lambda: UnsafeSeededSource(5))
    return {
        "--user": "user", "--time": "at", "--value": "country", "--unit": "s", "--domain": "countries.txt",
        "--slot": "1h", "--epsilon": "1", "--per-slot": "0.2", "--from": "2026-01-01", "--to": "2026-01-01T06:00",
        "--store": "n.db",
    }  # fmt: skip


def words(options):
    """The options as a command line has them."""
    return ["n.csv", *(word for pair in options.items() for word in pair if word is not None)]


def told(said):
    """What a dry run says of each cause."""
    lines = [line.rpartition(": ") for line in said.splitlines() if ": " in line]
    return {name.removeprefix("dpi:   "): word for name, _, word in lines if name.startswith("dpi:   ")}


WRONG = {
    "unit": ({"--unit": "ms"}, {"time can be read": "most", "time lies in the period": "none"}),
    "from": ({"--from": "2025-01-01", "--to": "2025-01-01T06:00"}, {"time lies in the period": "none"}),
    "columns": ({"--user": "country", "--value": "user"}, {"value is listed in the domain": "none"}),
    "time": ({"--time": "country"}, {"time can be read": "none"}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_dry_run_tells_what_is_wrong(cli, numbered, wrong):
    """By its cause, coarsely, on standard error alone; nothing is paid or written, and the exit code tells nothing."""
    options, expected = WRONG[wrong]
    before = {path: path.read_bytes() for path in Path().iterdir()}
    said = cli("run", *words(numbered | options), "--out", "r.ndjson", "--witness", "seen", "--dry-run")
    assert cli.stdout == ""
    assert expected.items() <= told(said).items()
    assert "private" in said
    assert "the guarantee would not hold" in said
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_forgotten_unit(cli, numbered):
    """Numbers without their unit are no times."""
    said = cli("run", *words({name: word for name, word in numbered.items() if name != "--unit"}), "--dry-run")
    assert told(said)["time can be read"] == "none"
    assert told(said)["row counts in a release"] == "none"


def test_a_dry_run_of_the_right_options(cli, numbered):
    """Most rows can be read; a store that is there is not touched."""
    said = cli("run", *words(numbered), "--dry-run")
    assert set(told(said).values()) == {"most"}
    assert "budget, unless the store's ledger has another policy: Ledger(" in said
    cli("run", *words(numbered))
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    cli("run", *words(numbered), "--dry-run")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(("rows", "word"), [(0, "none"), (1, "few"), (1799, "most")])
def test_how_coarse_it_is(cli, numbered, rows, word):
    """None, few (less than half) or most: not how many."""
    lines = Path("n.csv").read_text().splitlines()
    bad = [line.replace(str(BEGIN)[:4], "soon") for line in lines[rows + 1 :]]
    Path("n.csv").write_text("\n".join([*lines[: rows + 1], *bad]) + "\n")
    assert told(cli("run", *words(numbered), "--dry-run"))["time can be read"] == word


def test_no_rows(cli, numbered):
    """A header alone."""
    Path("n.csv").write_text("user,at,country\n")
    assert "There are no rows" in cli("run", *words(numbered), "--dry-run")


def test_it_is_not_for_programs(cli, numbered):
    """What it says is private, so it is no JSON on standard output; wrong options are refused as in a run."""
    assert "private" in cli("run", *words(numbered), "--dry-run", "--json", code=2)
    cli("run", *words(numbered | {"--epsilon": "0"}), "--dry-run", code=2)
    cli("run", *words(numbered | {"--time": "nobody"}), "--dry-run", code=2)
    assert not Path("n.db").exists()


def test_products_and_followed_files(cli, numbered):
    """Every part of a product must be listed; a file that grows is read as it is now."""
    cli("domain", "--list", "countries.txt", "-o", "c.json")
    cli("domain", "--bins", "0,10", "-o", "b.json")
    cli("domain", "--product", "land=c.json", "--product", "age=b.json", "-o", "pairs.json")
    options = {name: word for name, word in numbered.items() if name not in ("--value", "--to")}
    options |= {"--domain": "pairs.json", "--follow": None}
    said = cli("run", *words(options), "--value", "land=country", "--value", "age=user", "--dry-run")
    assert told(said)["value is listed in the domain"] == "none"
    said = cli("run", *words(options), "--value", "land=country", "--value", "age=at", "--dry-run")
    assert told(said)["value is listed in the domain"] == "most"


def test_standard_input(cli, numbered, warm):
    """Events can be piped in."""
    command = [*warm, "run", "-", "--config", "format=csv", *words(numbered)[1:], "--dry-run"]
    with Path("n.csv").open() as events:
        done = subprocess.run(command, stdin=events, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert set(told(done.stderr).values()) == {"most"}


@pytest.mark.parametrize("wrong", [*WRONG, None])
def test_releases_that_look_like_nobody_are_warned_of(cli, numbered, wrong):
    """Made from released totals alone: after a run with wrong options, and in its report; not after a right one."""
    options = numbered | (WRONG[wrong][0] if wrong else {})
    said = cli("run", *words(options))
    assert ("look like an empty stream" in said) == (wrong is not None)
    cli("report", "n.db")
    assert ("look like an empty stream" in Path("n.html").read_text()) == (wrong is not None)
    assert cli.json("run", *words(options | {"--store": "again.db"}))["looks_empty"] is (wrong is not None)
    assert cli.json("run", *words(options | {"--store": "again.db"}))["looks_empty"] is False  # nothing is new


def test_a_dry_run_that_is_stopped(cli, numbered):
    """Ctrl-C while it waits for rows: the usual exit code, and nothing is left behind."""
    before = sorted(Path().iterdir())
    command = [*PROGRAM, "run", "-", "--config", "format=csv", *words(numbered)[1:], "--dry-run"]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    # More than one block and what a pipe holds: once it is written, the program is reading rows.
    running.stdin.write(b"user,at,country\n" + f"secret-user,{BEGIN},DE\n".encode() * 400_000)
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stdout == b""
    assert stderr == b"dpi: stopped.\n"
    assert sorted(Path().iterdir()) == before
