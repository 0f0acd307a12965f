"""The published evaluation, one module for each figure or table; `dpi reproduce` runs them.

A module has its `cases` and its `sheet`; what the report says of it stands in `words.toml`.

>>> experiment("endurance").title
'200,000 slots'
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from dpi.errors import OptionError, meant
from dpi_research.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS: dict[str, dict[str, Any]] = tomllib.loads((files(__name__) / "words.toml").read_text(encoding="utf-8"))
NAMES = tuple(WORDS)
"""All experiments, in the order of the report."""


def experiment(name: str) -> Experiment:
    """Return an experiment by name: its module, and its words with the module's constants in their places."""
    if name not in NAMES:
        raise OptionError(f"there is no experiment {name!r}{meant(name, NAMES)}")
    module = import_module(f"{__name__}.{name}")

    def say(text: str) -> str:
        return _fill(text, vars(module))

    words = WORDS[name]
    title, published, setting = (say(words[part]) for part in ("title", "published", "setting"))
    deviations = (*getattr(module, "NOTES", ()), *map(say, words["deviations"]))
    return Experiment(name, title, published, setting, deviations, module.cases, module.sheet)


def captioned(module: str, figures: Mapping[str, object], **facts: object) -> dict[str, tuple[Figure, str]]:
    """Give figures of a module their captions, with facts and the module's constants in their places.

    What is no figure, because there are no rows for it, is left out.
    """
    captions, known = WORDS[module.rpartition(".")[2]]["captions"], {**vars(import_module(module)), **facts}
    drawn = {name: figure for name, figure in figures.items() if figure}
    return {name: (cast("Figure", figure), _fill(captions[name], known)) for name, figure in drawn.items()}


def _fill(text: str, known: Mapping[str, object]) -> str:
    return " ".join(text.split()).format_map(known)
