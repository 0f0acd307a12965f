import subprocess
import sys

import numpy as np
import pytest

import dpi
import made_releases
from dpi.apps import Statistic, frame
from dpi.noise import UnsafeSeededSource
from dpi_research.evaluation import agreement, divergence, highest, mean_squared_error

AGES = dpi.Bins([0, 10, 20, 30])


def test_a_series_holds_the_answers_of_each_release():
    """Every question gives, slot after slot, what the release itself answers, with its interval."""
    releases = made_releases.releases(AGES, 5)
    for words in (["count"], ["sum"], ["mean"], ["median"], ["spread"], ["quantile", 0.9], ["range", 5, 25]):
        points = list(Statistic(*words).over(releases, level=0.9))
        answers = [getattr(release, words[0])(*words[1:]) for release in releases]
        assert [point.slot for point in points] == [0, 1, 2, 3, 4]
        assert [(point.value, point.error) for point in points] == [(a.value, a.error) for a in answers]
        assert [(point.lower, point.upper) for point in points] == [a.interval(0.9) for a in answers]


def test_a_table_has_a_row_for_each_slot_and_statistic():
    """Statistics stand one below the other, by name; without releases the table is empty and has its columns."""
    table = frame(made_releases.releases(AGES, 3), Statistic("mean"), Statistic("range", 0, 10))
    assert table["statistic"].to_list() == ["mean", "range 0 10"] * 3
    assert table.columns == ["slot", "start", "statistic", "value", "error", "lower", "upper"]
    assert frame([], Statistic("mean")).columns == table.columns


def test_intervals_of_a_stream_cover_its_truth():
    """On a stream of 20,000 users at ε = 1 the mean of every slot lies in an interval of six standard errors."""
    rng = np.random.default_rng(1)
    stream = dpi.Stream(domain=AGES, epsilon=1, budget=dpi.Ledger(per_slot=1), unsafe_source=UnsafeSeededSource(2))
    values = rng.uniform(0, 30, 20_000)
    release = stream.release(np.arange(values.size), values)
    counts = np.bincount(AGES.encode(values), minlength=AGES.size)
    truth = float(counts @ [0, 5, 15, 25, 30]) / counts.sum()
    [point] = Statistic("mean").over([release])
    assert abs(point.value - truth) < 6 * point.error + 1e-9
    assert point.error < 1


def test_unknown_questions_and_arguments_are_refused():
    """A question that has no number as its answer, or with wrong arguments, says what is expected."""
    with pytest.raises(dpi.OptionError, match="must be one of count, mean"):
        Statistic("top", 3)
    with pytest.raises(dpi.OptionError, match="too few arguments"):
        list(Statistic("quantile").over(made_releases.releases(AGES, 1)))
    with pytest.raises(dpi.OptionError, match="at least one Statistic"):
        frame([])


def test_evaluation_is_not_loaded_by_the_applications():
    """Neither the package, nor its applications, nor the command line load the module that takes a truth."""
    code = "import sys, dpi, dpi.apps, dpi.cli.app, dpi.report; print('dpi_research.evaluation' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_applications_load_scikit_learn_only_when_it_is_used():
    """Importing `dpi.apps`, or watching by HBOS, needs no extra."""
    code = "import sys, dpi.apps; dpi.apps.Watch(); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_measures_of_a_truth():
    """Errors, divergences and agreements have their known values, and refuse what does not fit."""
    assert mean_squared_error([0.0, 3.0], [0.0, 0.0]) == 4.5
    assert divergence(np.array([0.25, 0.75]), np.array([0.25, 0.75])) == 0
    assert agreement({1, 2, 3, 4}, {1}).recall == 0.25
    assert agreement({1}, set()).precision == 0
    assert highest(np.array([[1.0, 5.0], [7.0, 2.0]]), 0.5) == {1, 2}
    for refused in (lambda: mean_squared_error([], []), lambda: highest(np.ones(2), 0)):
        with pytest.raises(dpi.OptionError):
            refused()
