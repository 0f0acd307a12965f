"""docs/traps.md names a test for every way in which such promises are lost: here, that the tests are there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "traps.md"


def rows():
    """The cells of every row of the page's tables of traps."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "trap" and set(row[0]) != {"-"}]


def named(cell):
    """The tests that a cell names, each as the names of a file, of classes, and of a function."""
    return [test.split("::") for test in re.findall(r"`([^`]+::[^`]+)`", cell)]


def defined(file, *names):
    """Whether a file of tests defines this function, inside these classes."""
    path = (TESTS.parent if file.startswith("packages/") else TESTS) / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    for name in names[:-1]:
        body = [inner for node in body if isinstance(node, ast.ClassDef) and node.name == name for inner in node.body]
    return names[-1].startswith("test_") and any(
        isinstance(node, ast.FunctionDef) and node.name == names[-1] for node in body
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_trap_names_tests_that_are_there(row):
    """A row has a trap, what is done here, and at least one test; a test that was renamed or removed is noticed."""
    trap, here, tests = row
    assert trap
    assert here
    assert named(tests)
    assert [test for test in named(tests) if not defined(*test)] == []


def test_the_tables_are_found():
    """The page has traps of all its tables, each once; a missing test is distinguished from one that is there."""
    traps = [row[0] for row in rows()]
    assert len(traps) > 50
    assert len(set(traps)) == len(traps)
    assert defined("test_promise.py", "test_the_tables_are_found")
    assert not defined("test_promise.py", "test_that_is_nowhere")
    assert not defined("test_nowhere.py", "test_the_tables_are_found")
    assert not defined("stream/test_live.py", "test_a_later_one_waits")  # it is defined in a class


def test_the_threat_model_names_tests_that_are_there():
    """Every file and every test that docs/threat-model.md points to."""
    text = (TESTS.parent / "docs" / "threat-model.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:[a-z]+/)+test_\w+\.py)", text))
    assert len(files) >= 12
    assert [file for file in files if not (TESTS / file).is_file()] == []
    tests = named(text)
    assert len(tests) >= 4
    assert [test for test in tests if not defined(*test)] == []
