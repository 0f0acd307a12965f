import json
from pathlib import Path

import pytest

import dpi
from cli_files import PERIOD

CONFIG = """
[run]
FILE = ["visits.csv"]
time = "at"
value = "country"
domain = "countries.txt"
other = "elsewhere"
slot = "1h"
epsilon = 1
per-slot = 0.2
policy = "fade"
compression = "truncate:3"
ids = "exact"
accumulate = "tree:0.05"
from = 2026-01-01
to = 2026-01-01T06:00:00
store = "config.db"
wait = 0.5
out = "config.ndjson"

[query]
slot = 490898
"""


def options(path):
    """What the stream in a store certifies."""
    with dpi.open_store(path, read_only=True) as store:
        return store.streams()[""]


def test_a_file_says_what_a_command_line_says(cli, visits):
    """The same options in a file and on the command line give the same stream; the command line wins."""
    Path("dpi.toml").write_text(CONFIG.replace("FILE", "files"))
    cli("run", "--config", "dpi.toml")
    assert len(Path("config.ndjson").read_text().splitlines()) == 6
    rules = (
        "--config",
        "policy=fade",
        "--config",
        "compression=truncate:3",
        "--config",
        "accumulate=tree:0.05",
        "--ids",
        "exact",
    )
    cli("run", *visits, *PERIOD, "--store", "words.db", *rules)
    assert options("config.db") == options("words.db")
    cli("run", "--config", "dpi.toml", "--store", "other.db", "--per-slot", "0.1", "--out", "other.ndjson")
    assert json.loads(options("other.db"))["budget"]["per_slot"] == dpi.budget.Epsilon.at_most("0.1").units
    assert cli.json("query", "--config", "dpi.toml", "config.db", "total")["answers"][0]["slot"] == 490898
    assert cli.json("query", "config.db", "total")["answers"][0]["slot"] == 490901


def test_no_file_is_read_unless_it_is_named(cli, visits):
    """A dpi.toml in the working folder changes nothing by itself."""
    Path("dpi.toml").write_text("[run]\nepsilom = 2\n")
    cli("run", *visits, *PERIOD, "--store", "visits.db")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nepsilom = 1", "unknown key `epsilom` in [run] of dpi.toml: did you mean `epsilon`?"),
        ("[run]\nper_slot = 1", "did you mean `per-slot`?"),
        ("[run]\nzzzz = 1", "unknown key `zzzz` in [run] of dpi.toml; known are domain, other,"),
        ("[rum]\nepsilon = 1", "unknown table [rum] in dpi.toml: did you mean `run`?"),
        ("[plan]\nuser = 1", "did you mean `users`?"),
        ("epsilon = 1", "must stand in the table of a command"),
        ("[run]\nfollow = 'yes'", "`follow` must be true or false"),
        ("[run]\nslots = 2.5", "`slots` must be a whole number"),
        ("[run]\nslots = true", "`slots` must be a whole number"),
        ("[run]\nwait = 'long'", "`wait` must be a number"),
        ("[run]\nstore = 5\ndomain = 5", "`domain` must be a path in quotes"),
        ("[run]\nepsilon = [1]", "`epsilon` must be a text in quotes, or a number"),
        ("[run]\nepsilon = {a = 1}", "`epsilon` must be a text in quotes, or a number"),
        ("[run\n", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(cli, text, said):
    """An unknown key gets a suggestion, a wrong type says what is expected; nothing is run."""
    Path("dpi.toml").write_text(text + "\n")
    assert said in cli("run", "--config", "dpi.toml", code=2)
    assert cli.stdout == ""


def test_a_file_that_is_not_there(cli):
    """It is named."""
    assert "none.toml cannot be read" in cli("query", "--config", "none.toml", code=2)


def test_one_option_is_said_on_the_command_line(cli, visits):
    """KEY=VALUE says an option that has no flag, as the file would; a wrong key or value is refused like there."""
    Path("dpi.toml").write_text(CONFIG.replace("FILE", "files"))
    cli("run", "--config", "dpi.toml", "--config", "policy=spend-first", "--config", "store=other.db")
    assert json.loads(options("other.db"))["budget"]["policy"] == {"kind": "spend_first"}
    run = ("run", *visits, *PERIOD, "--store", "visits.db")
    assert "unknown key `polizy` in the options of `dpi run`: did you mean `policy`?" in cli(
        *run, "--config", "polizy=fade", code=2
    )
    assert "`slots` must be a whole number. Got 'many'." in cli(*run, "--config", "slots=many", code=2)
    assert "`separate` must be true or false. Got 1." in cli(*run, "--config", "separate=1", code=2)
