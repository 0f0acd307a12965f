"""Odd values, in ids, times and values: nothing is said of them, and nobody else's row is another one for them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from odd_values import DOMAINS, END, START, VALUES, Loud, parts, rows

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.exact.integers import GRAINS, MOST
from dpi.histogram.compression import normalise, totals

ERRORS = {**ENVIRONMENT, "PYTHONWARNINGS": "error"}


def test_every_engine_is_silent_about_odd_values_and_comes_to_the_same(tmp_path):
    """With warnings as errors, a process that meets them in every domain ends well, and standard error is empty.

    One of the domains is as loud as libraries can be: so it is silence that is seen here, and not luck.
    """
    here = Path(__file__).parent
    paths = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(here), str(here.parent)])
    words = [sys.executable, str(here / "odd_values.py"), str(tmp_path)]
    child = subprocess.run(words, env={**ERRORS, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")
    found = json.loads(child.stdout)
    assert found.keys() == DOMAINS.keys()
    for name, engines in found.items():
        assert all(engine == engines["embedded"] for engine in engines.values())
        assert len(engines["embedded"]["releases"][""]) == 2
        if not isinstance(DOMAINS[name], Loud):  # which no store can read
            assert engines["embedded"]["problems"] == []


@pytest.mark.parametrize(("suffix", "engine"), [("csv", "pool"), ("ndjson", None), ("parquet", None)])
def test_the_command_line_is_silent_about_odd_amounts(tmp_path, suffix, engine):
    """Standard error is empty and the exit code 0, whatever one user's amount is; warnings are errors."""
    table = pl.DataFrame([row for row in rows(DOMAINS["amounts"]) if isinstance(row["value"], float)], orient="row")
    path = tmp_path / f"events.{suffix}"
    writers = {"csv": table.write_csv, "ndjson": table.write_ndjson, "parquet": table.write_parquet}
    writers.get(suffix, table.write_ipc)(path)
    words = ["run", path, "--amount", "value", "--slot", "1h", "--from", START, "--to", END, "--epsilon", "1"]
    words += ["--store", tmp_path / "s.db", *(() if engine is None else ("--engine", engine))]
    child = subprocess.run([*PROGRAM, *words], env=ERRORS, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")


def histogram(domain: dpi.Domain, table: list[dict[str, object]]) -> np.ndarray:
    """The grains of a table's rows, whatever their times."""
    columns = {part: [row[name] for row in table] for part, name in parts(domain).items()}
    method = totals if domain.summed else normalise
    return dpi.histogram.compress(
        [row["user"] for row in table], columns.get("", columns), domain, method=method
    ).grains


@pytest.mark.parametrize("domain", [domain for domain in DOMAINS.values() if not isinstance(domain, Loud)], ids=repr)
def test_an_odd_value_adds_to_its_own_user_and_changes_no_other(domain):
    """The histogram with one more user is the one without, and what that user adds alone: at most one unit."""
    others = rows(domain, with_odd=False)
    expected = histogram(domain, others)
    for value in VALUES:
        one = [{**others[0], **dict.fromkeys(parts(domain).values(), value), "user": "odd"}]
        alone = histogram(domain, one)
        assert 0 <= alone.sum() <= GRAINS
        assert (histogram(domain, others + one) == expected + alone).all()


@pytest.mark.parametrize("step", ["1", "1e-12", "1e12", "0.3"])
def test_an_amount_is_cut_to_the_largest_that_there_is(step):
    """Beyond the cap it is the cap, also where scaling it to steps would leave the range of floats."""
    domain = dpi.Amounts(step)
    for amount in (1e308, -1e308, 5e-324, -0.0, 2**63, -(2**64), 1.0, 2e9, 3e-3, 1e21, -3e21):
        steps = min(max(round(Fraction(amount) / Fraction(step)), -MOST), MOST)
        for column in ([amount], [str(amount)], np.array([amount], dtype=np.float64)):
            assert int(domain.signed(*domain.encode_rows(column))[0]) == steps
    infinite = domain.signed(*domain.encode_rows([math.inf, "-1e400", 10**400, "9" * 400, -(10**5000)]))
    assert infinite.tolist() == [MOST, -MOST, MOST, MOST, -MOST]
