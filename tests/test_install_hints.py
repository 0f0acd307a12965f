"""Hints say what works: packages by name, whether dpi came from a checkout, a wheel or an index."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpi._version import DISTRIBUTION, how_to_install
from dpi.cli._parameters import make_command, options_of
from dpi.cli.commands import function

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]


def named():
    """The extras that the code names in hints."""
    texts = "".join(path.read_text(encoding="utf-8") for path in SOURCES if path.suffix == ".py")
    found = set(re.findall(r"""how_to_install\(['"](\w+)['"]\)""", texts))
    return sorted(found | set(re.findall(r"""client\("\w[\w.]*", "(\w+)"\)""", texts)))


def test_the_name_is_that_of_the_project():
    """One constant holds it."""
    assert PROJECT["name"] == DISTRIBUTION


@pytest.mark.parametrize("extra", named())
def test_a_hint_names_the_packages_of_its_extra(extra):
    """As pyproject.toml lists them, and pip takes the command as it is printed: here they are installed already."""
    words = shlex.split(how_to_install(extra))
    listed = [each.partition(";")[0].strip().lower() for each in PROJECT["optional-dependencies"][extra]]
    assert words[:2] == ["pip", "install"]
    assert sorted(word.lower() for word in words[2:]) == sorted(listed)


def test_pip_takes_a_hint():
    """What is printed is a command that works; psycopg is there for the tests."""
    command = [sys.executable, "-m", *shlex.split(how_to_install("postgres")), "--dry-run", "--quiet", "--no-index"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def test_extras_are_found_in_the_code():
    """The test above would be empty otherwise."""
    assert {"service", "postgres", "oidc", "plot", "apps"} <= set(named())


@pytest.mark.parametrize(
    ("command", "package"), [("audit", "audit"), ("compare", "research"), ("reproduce", "research")]
)
def test_a_command_of_a_package_that_is_missing_says_how_to_get_it(cli, monkeypatch, command, package):
    """It stands in the list all the same."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    for each in (function, make_command, options_of):
        each.cache_clear()
    assert f"{DISTRIBUTION}-{package}" in " ".join(cli(command, code=2).split())
    assert command in cli("--help")
    function.cache_clear()


def test_no_page_and_no_message_asks_an_index_for_a_name_that_is_not_ours():
    """The name on a public index would be somebody else's."""
    asked = re.compile(r"pip install [^\n`]*\bdpi\[|`dpi\[")
    assert [path.name for path in SOURCES if asked.search(path.read_text(encoding="utf-8"))] == []
