import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import dpi
import dpi.cli.commands

HEAVY = ("numpy", "polars", "pandas", "pyarrow", "scipy", "cryptography", "matplotlib", "typer", "rich", "dpi_research")


def loaded(code: str) -> set[str]:
    """Which of the heavy modules a program has loaded at its end, those within them by the first name."""
    told = f"{code}; import sys; print([m for m in sys.modules if m.startswith({HEAVY!r})], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name for name in HEAVY for module in ast.literal_eval(done.stderr) if f"{module}.".startswith(f"{name}.")}


def test_import_is_light():
    """`import dpi` loads no library at all, and no module of research."""
    assert loaded("import dpi") == set()


def test_a_stream_loads_no_research():
    """Neither making a stream nor naming everything that is exported loads a module of research."""
    made = "import dpi; dpi.Stream(domain=dpi.Categories(['a']), epsilon=1)"
    assert "dpi_research" not in loaded(f"{made}; from dpi import *")


@pytest.mark.parametrize(
    "lines",
    [
        [["--help"]],
        [["plan", "--epsilon", "1", "--users", "900", "--bins", "9"], ["run", "--help"], ["query", "--help"]],
    ],
)
def test_a_command_loads_no_research(lines):
    """Commands other than those of research load none of it; the list of commands loads none of what they need."""
    run = "from dpi.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end\n"
    program = [f"sys.argv = {['dpi', *words]!r}; exec({run!r})" for words in lines]
    found = loaded("; ".join(["import sys", *program]))
    assert "dpi_research" not in found
    if lines == [["--help"]]:
        assert found == {"typer", "rich"}


EXPORTED = {
    "Amounts", "Bins", "Boosted", "Categories", "Converging", "Discovery", "Hashed", "Ledger", "MemoryStore",
    "OptionError", "Product", "Published", "Release", "Signer", "Slots", "StateError", "StoreError", "Stream", "Texts",
    "__version__", "advance", "broker", "connect", "follow", "open", "open_store", "plan", "plot_series", "read",
    "spend_first",
}  # fmt: skip
"""Every name that a program may rely on; one that goes, or is renamed, breaks somebody's."""


def test_the_exported_names():
    """The package exports just these names: each is there, is listed by `dir` and comes with `import *`."""
    assert set(dpi.__all__) == EXPORTED
    assert len(EXPORTED) <= 30
    assert set(dir(dpi)) >= EXPORTED
    everything: dict[str, object] = {}
    exec("from dpi import *", everything)  # noqa: S102 - a fixed text
    assert everything.keys() - {"__builtins__"} == EXPORTED
    assert all(everything[name] is getattr(dpi, name) for name in EXPORTED)
    assert not hasattr(dpi, "Strem")


def test_types_know_what_is_exported():
    """The names that a type checker reads are those that a program gets, from the same modules."""
    tree = ast.parse(Path(dpi.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.name: str(node.module) for node in imports for alias in node.names}
    rooms = {name for name, module in typed.items() if module == "dpi"}
    assert {name: module for name, module in typed.items() if name not in rooms} == dpi._HOME
    assert all(getattr(dpi, name).__name__ == f"dpi.{name}" for name in rooms)


@pytest.mark.parametrize("name", sorted(EXPORTED))
def test_a_name_is_the_same_whatever_was_loaded_before(name):
    """An exported name never gives way to a module of the same name, which an import would put in its place."""
    assert importlib.util.find_spec(f"dpi.{name}") is None


def test_the_list_of_commands_is_told_without_what_other_helps_need():
    """The modules that render Markdown and tracebacks take as long to load as all the rest of `dpi --help`."""
    run = "from dpi.cli import main\ntry:\n    main()\nexcept SystemExit:\n    print('rich.markdown' in sys.modules)"
    program = f"import sys; sys.argv = ['dpi', '--help']; exec({run!r})"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"
    for words in ("Usage: dpi [OPTIONS] COMMAND [ARGS]...", "Begin with `dpi demo`.", "--version", "-h, --help"):
        assert words in said
    assert all(f"│ {name} " in said for name in dpi.cli.commands.COMMANDS)
