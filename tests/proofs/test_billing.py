"""For all amounts and weights: what is lost is charged, and what is charged is there."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import z3

from dpi.budget import billing
from dpi.budget.epsilon import LARGEST
from dpi.exact.integers import GRAINS, fraction_ceil, fraction_floor
from solver import Term, counterexample, plain


@dataclass
class Share:
    """Any share but one."""

    numerator: Term
    denominator: Term


def any_share(p):
    """Any fraction above 0 and below 1 that `Accounts.bill` takes."""
    numerator, denominator = (p.integer(name, 1, billing.SHARE_STEPS) for name in ("numerator", "denominator"))
    p.assume(numerator.z < denominator.z)
    return Share(numerator, denominator)


def amounts(p):
    """Any ε_t of a slot that costs something, any ε, and any account of it."""
    epsilon, total = p.integer("epsilon of the slot", 1, LARGEST), p.integer("epsilon", 1, LARGEST)
    spent = p.integer("spent", 0, LARGEST)
    p.assume(spent.z <= total.z)
    return epsilon, total, spent


def paid(p, share=lambda p: Fraction(1), part=billing.part, affordable=billing.affordable, debit=billing.debit):
    """A bill and its debit as `Accounts` makes them: ε_t, what is left, the policy's weight, the weight, the debit."""
    epsilon, total, spent = amounts(p)
    policy = p.integer("policy", 0, GRAINS)
    remaining = billing.left(total, spent)
    fraction = share(p)
    limit = part(remaining, fraction)
    of, steps = plain(fraction.numerator), plain(fraction.denominator)
    p.claim("a share is at most the whole", z3.And(limit.z >= 0, limit.z <= remaining.z))
    p.claim(
        "a share, rounded down", z3.And(limit.z * steps <= remaining.z * of, (limit.z + 1) * steps > remaining.z * of)
    )
    grains = affordable(policy, limit, epsilon) if limit < epsilon else policy
    weight = billing.weight(grains)
    return epsilon, remaining, policy, weight, debit(epsilon, weight)


def promise(p, **parts):
    """What `dpi.budget.billing` promises of one bill."""
    epsilon, remaining, policy, weight, cost = paid(p, **parts)
    p.claim("0 ≤ weight ≤ policy ≤ 2^24", z3.And(weight.z >= 0, weight.z <= policy.z, weight.z <= GRAINS))
    p.claim("debit ≤ what is left", cost.z <= remaining.z)
    p.claim("ε · grains ≤ debit · 2^24", epsilon.z * weight.z <= cost.z * GRAINS)
    p.claim("a debit is no more than needed", (cost.z - 1) * GRAINS < epsilon.z * weight.z)
    p.claim("no weight, no debit", z3.Implies(weight.z == 0, cost.z == 0))


@pytest.mark.parametrize("share", [lambda p: Fraction(1), any_share], ids=["all", "a share"])
def test_no_account_pays_more_than_it_has_and_every_loss_is_charged(share):
    """For every ε ≤ 1024, account, policy and slot: weight ≤ policy, ε·grains ≤ debit·2^24, debit ≤ what is left."""
    assert counterexample(lambda p: promise(p, share=share)) is None


def floor_debit(epsilon, weights):
    """Wrong: rounds a debit down."""
    high, low = divmod(epsilon, GRAINS)
    return high * weights + (low * weights >> 24)


def plain_debit(epsilon, weights):
    """Wrong: does not split the product of up to 74 bits."""
    return (epsilon * weights + (GRAINS - 1)) >> 24


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        ({"affordable": lambda p, x, e: np.minimum(p, fraction_floor(x, e) + 1)}, "debit ≤ what is left"),
        ({"affordable": lambda p, x, e: np.maximum(p, fraction_floor(x, e))}, "≤ policy"),
        ({"affordable": lambda p, x, e: p}, "debit ≤ what is left"),
        ({"debit": floor_debit}, "ε · grains ≤ debit"),
        ({"debit": plain_debit}, "a product fits int64"),
        ({"debit": lambda e, w: fraction_ceil(e, w) + 1}, "debit ≤ what is left"),
        ({"debit": lambda e, w: fraction_ceil(e, w) - 1}, "ε · grains ≤ debit"),
        ({"part": lambda x, s: x + 1}, "a share is at most the whole"),
        ({"share": any_share, "part": lambda x, s: x}, "a share, rounded down"),
        ({"share": any_share, "part": lambda x, s: x * s.denominator // s.numerator}, "a share is at most the whole"),
    ],
    ids=[
        "weight up",
        "larger",
        "policy alone",
        "down",
        "plain",
        "and one",
        "less one",
        "share and one",
        "no share",
        "upside down",
    ],
)
def test_a_wrong_rounding_is_found(parts, broken):
    """Each changed direction, sign or bound has a counterexample, of the very claim that it breaks."""
    found = counterexample(lambda p: promise(p, **parts))
    assert found is not None
    assert broken in found


def levied(p, available=billing.available):
    """An old copy of an account, the units that the lost slots cost, and what it truly has spent."""
    epsilon = p.integer("epsilon", 1, LARGEST, kind="python")
    levy = p.integer("levy", 0, 1 << 100, kind="python")
    copied, truly = p.integer("spent in the copy", 0, LARGEST), p.integer("truly spent", 0, LARGEST)
    p.assume(z3.And(copied.z <= epsilon.z, truly.z <= epsilon.z, truly.z <= copied.z + levy.z))
    held = available(epsilon, levy)
    if isinstance(held, int):
        p.claim("nothing is held only where all was levied", levy.z >= epsilon.z)
        return
    p.claim("no levy raises what accounts hold", z3.And(held.z >= 0, held.z <= epsilon.z))
    p.claim("left ≤ what is truly left", billing.left(held.astype("int64"), copied).z <= epsilon.z - truly.z)


def test_a_levy_never_refills():
    """After a levy no account has more left than it truly has, whatever was spent in the slots that were lost."""
    assert counterexample(levied) is None


@pytest.mark.parametrize(
    "available",
    [lambda e, levy: max(0, e + levy), lambda e, levy: max(0, e - levy + 1), lambda e, levy: max(levy, e - levy)],
    ids=["sign", "one more", "another bound"],
)
def test_a_levy_that_refills_is_found(available):
    """A changed sign or bound has a counterexample."""
    assert counterexample(lambda p: levied(p, available)) is not None


def test_levies_add_up():
    """Two levies take at least what each takes, and no order of them leaves more."""

    def statement(p):
        epsilon = p.integer("epsilon", 1, LARGEST, kind="python")
        one, two = (p.integer(name, 0, 1 << 100, kind="python") for name in ("one", "two"))
        both, first = (billing.available(epsilon, levy) for levy in (one + two, one))
        p.claim("more levies, less left", (both if isinstance(both, int) else both.z) <= getattr(first, "z", first))

    assert counterexample(statement) is None
