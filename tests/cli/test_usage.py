"""How a command is called: what is wrong is told in one line, and help shows what is written."""

import inspect
import json
import re
from pathlib import Path

import pytest

from cli_files import PERIOD
from dpi.cli._parameters import options_of
from dpi.cli.commands import COMMANDS, SUBCOMMANDS, function


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runn"], "No such command 'runn'. Did you mean 'run'?"),
        (["run", "--nothing"], "No such option: --nothing"),
        (["run", "visits.csv"], "Missing option '--epsilon'"),
        (["query"], "Missing argument 'STORE'"),
        (["plan", "--epsilon", "1", "--users", "many", "--bins", "2"], "Invalid value for '--users'"),
        (["demo", "--days", "many"], "Invalid value for '--days'"),
        (["--nothing"], "No such option: --nothing"),
    ],
)
def test_wrong_usage_is_one_line(cli, words, said):
    """Whatever is wrong with a call is one line on standard error that names it and the help, with exit code 2."""
    cli(*words, code=2)
    assert cli.stdout == ""
    assert cli.stderr.startswith(f"dpi: error: {said}")
    assert cli.stderr.count("\n") == 1
    assert cli.stderr.endswith("--help`.\n")
    assert "?." not in cli.stderr


def test_no_command_shows_the_help(cli):
    """Without a command the list of commands is shown, and a script that forgot one is told by the exit code."""
    cli(code=2)
    assert " reproduce " in cli.stdout
    assert cli.stderr == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_sentence_of_each_command(name):
    """What the list says of a command, without loading it, is what the command says of itself."""
    first = (inspect.getdoc(function(name)) or "").partition("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name]


def test_help_shows_numbers_as_they_are_written(cli):
    """Two numbers with colons between them are no picture."""
    said = cli("domain", "--help")
    assert said.count("0:100:10") == 2
    assert "kafka://localhost:9092/visits" in cli("run", "--help")


@pytest.mark.parametrize("name", [*COMMANDS, *SUBCOMMANDS])
def test_help_shows_brackets_as_they_are_written(cli, name):
    """No part of a sentence in brackets is taken for markup, and what may be repeated has its brackets once."""
    said = cli(*name.split(), "--help")
    options = [each.setting.help for each in options_of(name).values() if each.flag]
    for text in (inspect.getdoc(function(name)) or "", *options):
        assert all(part in said for part in re.findall(r"\[[^\]]*\]", text))
    assert "[[" not in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["verify", "nothing.db"], 3, "there is no store at nothing.db."),
        (["run"], 2, "Missing option '--epsilon'. See `dpi run --help`."),
        (["plan", "--epsilon", "1", "--users", "0", "--bins", "2"], 2, "`--users` must be"),
        (["query", "nothing.db", "--config", "nothing=1"], 2, "unknown key `nothing` in the options of `dpi query`"),
    ],
)
def test_a_failure_is_a_document_with_json(cli, words, code, said):
    """With `--json` a failure is one document on standard output, and the line on standard error says the same."""
    found = cli.json(*words, code=code)
    assert found.keys() == {"error"}
    assert str(found["error"]).startswith(said)
    assert cli.stderr == f"dpi: error: {found['error']}\n"
    cli(*words, code=code)
    assert cli.stdout == ""


def test_a_failure_is_a_document_where_a_configuration_asks_for_json(cli):
    """A file of options may say `json = true` as well."""
    Path("dpi.toml").write_text("[query]\njson = true\n")
    cli("query", "nothing.db", "total", "--config", "dpi.toml", code=3)
    assert json.loads(cli.stdout) == {"error": "there is no store at nothing.db."}


def test_what_is_required_is_said_in_plain_words(cli, visits):
    """A run without a store or a domain names the option, and what it is for."""
    said = cli("run", *visits, *PERIOD, code=2)
    assert said == "dpi: error: `--store` is required: it keeps releases and accounts.\n"
    said = cli("run", "visits.csv", "--slot", "1h", "--epsilon", "1", *PERIOD, "--store", "s.db", code=2)
    assert "`--domain` is required: a file of public values." in said
    assert "Older releases can no longer be checked against their" in cli("ledger", "compact", "--help")
    assert "`retention` must be 1, 7 or 30. Got 2." in cli("query", "s.db", "retention", "2", code=2)
    assert "`stickiness` must be 7, 28 or 30. Got 1." in cli("query", "s.db", "stickiness", "1", code=2)


def test_a_large_epsilon_is_told_in_one_line(cli, visits):
    """`plan` and `run` say once, on standard error, that such an ε promises next to nothing; the document is whole."""
    found = cli.json("plan", "--epsilon", "500", "--users", "10", "--bins", "2")
    assert found["epsilon"] == 500
    for line in (cli.stderr, cli("run", *visits, *PERIOD, "--epsilon", "500", "--store", "s.db") and cli.stderr):
        assert line.startswith("dpi: warning: ε = 500 promises next to nothing")
        assert line.count("\n") == 1


def test_a_plan_without_hope_says_so(cli):
    """Where noise is as large as most shares, nothing is planned; where no ε is enough, none is told."""
    said = cli("plan", "--epsilon", "1", "--users", "3", "--bins", "200", code=2)
    assert "`--users` times ε must be at least 100: the noise of fewer is as large as most shares. Got 3." in said
    said = cli("plan", "--want", "active=1", "--users", "50", "--bins", "200", code=2)
    assert "`--want`: no ε up to 10 brings the error of active users to 1 %" in said


def test_errors_name_options_as_they_are_written_here(cli, visits):
    """What the package calls by a name of Python, the command line calls by its option."""
    said = cli("plan", "--users", "900", "--bins", "20", code=2)
    assert "state `--epsilon`, or the error that you want with `--want`" in said
    run = ["run", *visits, *PERIOD, "--store", "s.db"]
    assert "`--epsilon` must be a finite number. Got 'much'" in cli(*run, "--epsilon", "much", code=2)
    assert "give `--per-slot` or `slots`, not both" in cli(*run, "--config", "slots=3", code=2)
    assert "`--zone` must be a time zone" in cli(*run, "--zone", "Atlantis", code=2)
    assert "`level`" in cli("query", "s.db", "--alerts", "--config", "level=2", code=2)
    assert "leave out `--per-slot`, `slots` and `not-returning`" in cli(*run, "--config", "policy=clocked", code=2)


def test_an_option_that_is_part_of_the_promise_is_not_offered_for_change(cli, visits):
    """Another ε is refused without a word of `--change`, which could not help; another mechanism may be changed."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "s.db")
    said = cli("run", *visits, *PERIOD, "--epsilon", "2", "--store", "s.db", code=3)
    assert said.endswith("dpi: error: stored is ε = 1, given is ε = 2: ε never changes.\n")
    said = cli("run", *visits, *PERIOD, "--epsilon", "2", "--season", "24", "--store", "s.db", code=3)
    assert "ε never changes. Further options differ, too: mechanism." in said
    said = cli("run", *visits, *PERIOD, "--epsilon", "2", "--name", "other", "--store", "s.db", code=2)
    assert "stored is ε = 1, given is ε = 2: ε never changes." in said
    said = cli("run", *visits, *PERIOD, "--season", "24", "--store", "s.db", code=3)
    assert "other options (mechanism)" in said
    assert "or `--change` where a public change is meant" in said
