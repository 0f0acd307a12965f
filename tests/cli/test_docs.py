from pathlib import Path

import pytest

from dpi.cli import config
from dpi.cli.app import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_reference(command):
    """docs/cli.md names every option of every command."""
    text = (DOCS / "cli.md").read_text()
    arguments = {
        "files",
        "store",
        "question",
        "target",
        "values",
        "private",
        "words",
        "names",
        "action",
        "identity",
        "backup",
    }
    missing = [key for key in config.known(command) if key not in arguments and f"--{key}" not in text]
    assert missing == []
