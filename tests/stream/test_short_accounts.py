"""Releases of users whose accounts may not suffice describe payers only, and say so: a public fact."""

import math

import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.budget.policy import fade
from dpi.noise import UnsafeSeededSource

DOMAIN = dpi.Categories(["home", "cart"])
USERS = list(range(2_000))
VALUES = ["home", "cart"] * 1_000


def play(slots: int, users: list[int] = USERS, **options) -> list[dpi.Release]:
    """The releases of slots in which the same users come."""
    stream = dpi.Stream(domain=DOMAIN, epsilon=1, **options)
    return [stream.release(users, VALUES[: len(users)]) for _ in range(slots)]


def test_a_number_of_users_is_at_least_what_is_said_once_accounts_may_be_empty():
    """2,000 users stay, and each pays for five slots: from the sixth on nobody is measured, and no upper end is told.

    Noise is seeded.
    """
    found = play(9, budget=dpi.Ledger(slots=5), unsafe_source=UnsafeSeededSource(1))
    assert [release.payers for release in found] == [False] * 5 + [True] * 4
    ends = [release.count().interval() for release in found]
    assert all(lower <= len(USERS) <= upper for lower, upper in ends[:5])
    assert all(lower <= len(USERS) and math.isinf(upper) for lower, upper in ends[5:])
    assert all("users who can still pay" in str(release.scope) for release in found[5:])
    assert {release.scope for release in found[:5]} == {None}


def test_whether_it_is_said_does_not_depend_on_who_comes():
    """The same slots say it of nobody, of one user and of two thousand."""
    said = {tuple(r.payers for r in play(7, users, budget=dpi.Ledger(slots=3))) for users in ([], [7], USERS)}
    assert said == {(False,) * 3 + (True,) * 4}


@pytest.mark.parametrize(
    "budget", [dpi.Ledger(slots=3), dpi.Ledger(per_slot="0.3"), dpi.Ledger(per_slot="0.5")], ids=str
)
def test_it_is_said_from_the_slot_on_that_an_account_may_not_pay(budget):
    """The number of slots that an account pays for is public, before the first of them."""
    lasts = budget.lasts(Epsilon.at_most(1))
    assert [release.payers for release in play(lasts + 2, budget=budget)] == [False] * lasts + [True] * 2


def test_other_accounts_have_no_such_number():
    """By class, refilled, fading, of several prices, or of users who do not come back."""
    others = [
        {}, {"slots": 3, "period": 2}, {"slots": 3, "policy": fade()}, {"slots": 9, "every": 2},
        {"slots": 3, "returning": False},
    ]  # fmt: skip
    assert {dpi.Ledger(**options).lasts(Epsilon.at_most(1)) for options in others} == {None}


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (dpi.Ledger(), [False] * 6),
        (dpi.Ledger(slots=2, returning=False), [False] * 6),
        (dpi.Ledger(slots=2, period=2), [False] * 6),
        (dpi.Ledger(slots=2, period=3), [False, False, True] * 2),
        (dpi.Ledger(slots=2, quota="0.5"), [False, True, True, True, True, True]),
        (dpi.Ledger(slots=10, policy=fade()), [False] + [True] * 5),
        (dpi.Converging(dpi.budget.LogSquared()), [False] * 6),
    ],
    ids=str,
)  # fmt: skip
def test_which_budgets_can_leave_users_out(budget, said):
    """Accounts by class keep something for ever; refilled ones are full again; a fading user counts less at once."""
    if isinstance(budget, dpi.Ledger) and budget.quota is not None:
        budget = dpi.Ledger(per_slot=0.5, quota="0.5")
    assert [release.payers for release in play(6, budget=budget)] == said


def test_a_stream_that_another_one_takes_from_says_it():
    """Who pays from accounts that another stream uses may find less in them; a quota is one's own."""
    store = dpi.MemoryStore()

    def declare(name: str, **options) -> dpi.Stream:
        return dpi.Stream(domain=DOMAIN, epsilon=1, store=store, name=name, budget=dpi.Ledger(**options))

    own, one = declare("own", quota="0.25"), declare("one")
    assert not own.release(USERS, VALUES).payers
    assert not one.release(USERS, VALUES).payers
    declare("other", per_slot=0.1).release(USERS, VALUES)
    assert not own.release(USERS, VALUES).payers
    short = one.release(USERS, VALUES)
    assert short.payers
    assert math.isinf(short.count().interval()[1])
