"""The published evaluation, one file for each figure or table; `dpi reproduce` runs them.

>>> experiment("endurance").name
'endurance'
"""

from __future__ import annotations

from importlib import import_module

from dpi.errors import OptionError, meant
from dpi_research.reproduce.experiment import Experiment

NAMES = (
    "hyperparameters",
    "queries",
    "anomaly",
    "recommender",
    "dynamic",
    "synthetic",
    "endurance",
    "remaining",
    "expressiveness",
    "methods",
    "datasets",
    "defaults",
    "accounting",
    "optimum",
)
"""All experiments, in the order of the report."""


def experiment(name: str) -> Experiment:
    """An experiment by name; each stands in the module of its name as EXPERIMENT."""
    if name not in NAMES:
        raise OptionError(f"there is no experiment {name!r}{meant(name, NAMES)}")
    found = import_module(f"dpi_research.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)  # noqa: S101 - a test opens them all
    return found
