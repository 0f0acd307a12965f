from pathlib import Path

import pytest

from dpi.cli._parameters import make_command, options_of
from dpi.cli.commands import COMMANDS, SUBCOMMANDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_every_option_is_in_the_reference(command):
    """docs/cli.md names every option of every command, those with a flag by their flag."""
    text = (DOCS / "cli.md").read_text()
    options = [each for each in options_of(command).values() if not each.setting.argument]
    missing = [each.name for each in options if (f"--{each.name}" if each.flag else f"`{each.name}`") not in text]
    assert missing == []


def test_the_surface_is_small():
    """At most 16 commands, and 180 parameters of all of them, those of further packages included."""
    assert len(COMMANDS) <= 16
    made = map(make_command, (*COMMANDS, *SUBCOMMANDS))
    assert sum(len(command.params) for command in made) <= 180
