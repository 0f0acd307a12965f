"""The estimator by class, which every stream has unless another is asked for, is as good as it was."""

import json

import pytest

from clocked_streams import STORED, STREAMS, measured

WORSE = 1.1
"""A divergence may grow by this factor before the guard says so: rounding moves long runs by a few per cent."""

OFF = 0.02
"""A coverage of bins may fall by this much; that of totals, of which a slot has one, by three binomial deviations."""


@pytest.mark.parametrize("name", STREAMS)
def test_nothing_gets_worse(name):
    """Divergence and coverage are those stored by `clocked_streams.py --write`, within `WORSE` and `OFF`."""
    stored, now = json.loads(STORED.read_text("utf-8"))[name], measured(STREAMS[name])
    assert now["divergence"] <= WORSE * stored["divergence"] + 1e-5
    assert now["divergence"] <= now["uniform"] + 0.01
    assert now["bins"] >= stored["bins"] - OFF
    assert now["total"] >= stored["total"] - 3 * (0.95 * 0.05 / now["slots"]) ** 0.5
