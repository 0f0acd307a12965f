"""A result belongs to the code it came from, and to nothing else of a file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpi.research.reproduce import code as of_modules
from dpi.research.reproduce.code import code

FIRST = '''"""A sentence."""
from dpi_made.second import two

def one():
    """What it does."""
    return two()  # twice
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
    monkeypatch.setattr(of_modules, "PACKAGE", "dpi_made")
    yield folder
    for name in [name for name in sys.modules if name.startswith("dpi_made")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("first", FIRST.replace("A sentence.", "Another."), True),
        ("first", FIRST.replace("  # twice", ""), True),
        ("first", FIRST.replace("two()", "two() + 1"), False),
        ("second", SECOND.replace("return 2", "return 3"), False),
        ("third", "x = 2\n", True),
    ],
)
def test_what_counts_is_what_is_run(made: Path, file: str, text: str, same: bool) -> None:
    """A statement of the module or of what it imports; no comment, no docstring, no stranger."""
    before = code.__wrapped__("dpi_made.first")
    (made / f"{file}.py").write_text(text)
    assert (code.__wrapped__("dpi_made.first") == before) is same
