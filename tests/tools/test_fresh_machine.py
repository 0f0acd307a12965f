"""The check on a fresh machine runs what the README says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "fresh_machine.py"))


def test_the_commands_are_the_readmes():
    """Two of them, and the Makefile has their targets."""
    found = TOOL["commands"]((ROOT / "README.md").read_text("utf-8"))
    assert found == ["make run", "make test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"\n{command.removeprefix('make ')}:" in makefile for command in found)


def test_nothing_is_handed_on_but_the_path(tmp_path, monkeypatch):
    """Neither the caller's variables nor its home; the exit code is the command's."""
    monkeypatch.setenv("DPI_SOMETHING", "mine")
    command = 'test -z "$DPI_SOMETHING" && test "$HOME" = "$PWD" && exit 7'
    code, seconds = TOOL["run"](command, tmp_path, tmp_path)
    assert code == 7
    assert seconds > 0
