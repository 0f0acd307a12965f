import re
import subprocess
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT
from dpi.cli import config
from dpi.cli.app import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tutorial_runs_as_written(tmp_path, warm):
    """The commands of the tutorial, in their order, one after the other."""
    blocks = re.findall(r"```console\n(.*?)```", (DOCS / "tutorial.md").read_text(), flags=re.DOTALL)
    script = "".join(blocks).replace("$ dpi ", "dpi ").replace("$ cat ", "cat ")
    assert script.count("dpi ") >= 12
    head = f'set -eu\ndpi() {{ {" ".join(warm)} "$@"; }}\n'
    done = subprocess.run(
        ["/bin/sh", "-c", head + script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "visits.html").read_text().startswith("<!doctype html>")
    assert len((tmp_path / "releases.ndjson").read_text().splitlines()) == 48
    assert "24 slots of the period are released already" in done.stderr
    assert "0 slots released" in done.stdout
    assert "use --per-slot 0.05" in done.stdout


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
