"""For all amounts and weights: what is lost is charged, and what is charged is there."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

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
    """A bill and its debit as `Accounts` makes them: ε_t, what is left, its share, the policy's weight, weight, debit.

    By class, ε_t is the price of a group, whatever that is, and the policy's weight is 2^24.
    """
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
    return epsilon, remaining, limit, policy, weight, debit(epsilon, weight)


def promise(p, **parts):
    """What `dpi.budget.billing` promises of one bill."""
    epsilon, remaining, limit, policy, weight, cost = paid(p, **parts)
    p.claim("0 ≤ weight ≤ policy ≤ 2^24", z3.And(weight.z >= 0, weight.z <= policy.z, weight.z <= GRAINS))
    p.claim("debit ≤ what is left", cost.z <= remaining.z)
    p.claim("debit ≤ the share that is asked for", cost.z <= limit.z)
    p.claim("ε · grains ≤ debit · 2^24", epsilon.z * weight.z <= cost.z * GRAINS)
    p.claim("a debit is no more than needed", (cost.z - 1) * GRAINS < epsilon.z * weight.z)
    p.claim("no weight, no debit", z3.Implies(weight.z == 0, cost.z == 0))


@pytest.mark.parametrize("share", [lambda p: Fraction(1), any_share], ids=["all", "a share"])
def test_no_account_pays_more_than_it_has_and_every_loss_is_charged(share):
    """For every ε ≤ 1024, price, account and policy: weight ≤ policy, ε·grains ≤ debit·2^24, debit ≤ limit ≤ left."""
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


def any_step(p):
    """Any share that a class is asked for: a step of 2^-12."""
    return Share(p.integer("steps", 1, billing.SHARE_STEPS), billing.SHARE_STEPS)


def alone(p, epsilon):
    """The price of a group of one class."""
    return epsilon


def shared(p, epsilon):
    """The price of a group with other classes, one of which may cost more."""
    price = p.integer("price", 1, LARGEST)
    p.assume(price.z >= plain(epsilon))
    return price


def classed(p, share=any_step, price_of=alone, class_epsilon=billing.class_epsilon, most_left=billing.most_left):
    """An account of a class that pays: what is said of the class before holds of the account, and so it does after."""
    largest = p.integer("most left in the class", 1, LARGEST)
    left = p.integer("left", 0, LARGEST)
    p.assume(left.z <= largest.z)
    fraction = share(p)
    steps = fraction.numerator * (billing.SHARE_STEPS // fraction.denominator)
    taken, limit = billing.part(largest, fraction), billing.parts(left, steps)
    p.claim("a share does not fall with what there is", limit.z <= taken.z)
    p.claim("nor does the rest", left.z - limit.z <= largest.z - taken.z)
    price = price_of(p, class_epsilon(largest, fraction))
    units = plain(price)
    p.claim("what the slot takes is at most the price", z3.And(limit.z <= units, units >= 1))
    # Weight and debit are floor(limit · 2^24 / E) and ceil(E · weight / 2^24): of that the proofs above are.
    weight, cost = p.unknown(), p.unknown()
    p.assume(z3.And(weight * units <= limit.z * GRAINS, (weight + 1) * units > limit.z * GRAINS))
    p.assume(z3.And(cost * GRAINS >= weight * units, (cost - 1) * GRAINS < weight * units))
    p.claim("debit ≤ floor(f · left)", cost <= limit.z)
    p.claim("E · weight ≤ debit · 2^24", weight * units <= cost * GRAINS)
    p.claim("less than E/2^24 short of it", (limit.z - cost) * GRAINS < units)
    after = plain(most_left(largest, fraction, price))
    p.claim("left after ≤ L of the next class", left.z - cost <= after)
    p.claim("L does not grow", z3.And(after >= 0, after <= largest.z))


def priced(p, share=any_step, most_left=billing.most_left):
    """An account of a class whose group has a price of its own, which may be below the share: it pays the less."""
    largest, left = p.integer("most left in the class", 1, LARGEST), p.integer("left", 0, LARGEST)
    p.assume(left.z <= largest.z)
    fraction = share(p)
    price, cost = p.integer("price", 1, LARGEST), p.unknown()
    limit = billing.part(left, fraction)
    short = z3.And(cost >= 0, cost <= limit.z, (limit.z - cost) * GRAINS < price.z)  # by the claims of `classed`
    p.assume(z3.If(limit.z < price.z, short, cost == price.z))
    p.claim("debit ≤ floor(f · left)", cost <= limit.z)
    after = plain(most_left(largest, fraction, price))
    p.claim("left after ≤ L of the next class", left.z - cost <= after)
    p.claim("L does not grow", z3.And(after >= 0, after <= largest.z))


def spending(p, share=any_step, most_spent=billing.most_spent):
    """An account that had spent at most S pays at most a share of what is left: it has spent at most S of the next.

    Other streams may have taken from it, and by the price of its group it may pay less than the share.
    """
    epsilon = p.integer("epsilon", 1, LARGEST)
    bound, spent = p.integer("S", 0, LARGEST), p.integer("spent", 0, LARGEST)
    p.assume(z3.And(spent.z <= bound.z, bound.z <= epsilon.z))
    left, cost = p.integer("left", 0, LARGEST), p.integer("debit", 0, LARGEST)
    fraction = share(p)
    p.assume(z3.And(left.z <= epsilon.z - spent.z, cost.z <= billing.part(left, fraction).z))
    here, there = most_spent(spent, fraction, epsilon), most_spent(bound, fraction, epsilon)
    p.claim("a share of less is less", spent.z + cost.z <= here.z)
    p.claim("spent after ≤ S of the next class", here.z <= there.z)
    p.claim("S ≤ ε", z3.And(there.z >= bound.z, there.z <= epsilon.z))


@pytest.mark.parametrize("share", [lambda p: Fraction(1), any_step], ids=["all", "a share"])
@pytest.mark.parametrize(
    "statement",
    [classed, partial(classed, price_of=shared), priced, spending],
    ids=["left", "left in a group", "left at a price", "spent"],
)
def test_what_is_said_of_a_class_bounds_its_accounts(statement, share):
    """For every ε ≤ 1024, share, price and account: bounds that hold before a payment hold after it."""
    assert counterexample(lambda p: statement(p, share=share)) is None


def forgotten(p, parts=billing.parts):
    """One more slot takes the most from who has paid the most, at the largest share: lost slots are charged by that."""
    left = p.integer("left", 0, LARGEST)
    taken, most = p.integer("taken", 0, LARGEST), p.integer("most taken", 0, LARGEST)
    asked, largest = (p.integer(name, 0, billing.SHARE_STEPS) for name in ("steps", "largest steps"))
    p.assume(z3.And(taken.z <= most.z, most.z <= left.z, asked.z <= largest.z))
    after = most + parts(left - most, largest)
    p.claim("no share of less takes more", (taken + parts(left - taken, asked)).z <= after.z)
    p.claim("between what was taken and all", z3.And(after.z >= most.z, after.z <= left.z))


def test_lost_slots_take_most_where_every_one_of_them_was_paid_for():
    """For every account: with fewer payments, or smaller shares, no more is taken. Other parts than that are found."""
    assert counterexample(forgotten) is None
    assert "more" in counterexample(lambda p: forgotten(p, lambda x, f: x * f // billing.SHARE_STEPS * 2))
    assert "all" in counterexample(lambda p: forgotten(p, lambda x, f: x * f // billing.SHARE_STEPS + 1))


def by_own_budget(largest, share, price):
    """Wrong: rounds by the class's own budget, where the group's price is more."""
    return billing.most_left(largest, share, billing.class_epsilon(largest, share))


@pytest.mark.parametrize(
    ("statement", "parts", "broken"),
    [
        (classed, {"class_epsilon": lambda x, s: max(1, billing.part(x, s) - 1)}, "at most the price"),
        (classed, {"class_epsilon": lambda x, s: billing.part(x, s)}, "at most the price"),
        (classed, {"price_of": lambda p, e: p.integer("price", 1, LARGEST)}, "at most the price"),
        (classed, {"most_left": lambda x, s, e: x - billing.part(x, s)}, "left after ≤ L"),
        (classed, {"most_left": lambda x, s, e: x + 1}, "L does not grow"),
        (classed, {"price_of": shared, "most_left": by_own_budget}, "left after ≤ L"),
        (priced, {"most_left": lambda x, s, e: x - billing.part(x, s) + 1}, "left after ≤ L"),
        (spending, {"most_spent": lambda s, f, e: s + billing.part(s, f)}, "a share of less is less"),
        (spending, {"most_spent": lambda s, f, e: billing.part(e - s, f)}, "a share of less is less"),
    ],
    ids=[
        "less",
        "no unit",
        "any price",
        "no grains",
        "one more",
        "own grains",
        "all of the share",
        "of what was spent",
        "no sum",
    ],
)
def test_a_wrong_bound_is_found(statement, parts, broken):
    """Each changed bound has a counterexample, of the very claim that it breaks."""
    found = counterexample(lambda p: statement(p, **parts))
    assert found is not None
    assert broken in found
