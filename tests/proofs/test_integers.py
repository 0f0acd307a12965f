"""For all integers of the stated ranges: exact quotients and sums, and no intermediate beyond 64 bits."""

import numpy as np
import pytest
import z3

from dpi.exact.integers import GRAINS, MOST, capped, each, fraction_ceil, fraction_floor, halves, proportional
from solver import counterexample

ROWS = (1 << 39) - 1
"""More equal rows of one user than a slot can hold; a store cuts them at 2^31 - 1."""


def floor_of(p, function=fraction_floor):
    """floor(part · 2^24 / whole)."""
    whole, part = p.integer("whole", 1, (1 << 51) - 1), p.integer("part", 0, (1 << 51) - 1)
    p.assume(part.z <= whole.z)
    result = function(part, whole)
    p.claim("not above the quotient", result.z * whole.z <= part.z * GRAINS)
    p.claim("less than one below it", (result.z + 1) * whole.z > part.z * GRAINS)
    p.claim("at most 2^24", z3.And(result.z >= 0, result.z <= GRAINS))


def ceil_of(p, function=fraction_ceil):
    """ceil(amount · grains / 2^24)."""
    amount, grains = p.integer("amount", 0, (1 << 62) - 1), p.integer("grains", 0, GRAINS)
    result = function(amount, grains)
    p.claim("not below the quotient", result.z * GRAINS >= amount.z * grains.z)
    p.claim("less than one above it", (result.z - 1) * GRAINS < amount.z * grains.z)


def spread_of(p, function=proportional):
    """One bin more of a user, of any number of them: the bins before hold `rows_before` rows and added `before`."""
    weight, total = p.integer("weight", 0, GRAINS), p.integer("rows", 1, (1 << 63) - 1)
    count, rows_before = p.integer("count", 0, ROWS), p.integer("rows before", 0, (1 << 63) - 1)
    before = p.integer("before", 0, GRAINS)
    p.assume(z3.And(rows_before.z + count.z <= total.z, before.z * total.z <= weight.z * rows_before.z))
    grains = function(weight, count, total).z
    after = before.z + grains
    p.claim("0 ≤ grains ≤ weight", z3.And(grains >= 0, grains <= weight.z))
    p.claim("a bin adds at most its share", after * total.z <= weight.z * (rows_before.z + count.z))
    p.claim("all bins add at most the weight", after <= weight.z)
    p.claim("all rows in one bin add all of it", z3.Implies(count.z == total.z, grains == weight.z))


def kept_of(p, function=each):
    """At most c events of one user."""
    weight, most, kept = p.integer("weight", 0, GRAINS), p.integer("c", 1, GRAINS), p.integer("kept", 0, GRAINS)
    p.assume(kept.z <= most.z)
    p.claim("grains ≤ weight", (kept * function(weight, most)).z <= weight.z)


def halves_of(p, function=halves):
    """Both halves of any 64-bit integer."""
    value = p.integer("value", -(1 << 63), (1 << 63) - 1)
    high, low = function(value)
    p.claim("value = high · 2^32 + low", high.z * (1 << 32) + low.z == value.z)
    p.claim("halves are halves", z3.And(low.z >= 0, low.z < 1 << 32, high.z >= -(1 << 31), high.z < 1 << 31))


def capped_of(p, function=capped, bits=60):
    """Any sums of halves."""
    high, low = p.integer("high", -(1 << 62), 1 << 62), p.integer("low", 0, (1 << 63) - 1)
    result, true = function(high, low, bits).z, high.z * (1 << 32) + low.z
    cap = 1 << bits
    p.claim("the sum, cut", result == z3.If(true > cap, cap, z3.If(true < -cap, -cap, true)))


STATEMENTS = [floor_of, ceil_of, spread_of, kept_of, halves_of, capped_of]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.__name__)
def test_the_arithmetic_is_exact_for_all_inputs(statement):
    """No input of the ranges in the docstrings breaks it, and no intermediate overflows."""
    assert counterexample(statement) is None


def floor_without_low_digit(part, whole):
    """Wrong: forgets the second digit."""
    return (part << 12) // whole << 12


def floor_in_one_step(part, whole):
    """Wrong: one shift by 24 bits instead of two by 12."""
    return (part << 24) // whole


def floor_rounded_up(part, whole):
    """Wrong: rounds the second digit up."""
    high, rest = np.divmod(part << 12, whole)
    return (high << 12) - (-(rest << 12) // whole)


def ceil_of_high_part(amount, grains):
    """Wrong: adds the rounding where it does not belong."""
    high, low = divmod(amount, GRAINS)
    return high * grains + (low * grains >> 24) + 1


def capped_without_carry(high, low, cap_bits):
    """Wrong: forgets the carry of the low halves."""
    return capped(high, low & ((1 << 32) - 1), cap_bits)


def capped_too_early(high, low, cap_bits):
    """Wrong: cuts the high half at the cap itself, where a low half is still to come."""
    edge = 1 << (cap_bits - 32)
    high = np.clip(high + (low >> 32), -edge, edge)
    return np.clip((high << 32) + (low & ((1 << 32) - 1)), -(1 << cap_bits), 1 << cap_bits)


WRONG = [
    (floor_of, floor_without_low_digit, "less than one below"),
    (floor_of, floor_in_one_step, "fits int64"),
    (floor_of, floor_rounded_up, "not above"),
    (ceil_of, ceil_of_high_part, "less than one above"),
    (ceil_of, lambda amount, grains: (amount * grains + GRAINS - 1) >> 24, "fits int64"),
    (ceil_of, lambda amount, grains: fraction_ceil(amount, grains) - 1, "not below"),
    (spread_of, lambda weight, count, total: -(-(weight * count) // total), "at most its share"),
    (spread_of, lambda weight, count, total: weight * count // (total - 1), "a divisor is above 0"),
    (spread_of, lambda weight, count, total: weight * count // total + 1, "grains ≤ weight"),
    (spread_of, lambda weight, count, total: (weight - 1) * count // total, "grains ≤ weight"),
    (spread_of, lambda weight, count, total: weight // 2 * count // total, "all rows in one bin"),
    (spread_of, lambda weight, count, total: weight * GRAINS * count // total, "fits int64"),
    (spread_of, lambda weight, count, total: -(weight * count // total), "0 ≤ grains"),
    (kept_of, lambda weight, most: weight // most + 1, "grains ≤ weight"),
    (kept_of, lambda weight, most: weight, "grains ≤ weight"),
    (halves_of, lambda value: (value >> 31, value & ((1 << 32) - 1)), "value = high"),
    (halves_of, lambda value: (value >> 32, value & ((1 << 31) - 1)), "value = high"),
    (capped_of, capped_without_carry, "the sum, cut"),
    (capped_of, capped_too_early, "the sum, cut"),
]


@pytest.mark.parametrize(
    ("statement", "wrong", "broken"), WRONG, ids=[f"{s.__name__} {i}" for i, (s, *_) in enumerate(WRONG)]
)
def test_a_changed_expression_is_found(statement, wrong, broken):
    """Each changed sign, digit or rounding has a counterexample, of the very claim that it breaks."""
    found = counterexample(lambda p: statement(p, wrong))
    assert found is not None
    assert broken in found


def test_stored_counts_are_within_the_proved_range():
    """A store cuts equal events of one user at a number that is proved to fit."""
    assert MOST <= ROWS
