"""Every block of code on every page is run: examples with what they print, commands with what they answer.

On a page, blocks follow each other: names, files and folders that one makes are there for the next, in an empty folder
of the page. A block that is run by a test of its own, or cannot be run here, says so in a comment above it:
`<!-- run by tests/….py -->` or `<!-- not run: why -->`; said once for a page, it stands above its first heading. What
a fragment takes for granted is made by a comment that readers do not see: `<!-- setup`, lines of Python, `-->`.

A line of a `console` block that begins with `$ ` is a command (with what it reads from `<<'END'`), and what follows it
up to the next command, if anything does, is what it prints, output and errors together; `…` stands for any text. Below
`<!-- numbers of one run -->` a number stands for any number: noise differs from run to run, the words do not.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT
from console import commands, is_printed
from dpi_research.compare import tables
from strategies import few

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reproduction").glob("*.md")])
FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*?) -->\n+)?(?:```(?P<kind>\w+)\n|<!-- (?P<setup>setup)\n)(?P<text>.*?)^(?:```|-->)$",
    re.MULTILINE | re.DOTALL,
)
RUN = ("python", "console", "setup")
ONE_RUN = "numbers of one run"


@dataclass(frozen=True)
class Block:
    """A fenced block, where it begins, and what the comment above it says."""

    kind: str
    text: str
    line: int
    note: str


def blocks(page: Path) -> list[Block]:
    """Those of a page that are code to run, in their order."""
    text = page.read_text("utf-8")
    whole = re.match(r"<!-- (run by \S+|not run: [^\n]*) -->\n", text)
    return [
        Block(
            found["kind"] or found["setup"],
            found["text"],
            text.count("\n", 0, found.start("text")),
            found["note"] or (whole[1] if whole else ""),
        )
        for found in FENCE.finditer(text)
        if (found["kind"] or found["setup"]) in RUN
    ]


def exempt(block: Block) -> bool:
    """Whether its comment sends it elsewhere; a test that it names must be there."""
    run_by = re.fullmatch(r"run by (\S+)", block.note)
    if run_by:
        assert (ROOT / run_by[1]).is_file(), block.note
    return bool(run_by) or block.note.startswith("not run: ")


def run_python(block: Block, names: dict[str, object], page: Path) -> None:
    """A session with its output, or plain code."""
    if '__name__ == "__main__"' in block.text:  # a file, which processes that it starts can import
        (Path.cwd() / "example.py").write_text(block.text)
        subprocess.run([sys.executable, "example.py"], env=ENVIRONMENT, check=True, timeout=300)
        return
    if ">>> " not in block.text:
        exec(compile("\n" * block.line + block.text, page.name, "exec"), names)  # noqa: S102 - our own pages
        return
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=options).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert result.failed == 0, "".join(said)


def run_console(block: Block, folder: Path, program: Sequence[str]) -> None:
    """Its commands, one after the other, as a shell does."""
    head = f'set -eu\ndpi() {{ {shlex.join(program)} "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'
    for command, printed in commands(block.text):
        done = subprocess.run(
            ["/bin/sh", "-c", head + command],
            cwd=folder, env={**ENVIRONMENT, "TERM": "dumb"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=300,
        )  # fmt: skip
        assert (done.returncode == 0) != ("error:" in printed), f"{command}{done.stdout}"
        if printed.strip():
            assert is_printed(printed, done.stdout, any_numbers=block.note == ONE_RUN), done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_what_the_page_shows_is_what_happens(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    warm: tuple[str, ...],
) -> None:
    """All blocks of a page, from top to bottom. (Published tables for slots of one length, for both with DPI_SLOW.)"""
    monkeypatch.setattr(tables, "SLOT_SECONDS", tables.SLOT_SECONDS[: few(1, 2)])
    tables.published_tables.cache_clear()  # nobody else gets the shorter ones, nor this page what others have
    request.addfinalizer(tables.published_tables.cache_clear)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if exempt(block):
            continue
        if block.kind == "console":
            run_console(block, tmp_path, warm)
        else:
            run_python(block, names, page)


def test_few_blocks_are_not_run() -> None:
    """A comment is an exception, with a reason."""
    notes = [block.note for page in PAGES for block in blocks(page)]
    reasons = [note.removeprefix("not run: ") for note in notes if note.startswith("not run: ")]
    assert all(len(reason) > 10 for reason in reasons)
    assert len(reasons) <= len(notes) / 8
