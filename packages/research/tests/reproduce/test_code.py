"""A result belongs to the code it came from, and to nothing else of a file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpi_research.reproduce import _code as of_modules
from dpi_research.reproduce._code import code

FIRST = '''"""A sentence."""
import json

from dpi_made.second import two
from dpi_made.third import x

STEP = 1
SHOWN = x

def one():
    """What it does."""
    return two() + add(STEP)  # twice

def add(step):
    return step

def shown():
    return f"the result is {one()} of {SHOWN}"
'''
SECOND = "def two():\n    return 2\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of two modules, the first of which imports the second."""
    folder = tmp_path / "dpi_made"
    folder.mkdir()
    for name, text in (("__init__", ""), ("first", FIRST), ("second", SECOND), ("third", "x = 1\n")):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(of_modules, "PACKAGES", ("dpi_made",))
    yield folder
    for name in [name for name in sys.modules if name.startswith("dpi_made")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("first", FIRST.replace("A sentence.", "Another."), True),
        ("first", FIRST.replace("  # twice", ""), True),
        ("first", FIRST.replace("the result is", "there are"), True),
        ("first", FIRST.replace("SHOWN = x", "SHOWN = 2 * x"), True),
        ("first", FIRST.replace("two()", "two() + 1"), False),
        ("first", FIRST.replace("STEP = 1", "STEP = 2"), False),
        ("first", FIRST.replace("return step", "return 2 * step"), False),
        ("first", FIRST + "two = two.twice\n", False),
        ("first", FIRST + "two.cache_clear()\n", False),
        ("second", SECOND.replace("return 2", "return 3"), False),
        ("second", SECOND + "unused = 1\n", False),
        ("third", "x = 2\n", True),
    ],
)
def test_what_counts_is_what_is_run(made: Path, file: str, text: str, same: bool) -> None:
    """What the function names, and all of what that imports; no comment, no docstring, no sentence, no stranger."""
    before = code.__wrapped__("dpi_made.first", "one")
    (made / f"{file}.py").write_text(text)
    assert (code.__wrapped__("dpi_made.first", "one") == before) is same
