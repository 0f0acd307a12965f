"""What docs/design.md says of imports: its picture, no circles, and modules that belong to their room alone."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent


def test_the_picture_is_what_modules_import():
    """An import between two rooms, or a room, that came or went since the picture was made is noticed."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "rooms.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of the four packages, those within functions too; not those for types alone."""
    packages = ("dpi", "dpi_audit", "dpi_research", "dpi_spark")
    return grimp.build_graph(*packages, cache_dir=None, exclude_type_checking_imports=True)


def test_no_circle_of_imports(graph: grimp.ImportGraph) -> None:
    """Modules can be read one after the other."""
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(tuple(TopologicalSorter(found).static_order())) == len(graph.modules)


def test_a_module_with_an_underscore_belongs_to_its_room(graph: grimp.ImportGraph) -> None:
    """No other room imports it."""

    def room(module: str) -> list[str]:
        return module.split(".")[:2]

    private = [module for module in graph.modules if module.split(".")[-1].startswith("_") and module.count(".") > 1]
    assert len(private) > 50
    assert [
        (user, module)
        for module in private
        for user in graph.find_modules_that_directly_import(module)
        if room(user) != room(module)
    ] == []
