"""Every line that says what to do next is a command that works as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import dpi
from cli_files import PERIOD
from dpi.cli.output import next_command

LINE = re.compile(r"^(?:Next:|Ask|Check) +dpi (.*)$", re.MULTILINE)


def lines(said):
    """The commands in what was printed."""
    return [shlex.split(line) for line in LINE.findall(said)]


def runs_of(cli, visits):
    """A run of one stream, of a second one in the same store, and of one without a release; names with spaces."""
    for words in (("--store", "a store.db"), ("--store", "a store.db", "--name", "the second one")):
        yield cli("run", *visits, *PERIOD, *words)
    yield cli("run", *visits, *PERIOD, "--store", "a store.db")  # nothing is left to release


def discoveries(cli, _visits):
    """A discovery with all options of events, clock and store."""
    rows = [f"u{user};2026-01-01 0{user % 10}:10;{('DE', 'FR')[user % 2]}" for user in range(900)]
    (cli.folder / "the events.csv").write_text("\n".join(rows) + "\n")
    more = ("user=who", "separator=;", "columns=who,when,where", "zone=Europe/Berlin", "witness=seen", "quota=0.5")
    words = ["--time", "when", "--value", "where", *(word for each in more for word in ("--config", each))]
    period = ("--slot", "day", "--from", "2026-01-01", "--to", "2026-01-02")
    store = ("--store", "a store.db", "--epsilon", "1", "--key-file", "a key")
    yield cli("domain", "--discover", "the events.csv", *words, *period, *store, "-o", "found it.json")


def demos(cli, _visits):
    """The demo in a folder with a space."""
    yield cli("demo", "--folder", "an out", "--days", "1")


@pytest.mark.parametrize(("made", "expected"), [(runs_of, 3), (discoveries, 1), (demos, 2)])
def test_what_is_printed_works(cli, visits, made, expected):
    """Each line is run in the same folder, by itself, right after it was printed."""
    found = 0
    for said in made(cli, visits):
        for words in lines(said):
            cli(*words)
            found += 1
    assert found == expected


def test_every_such_line_is_tried():
    """A command that begins to print such a line is named here."""
    sources = {
        path.name: path.read_text(encoding="utf-8") for path in (Path(dpi.__file__).parent / "cli").rglob("*.py")
    }
    printing = re.compile(r"Next: |next_command\(|\"(Ask|Check)  +dpi")
    found = {name for name, text in sources.items() if printing.search(text)}
    assert found == {"output.py", "run.py", "domain.py", "demo.py"}


def test_a_password_is_not_said_and_no_line_that_lacks_it():
    """The address of a database may hold one: without it the command would not work."""
    assert next_command("postgresql://me:hush@host/db", "report", "postgresql://me:hush@host/db") == []
    assert next_command("postgresql:///db", "report", "postgresql:///db") == ["Next: dpi report postgresql:///db"]
