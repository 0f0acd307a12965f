"""Constants of the boosted mechanism, and of the estimator of users by class, say where they come from."""

import ast
import re
from pathlib import Path

import pytest

import dpi.mechanism.filtering
import dpi.mechanism.users

ROOT = Path(__file__).parent.parent.parent
ROOMS = (dpi.mechanism.filtering, dpi.mechanism.users)
ALONE = [Path(dpi.mechanism.__file__).parent / name for name in ("boosted.py", "moving.py", "rotation.py")]
FILES = sorted([*ALONE, *(path for room in ROOMS for path in Path(room.__file__).parent.glob("*.py"))])
FORMAT = {"_MAGIC", "_DIGEST", "_ALIKE", "_ROTATING", "_WHOSE"}
"""Of stored bytes: nothing is estimated with them."""


def constants(path):
    """Names of the numbers that a module declares, each with the text below it, or below those that follow it."""
    body = ast.parse(path.read_text("utf-8")).body
    for at, node in enumerate(body):
        if isinstance(node, ast.Assign):
            names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            used = [name for name in ast.walk(node.value) if isinstance(name, ast.Name) and name.id.isupper()]
            rest = next((other for other in body[at:] if not isinstance(other, ast.Assign)), None)
            text = rest.value.value if isinstance(rest, ast.Expr) and isinstance(rest.value, ast.Constant) else ""
            yield from ((name, text) for name in names if name.isupper() and not used and name not in FORMAT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_constant_has_a_source(path):
    """A command, a section or a test, which is there; or, honestly, that it was found by trial."""
    for name, text in constants(path):
        _, stated, source = " ".join(text.split()).partition(" Source: ")
        assert stated, name
        for file in re.findall(r"(?:docs|benchmarks|tests)/[\w/]+\.(?:md|py)", source):
            assert (ROOT / file).is_file(), name
        for page, section in re.findall(r"(docs/\w+\.md), ([^;.()]+)", source):
            heading = rf"^##+ {re.escape(section.strip())}$"
            assert re.search(heading, (ROOT / page).read_text("utf-8"), flags=re.MULTILINE), name


def test_constants_are_found():
    """The test above sees them: ninety or so."""
    assert sum(1 for path in FILES for _ in constants(path)) > 80
