"""The evaluation in its quick form, as `dpi reproduce --all --quick` runs it."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpi_research.datasets._dataset import FOLDER
from dpi_research.experiments import NAMES, experiment
from dpi_research.reproduce import Outcome, run, write
from strategies import few

LARGEST = 200_000
"""Bytes of a figure, or of the data of an experiment."""

SLOW = bool(os.environ.get("DPI_SLOW"))
SHORT = NAMES if SLOW else ("recommender", "expressiveness", "datasets")
"""Those that are computed: the others take most of the time, and their parts have tests of their own."""


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Outcome]]:
    """The report's folder and what stands in it; without data sets, wherever it runs, unless DPI_SLOW is set."""
    folder = tmp_path_factory.mktemp("reproduction")
    with pytest.MonkeyPatch.context() as patch:
        if not SLOW:
            patch.delenv(FOLDER, raising=False)
        outcomes = run([experiment(name) for name in SHORT], folder, quick=True, processes=few(1, 2))
    write(outcomes, folder, quick=True)
    return folder, outcomes


def test_every_experiment_is_computed_or_says_what_it_needs(reproduction: tuple[Path, list[Outcome]]) -> None:
    """Nothing is left out in silence. (All of it with DPI_SLOW, the shorter ones without.)"""
    folder, outcomes = reproduction
    text = (folder / "report.md").read_text()
    for outcome in outcomes:
        assert outcome.rows or outcome.missing
        assert f'<a id="{outcome.experiment.name}"></a>' in text
        for name in outcome.missing:
            assert f"Not computed: the data set `{name}`" in text


def test_figures_can_be_read_and_are_small(reproduction: tuple[Path, list[Outcome]]) -> None:
    """Every figure is on the page, is well-formed, has text, and is of a size that a repository can hold."""
    folder, _ = reproduction
    text = (folder / "index.html").read_text()
    figures = list(folder.glob("*.svg"))
    assert figures
    for figure in figures:
        assert f'src="{figure.name}"' in text
        assert figure.stat().st_size < LARGEST
        words = [element for element in ElementTree.parse(figure).iter() if element.tag.endswith("}text")]  # noqa: S314
        assert words
    for data in folder.glob("*.csv"):
        assert data.stat().st_size < LARGEST


def test_the_report_has_a_figure_of_each_experiment(reproduction: tuple[Path, list[Outcome]]) -> None:
    """One each of those that have some, and no other file: the page that the command writes has the rest."""
    folder, outcomes = reproduction
    linked = re.findall(r"\]\(([^#)][^)]*)\)", (folder / "report.md").read_text())
    assert all((folder / name).is_file() for name in linked)
    drawn = {name.partition("-")[0] for name in linked}
    assert len(drawn) == len(linked)
    assert drawn == {
        outcome.experiment.name for outcome in outcomes if any(folder.glob(f"{outcome.experiment.name}-*"))
    }


def test_every_experiment_says_what_is_other_than_published() -> None:
    """Experiments that only compute formulas may have nothing to say; those that play a stream must."""
    for name in NAMES:
        made = experiment(name)
        assert made.name == name
        assert made.published
        assert made.setting
        if any("slots" in case.options or "seed" in case.options for case in made.cases(False)):
            assert made.deviations, name


def test_seeds_are_recorded_and_no_case_stands_twice() -> None:
    """A result is found by its options, so two cases with the same options would be one."""
    for name in NAMES:
        for quick in (False, True):
            digests = [case.digest for case in experiment(name).cases(quick)]
            assert len(set(digests)) == len(digests), name
