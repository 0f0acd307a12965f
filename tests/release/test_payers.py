"""Questions to a release of payers only: numbers of users have no upper end, and the release says whom it describes."""

import json
import math

import numpy as np
import pytest

import dpi
from dpi.errors import StateError
from dpi.release import from_frame, to_frame
from dpi.release.table import tidy
from dpi.settings.questions import asked, describe
from made_releases import release

PAGES = dpi.Product(page=dpi.Categories(["home", "cart"]), age=dpi.Bins([18, 65]))
AGES = dpi.Bins([-5, 5])


def made(domain, **changes):
    """One release."""
    return release(domain, 3, np.random.default_rng(1), **changes)


def test_a_number_of_users_is_a_lower_bound():
    """Of all, of a value, of a segment and of a part; shares are as they were."""
    short, full = made(PAGES, payers=True), made(PAGES)
    value = {"page": "home", "age": 20}
    for ask in (
        lambda d: d.count(),
        lambda d: d.count(value),
        lambda d: d.where(page="home").count(),
        lambda d: d.marginal("age").count(20),
        lambda d: d.join_size(full),
        lambda d: full.join_size(d),
    ):
        here, there = ask(short), ask(full)
        assert (here.value, here.interval()[0]) == (there.value, there.interval()[0])
        assert math.isinf(here.interval()[1])
        assert math.isfinite(there.interval()[1])
    assert short.probability(value) == full.probability(value)
    assert short.interval()[1].tolist() == full.interval()[1].tolist()


@pytest.mark.parametrize(
    ("edges", "open_below", "open_above"),
    [([0, 5], False, True), ([-5, 5], True, True), ([-5, 0], True, False)],
)
def test_a_sum_is_open_where_missing_users_can_move_it(edges, open_below, open_above):
    """Who is missing adds a value of the domain: nothing below 0 if there is none."""
    found = made(dpi.Bins(edges), payers=True).sum()
    assert [math.isinf(end) for end in found.interval()] == [open_below, open_above]
    assert found.known is not open_below
    assert all(math.isfinite(end) for end in made(dpi.Bins(edges)).sum().interval())


def test_an_open_end_is_null_in_json_and_in_tables():
    """No file has an infinite number in it."""
    short = made(PAGES, payers=True)
    (row,) = asked(["total"])(short)
    assert row.plain()["upper"] is None
    json.dumps([row.plain(), describe(short)], allow_nan=False)
    table = tidy([(made(PAGES), None), (short, None)], None)
    assert table["payers"].to_list() == [False] * PAGES.size + [True] * PAGES.size
    assert table["upper_users"].is_null().to_list() == table["payers"].to_list()
    assert not table["lower_users"].is_null().any()


def test_a_release_keeps_it_and_one_of_before_does_not_say_it():
    """Through JSON, bytes and frames; what other releases are made of has not changed."""
    short, full = made(AGES, payers=True), made(AGES)
    assert dpi.Release.from_json(short.to_json(), AGES) == short
    assert dpi.Release.from_content(short.content(), AGES, short.certificate).payers
    assert [each.payers for each in from_frame(to_frame([short, full]), AGES)] == [True, False]
    assert "payers" not in json.loads(full.to_json())
    for wrong in (False, 1, "yes"):
        with pytest.raises(StateError):
            dpi.Release.from_json(json.dumps(json.loads(short.to_json()) | {"payers": wrong}), AGES)


def test_an_answer_says_whom_and_when_it_is_about():
    """What was carried forward and how old it is, of a release by class; of another all was measured."""
    carried = describe(made(AGES, carried=0.25, age=8.0))
    assert (carried["carried"], carried["age"], carried["payers"]) == (0.25, 8.0, False)
    assert (describe(made(AGES))["carried"], describe(made(AGES, epsilon=0.0))["carried"]) == (0.0, 1.0)


def test_a_card_says_whom_it_describes():
    """In a notebook, too; and its number has no upper end."""
    short = made(AGES, payers=True)
    assert "users who can still pay" in short._repr_html_()
    assert "at least" in short.count()._repr_html_()
