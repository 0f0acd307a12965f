"""Tables of docs/cli.md are made from the declarations of options; the number of commands and parameters is bounded."""

import runpy
from pathlib import Path

from dpi.cli._parameters import make_command
from dpi.cli.commands import COMMANDS, SUBCOMMANDS

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "options.py"))


def test_the_reference_of_options_is_up_to_date():
    """If this fails: make reference."""
    assert TOOL["PAGE"].read_text("utf-8") == TOOL["page"]()


def test_every_option_has_its_row():
    """Flags by their flag, those of a file by their name."""
    text = TOOL["section"]("run")
    assert "| `--epsilon` | NUMBER | required | ε per user, for ever. |" in text
    assert "| `quota` | PART |  | Part of ε that is reserved for this stream. |" in text


def test_the_surface_is_small():
    """At most 17 commands, and 196 parameters of all of them, those of further packages included."""
    assert len(COMMANDS) <= 17
    made = map(make_command, (*COMMANDS, *SUBCOMMANDS))
    assert sum(len(command.params) for command in made) <= 197


def test_an_option_of_run_is_told_once():
    """Other commands name it, and have tables of what is their own."""
    text = TOOL["section"]("domain")
    assert "As in [`run`](#run): " in text
    assert "`--time`" in text.partition("As in [`run`](#run): ")[2]
    assert "| `--discover` |" in text
