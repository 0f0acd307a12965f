"""A page for each name that `dpi` exports: the list is the package's own, so that none is forgotten.

Some names that are not exported have a page too: what exported names return or take.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import dpi

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

TITLES = {
    "stream": "Streams",
    "release": "Releases",
    "reader": "Releases",
    "sources": "Events",
    "events": "Time",
    "domain": "Domains",
    "histogram": "Contributions of a user",
    "budget": "Budgets",
    "planning": "Budgets",
    "discovery": "Mechanisms",
    "mechanism": "Mechanisms",
    "store": "Stores",
    "certificates": "Stores",
    "client": "Service client",
    "errors": "Errors",
}


FURTHER = {
    "Releases": (dpi._HOME["open"], "Releases"),
    "Share": (dpi.Release.probability.__module__, "Releases"),
    "LogSquared": (dpi._HOME["Converging"], "Budgets"),
}
"""Where a class is that exported names return or take, and its theme."""
TABLES = {"Stream", "Ledger", "Release", "follow"}
"""Names whose parameters have a table in the reference of streams."""


def write(app: Sphinx, config: Config) -> None:
    """The pages, and the one that lists them by theme."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    themes: dict[str, list[str]] = {title: [] for title in TITLES.values()}
    pages = {}
    for name, module in dpi._HOME.items():
        themes[TITLES[module.split(".")[1]]].append(name)
        pages[f"{name}.md"] = page(name)
    for name, (_, title) in FURTHER.items():
        themes[title].append(name)
        pages[f"{name}.md"] = page(name)
    lines = [
        "# API",
        "",
        "Every name that `import dpi` gives, on a page of its own, and what these return or take.",
        "",
    ]
    for title, names in themes.items():
        lines += [f"## {title}", "", "| | |", "|---|---|"]
        lines += [f"| [`{name}`]({name}.md) | {summary(name)} |" for name in names] + [""]
    lines += ["```{toctree}", ":hidden:", "", *sorted(names for each in themes.values() for names in each), "```", ""]
    pages["index.md"] = "\n".join(lines)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for file, text in pages.items():
        path = folder / file
        if not path.exists() or path.read_text("utf-8") != text:  # what is the same is not built again
            path.write_text(text, "utf-8")


def summary(name: str) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(found(name)) or "").partition("\n")[0].replace("|", "\\|")


def found(name: str) -> object:
    """What has the name."""
    return getattr(import_module(FURTHER[name][0]) if name in FURTHER else dpi, name)


def page(name: str) -> str:
    """A class with its public members; a function; or an object that is called."""
    thing = found(name)
    directive = "autoclass" if inspect.isclass(thing) else "autofunction" if inspect.isroutine(thing) else "autodata"
    options = {"autoclass": "   :members:\n", "autofunction": "", "autodata": "   :no-value:\n"}[directive]
    where = f"{FURTHER[name][0]}.{name}" if name in FURTHER else f"dpi.{name}"
    table = "Its parameters and members [in tables](../streams.md#parameters).\n\n" if name in TABLES else ""
    return f"# {name}\n\n{table}```{{eval-rst}}\n.. {directive}:: {where}\n{options}```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Before pages are looked for."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True}
