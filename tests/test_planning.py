import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import OptionError
from dpi.estimator import trained_digest
from dpi.planning import AGES, LABELS, PLAIN, TABLE, read_table

ROOT = Path(__file__).parents[1]
SIGNAL = read_table().signal
NUMBERS = {"users": st.integers(200, 10**7), "bins": st.integers(1, 10**5), "stickiness": st.floats(0.001, 1)}


@given(epsilon=st.floats(0.5, 10), **NUMBERS)
def test_all_errors_are_told_after_all_times(epsilon, **stated):
    """All are numbers above 0; where a number is outside of the table, a sentence says so."""
    plan = dpi.plan(epsilon=epsilon, **stated)
    assert [row.name for row in plan.errors] == [*LABELS, *PLAIN]
    assert all(len(row.after) == len(AGES) and min(row.after) > 0 for row in plan.errors)
    grids = (
        (epsilon * stated["users"], SIGNAL[0], SIGNAL[-1]),
        *(
            (stated[name], *(getattr(read_table(), name)[place] for place in (0, -1)))
            for name in ("bins", "stickiness")
        ),
    )
    assert len(plan.notes) == sum(not low <= value <= high for value, low, high in grids)
    assert all(note in str(plan) for note in plan.notes)


@given(epsilon=st.floats(0.5, 5), factor=st.floats(1, 100), **NUMBERS)
def test_more_users_never_make_an_error_larger(epsilon, factor, users, **stated):
    """Nor does a larger ε: noise depends on users × ε alone."""
    base = dpi.plan(epsilon=epsilon, users=users, **stated)
    more = dpi.plan(epsilon=epsilon, users=int(users * factor), **stated)
    double = dpi.plan(epsilon=epsilon, users=2 * users, **stated)
    for row, other, one, same in zip(
        base.errors,
        more.errors,
        double.errors,
        dpi.plan(epsilon=2 * epsilon, users=users, **stated).errors,
        strict=True,
    ):
        assert all(b <= a * (1 + 1e-9) for a, b in zip(row.after, other.after, strict=True))
        assert same.after == pytest.approx(one.after)


def test_at_the_points_of_the_table_its_errors_are_told():
    """And half-way between two of them, the geometric mean."""
    known = read_table()
    for place, name in enumerate(LABELS):
        plan = dpi.plan(epsilon=1, users=1000, bins=50, stickiness=known.stickiness[1])
        told = [100 * known.errors[name][age][SIGNAL.index(1000)][known.bins.index(50)][1] for age in range(len(AGES))]
        assert plan.errors[place].after == pytest.approx(told)
        middle = dpi.plan(epsilon=3**0.5, users=1000, bins=50, stickiness=known.stickiness[1])
        ends = [known.errors[name][0][SIGNAL.index(signal)][known.bins.index(50)][1] for signal in (1000, 3000)]
        assert middle.errors[place].after[0] == pytest.approx(100 * (ends[0] * ends[1]) ** 0.5)


def test_plain_noise_has_the_budget_of_its_slots():
    """A fifth of ε/T for a count, the rest for shares; no share is off by more than all users."""
    plan = dpi.plan(epsilon=2, users=1000, bins=9)
    assert plan.error("plain_active", 365) == pytest.approx(100 * 1.96 * 2**0.5 * 365 / (0.2 * 2 * 1000))
    assert plan.error("plain_share", 30) == pytest.approx(100 * 1.96 * 2**0.5 * 30 / (0.8 * 2 * 1000))
    assert plan.error("plain_share", 1825) == 100


def after(name, **stated):
    """Return an error, after all times."""
    return next(row.after for row in dpi.plan(**stated).errors if row.name == name)


@given(st.sampled_from([*LABELS]), st.floats(0.05, 200), st.integers(50, 10**6), st.integers(5, 500))
def test_the_smallest_epsilon_is_found(name, error, users, bins):
    """With it the error is as wanted at all ages; with a tenth less it is not, or the table begins there."""
    want, most = f"{name}={error}", min(10, SIGNAL[-1] / users)
    if most * users < SIGNAL[0] or max(after(name, epsilon=most, users=users, bins=bins)) > error:
        with pytest.raises(OptionError, match=re.escape(f"no ε up to {most:.2g}")):
            dpi.plan(want=want, users=users, bins=bins)
        return
    plan = dpi.plan(want=want, users=users, bins=bins)
    assert max(after(name, epsilon=plan.epsilon, users=users, bins=bins)) <= error * 1.01
    less = plan.epsilon * 0.89
    if less * users > SIGNAL[0]:
        assert max(after(name, epsilon=less, users=users, bins=bins)) > error * 0.99
    assert plan.want == want
    assert any("a smaller ε may be enough" in note for note in plan.notes) == (plan.epsilon * users <= 1.1 * SIGNAL[0])


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"users": 0}, "`users` must be a whole number above 0"),
        ({"bins": 1.5}, "`bins` must be a whole number above 0"),
        ({"epsilon": 0}, "`epsilon` must be at least"),
        ({"epsilon": None}, "state `epsilon`, or the error that you want with `want`"),
        ({"want": "active=3"}, "state `epsilon`, or the error that you want with `want`"),
        ({"stickiness": 0}, "`stickiness` must be above 0 and at most 1"),
        ({"users": 99}, "`users` times ε must be at least 100"),
        ({"epsilon": None, "want": "active"}, "`want` must be an error such as active=10"),
        ({"epsilon": None, "want": "active=-1"}, "`want` must be an error such as active=10"),
        ({"epsilon": None, "want": "users=1"}, "`want` must be an error such as active=10"),
        (
            {"epsilon": None, "want": "share_1=0.0001"},
            "no ε up to 10 brings the error of a share of 1 % to 0.0001 points",
        ),
        ({"epsilon": None, "want": "active=50", "users": 9}, "no ε up to 10 brings the error of active users to 50 %"),
    ],
)
def test_bad_input_gets_one_sentence(stated, sentence):
    """What is wrong, and what is expected."""
    with pytest.raises(OptionError, match=sentence):
        dpi.plan(**({"epsilon": 1, "users": 1000, "bins": 10} | stated))


def test_the_table_is_of_the_weights_that_are_shipped():
    """If this fails: python benchmarks/plan_table.py, then DPI_FIGURES=1 python benchmarks/plan.py."""
    stored = json.loads(files("dpi").joinpath(TABLE).read_text("utf-8"))
    assert stored["estimator"] == trained_digest()
    assert stored["ages"] == list(AGES)
    assert stored["errors"].keys() == LABELS.keys()


def test_a_plan_says_how_wrong_plans_were():
    """The figure that was measured in worlds that the table had not seen."""
    rows = json.loads((ROOT / "results" / "plan.json").read_text("utf-8"))["rows"]
    assert read_table().within == [round(row[2], 1) for row in rows[-2:]]
    assert all(f"{part:.0f} %" in dpi.plan(epsilon=1, users=1000, bins=10).doubt for part in read_table().within)
