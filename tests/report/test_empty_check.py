import math

import pytest

import dpi
from dpi.report import page
from dpi.report.empty_check import are_noise, looks_empty, signals_to_noise
from made_releases import releases, without_total

DOMAIN = dpi.Categories(["DE", "FR"], other=None)
NOISE = 2 / 0.05
"""Standard deviation of a total at ε = 0.05, with two bins."""


def stream(*totals):
    """A stream with these totals, in standard deviations of their noise."""
    return [
        release for ratio in totals for release in releases(DOMAIN, 1, total=ratio * NOISE, total_variance=NOISE**2 / 2)
    ]


@pytest.mark.parametrize(
    ("totals", "nobody"),
    [
        ([0], True), ([3.9], True), ([4.1], False),
        ([3.9, 0, 0, 0], True), ([5.1, 0, 0, 0], False), ([4.8, 0, 0, 0], True),
        ([1.9] * 4, True), ([2.1] * 4, False), ([0.5] * 48, True), ([0.7] * 48, False),
    ],
)  # fmt: skip
def test_totals_that_stand_out_are_somebody(totals, nobody):
    """One slot far out of its noise, or all of them together, is heard; the more slots, the farther one must be."""
    assert looks_empty(stream(*totals)) is nobody


def test_where_nothing_was_measured_nothing_is_said():
    """No releases, no totals, no budget."""
    assert not looks_empty([])
    assert not looks_empty(without_total(DOMAIN, 3))
    assert not looks_empty(releases(DOMAIN, 3, total=0.0, epsilon=0.0))
    assert are_noise([(math.nan, math.nan), (1.0, math.nan)])
    assert not are_noise([])


@pytest.mark.parametrize(("newcomers", "nobody"), [(3.9, True), (4.1, False)])
def test_newcomers_are_somebody_where_totals_are_forecasts(newcomers, nobody):
    """Few users pay in a slot of the second day: its total is wide and says nothing; newcomers are measured."""
    ratios = [(0.5, newcomers / 2)] * 4
    assert are_noise(ratios) is nobody


def test_a_second_day_is_not_taken_for_an_empty_one():
    """Newcomers of a slot stand out of the noise of one without users."""
    stream = dpi.Stream(domain=DOMAIN, epsilon=1)
    days = [stream.release([f"{day} {n}" for n in range(400)], ["DE", "FR"] * 200) for day in range(6)]
    empty = [stream.release([], []) for _ in range(6)]
    assert not looks_empty(days[3:])
    assert signals_to_noise(days[-1])[1] > 10 > abs(signals_to_noise(empty[-1])[1])


def test_the_page_warns():
    """A report of such releases says so; another does not."""
    quiet = releases(DOMAIN, 3, total=NOISE)
    assert "look like an empty stream" in page(quiet, title="Visits")
    assert "look like an empty stream" not in page(releases(DOMAIN, 3), title="Visits")
