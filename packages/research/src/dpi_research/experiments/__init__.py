"""The published evaluation, one module for each figure or table; `dpi reproduce` runs them.

A module has its `cases` and its `sheet`; what the report says of it stands in `words.toml`.

>>> experiment("endurance").title
'200,000 slots'
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from importlib.resources import files
from typing import Any

from dpi.errors import OptionError, meant
from dpi_research.reproduce.experiment import Experiment

WORDS: dict[str, dict[str, Any]] = tomllib.loads((files(__name__) / "words.toml").read_text(encoding="utf-8"))
NAMES = tuple(WORDS)
"""All experiments, in the order of the report."""


def experiment(name: str) -> Experiment:
    """Return an experiment by name: its module, and its words with the module's constants in their places."""
    if name not in NAMES:
        raise OptionError(f"there is no experiment {name!r}{meant(name, NAMES)}")
    module = import_module(f"{__name__}.{name}")

    def say(text: str) -> str:
        return " ".join(text.split()).format_map(vars(module))

    words = WORDS[name]
    title, published, setting = (say(words[part]) for part in ("title", "published", "setting"))
    deviations = (*getattr(module, "NOTES", ()), *map(say, words["deviations"]))
    return Experiment(name, title, published, setting, deviations, module.cases, module.sheet)
