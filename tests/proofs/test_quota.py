"""For all amounts: whatever quotas are given and paid from, one user's sum over all accounts is at most ε."""

import pytest
import z3

from dpi.budget import billing as quota
from dpi.budget.epsilon import LARGEST
from solver import counterexample, plain


def granted(
    p, rest=quota.unassigned, assignable=quota.assignable
):  # the functions that registration and verifiers call
    """A user of two quotas and of the rest, of whom all that is said holds, before and after one of them grows."""
    epsilon = p.integer("epsilon", 1, LARGEST, kind="python")
    one, two = (p.integer(name, 0, LARGEST, kind="python") for name in ("a quota", "another"))
    p.assume(one.z + two.z <= epsilon.z)
    here, there, paid = (p.integer(f"paid {name}", 0, LARGEST, kind="python") for name in ("here", "there", "rest"))
    left = rest(epsilon, [one, two])
    p.claim("nothing is lost", plain(left) == epsilon.z - one.z - two.z)
    p.assume(z3.And(here.z <= one.z, there.z <= two.z, paid.z <= epsilon.z - one.z - two.z))
    bound = p.integer("bound of what was paid from the rest", 0, 1 << 60, kind="python")
    p.assume(paid.z <= bound.z)
    free, more = plain(assignable(left, bound)), p.integer("more", 0, LARGEST, kind="python")
    p.assume(more.z <= free)
    after = plain(rest(epsilon, [one, two + more]))
    p.claim("the rest is not negative", after >= 0)
    p.claim("who paid from the rest paid no more than is left of it", paid.z <= after)
    # After that each account pays up to what it holds (`test_billing`).
    spent = [p.unknown() for _ in range(3)]
    for each, held, before in zip(spent, (one.z, two.z + more.z, after), (here.z, there.z, paid.z), strict=True):
        p.assume(z3.And(each >= before, each <= held))
    p.claim("all that was paid is at most ε", z3.Sum(spent) <= epsilon.z)


def test_quotas_and_the_rest_never_exceed_epsilon():
    """For every ε ≤ 1024, quotas, payments, public bound and growth: Σ x_s + y ≤ ε, before and after."""
    assert counterexample(granted) is None


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        ({"assignable": lambda left, spent: left}, "no more than is left"),
        ({"assignable": lambda left, spent: left - min(left, spent) + 1}, "the rest is not negative"),
        ({"assignable": lambda left, spent: max(left, spent)}, "not negative"),
        ({"rest": lambda epsilon, quotas: epsilon - max(quotas)}, "nothing is lost"),
    ],
    ids=["whatever was spent", "one more", "the larger", "the largest alone"],
)
def test_a_wrong_rule_is_found(parts, broken):
    """A quota of what may be spent, or a rest that forgets a quota, has a counterexample."""
    found = counterexample(lambda p: granted(p, **parts))
    assert found is not None
    assert broken in found
