"""For all words and all digits of a draw: words are split without loss, and sums are exact up to their cut."""

import numpy as np
import pytest
import z3

from dpi.noise.exponential import FAST_BITS, split
from dpi.noise.laplace import LARGEST_VALUE, SATURATION, saturated
from dpi.noise.source import WORD_BITS, appended, leading
from dpi.stream.prefix_tree import node_cut, slot_cut
from dpi_research.baselines._gaussian import cut
from solver import counterexample

MOST_BITS = 81 - FAST_BITS
"""A scale of 2^80 has 81 bits: so many of them, at most, are in the low digit."""
LARGEST = (1 << 63) - 1


def digits(p, bits):
    """The difference of two geometric variables, each high · 2^bits + low: any that 64 bits can hold."""
    return p.integer("high", -LARGEST, LARGEST), p.integer("low", -((1 << bits) - 1), (1 << bits) - 1)


def clipped(value, bound):
    """The value, cut to ± bound."""
    return z3.If(value > bound, bound, z3.If(value < -bound, -bound, value))


def laplace(p, bits, function=saturated):
    """Any value that was cut to ± 2^60, plus any draw."""
    value = p.integer("value", -LARGEST_VALUE, LARGEST_VALUE)
    high, low = digits(p, bits)
    true = value.z + high.z * (1 << bits) + low.z
    p.claim("the true sum, cut", function(value, high, low, bits).z == clipped(true, SATURATION))


def gaussian(p, bits, function=cut):
    """The same through a draw that is cut by itself first."""
    value = p.integer("value", -LARGEST_VALUE, LARGEST_VALUE)
    high, low = digits(p, bits)
    noisy = value + function(high, low, bits)
    true = value.z + high.z * (1 << bits) + low.z
    p.claim("the true sum, cut", clipped(noisy.z, SATURATION) == clipped(true, SATURATION))


@pytest.mark.parametrize("bits", range(MOST_BITS + 1))
@pytest.mark.parametrize("statement", [laplace, gaussian], ids=lambda s: s.__name__)
def test_noisy_sums_are_exact_up_to_the_cut(statement, bits):
    """For every value, every draw and every splitting into digits: value + noise, cut to ± 2^61, without overflow."""
    assert counterexample(lambda p: statement(p, bits)) is None


def no_far(values, high, low, bits):
    """Wrong: shifts without asking whether there is room."""
    return np.clip(values + low + (high << bits), -SATURATION, SATURATION)


def narrow(values, high, low, bits):
    """Wrong: calls a draw far away that is not."""
    far = np.abs(high) >> (60 - bits) != 0
    noisy = values + low + (np.where(far, 0, high) << bits)
    return np.where(far, np.sign(high) * SATURATION, np.clip(noisy, -SATURATION, SATURATION))


def subtracts(values, high, low, bits):
    """Wrong: a changed sign."""
    return saturated(values, high, -low, bits)


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        (laplace, no_far),
        (laplace, narrow),
        (laplace, subtracts),
        (laplace, lambda v, h, low, bits: saturated(v, h, low, bits - 1)),
        (gaussian, lambda h, low, bits: cut(h, low, bits) + 1),
        (gaussian, lambda h, low, bits: cut(-h, low, bits)),
        (gaussian, lambda h, low, bits: (h << bits) + low),
    ],
    ids=["no far", "narrow", "sign", "other bits", "one more", "other side", "no cut"],
)
def test_a_wrong_sum_is_found(statement, wrong):
    """A changed sign, bound or shift has a counterexample."""
    assert counterexample(lambda p: statement(p, 20, wrong)) is not None


def word_split(p, bits, function=split):
    """Any word, into a digit of some bits and a coin of the others."""
    coin_bits = WORD_BITS - bits
    word = p.integer("word", 0, (1 << 64) - 1, kind="uint64")
    digit, coin = function(word, coin_bits)
    p.claim("no bit is lost or used twice", digit.z * (1 << coin_bits) + coin.z == word.z)
    p.claim("a digit of so many bits", z3.And(digit.z >= 0, digit.z < 1 << bits))
    p.claim("a coin of the others", z3.And(coin.z >= 0, coin.z < 1 << coin_bits))


@pytest.mark.parametrize("bits", range(1, MOST_BITS + 1))
def test_a_word_is_split_into_two_uniforms(bits):
    """For every word and every split: digit and coin are the word, so all pairs of them are equally likely."""
    assert counterexample(lambda p: word_split(p, bits)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w, k: ((w >> (k - 1)).astype("int64"), w & ((1 << k) - 1)),
        lambda w, k: ((w >> k).astype("int64"), w & ((1 << (k - 1)) - 1)),
        lambda w, k: ((w >> (k + 1)).astype("int64"), w & ((1 << k) - 1)),
        lambda w, k: (w.astype("int64"), w),
    ],
    ids=["one bit twice", "one bit lost", "one bit skipped", "the word twice"],
)
def test_a_wrong_split_is_found(wrong):
    """A bit that is lost, or in both parts, has a counterexample."""
    assert counterexample(lambda p: word_split(p, 20, wrong)) is not None


def test_further_bits_of_a_uniform_follow_those_it_has():
    """However many bits are known: the new numerator lies in the interval of the old one, at the word's place."""

    def statement(p, function=appended):
        numerator = p.integer("numerator", 0, 1 << 4096, kind="python")
        word = p.integer("word", 0, (1 << 64) - 1, kind="python")
        longer = function(numerator, word)
        p.claim("numerator · 2^64 + word", longer.z == numerator.z * (1 << 64) + word.z)

    assert counterexample(statement) is None
    assert counterexample(lambda p: statement(p, lambda n, w: n << 63 | w)) is not None
    assert counterexample(lambda p: statement(p, lambda n, w: (n << 64) - w)) is not None


@pytest.mark.parametrize("bits", [*range(10), *range(31, 34), *range(62, 67), 100, 127, 128])
def test_leading_bits_are_uniform_and_reach_every_number_below(bits):
    """As many raw numbers lead to each value, 2^bits of them, and to nothing else."""
    width = -(-bits // WORD_BITS) * WORD_BITS

    def statement(p, function=leading):
        raw = p.integer("raw", 0, (1 << width) - 1, kind="python")
        value, each = function(raw, width, bits).z, 1 << (width - bits)
        p.claim("a value of so many bits", z3.And(value >= 0, value < 1 << bits))
        p.claim("an interval of equal size for each value", z3.And(value * each <= raw.z, raw.z < (value + 1) * each))

    assert counterexample(statement) is None
    if bits > 0:
        assert counterexample(lambda p: statement(p, lambda raw, width, bits: raw >> (width - bits + 1))) is not None


@pytest.mark.parametrize("slots", [1, 2, 22, 22**2, 1 << 20])
def test_the_cut_of_a_node_is_that_of_its_true_sum(slots):
    """A node of saturated noise and cut slots: its cut is a function of noise plus grains, and nothing overflows."""

    def statement(p, cut_slot=slot_cut, cut_node=node_cut):
        high = p.integer("noise", -(1 << 100), 1 << 100, kind="python")
        noise = p.integer("saturated noise", -SATURATION, SATURATION)
        p.assume(noise.z == clipped(high.z, SATURATION))
        most = cut_slot(p.integer("grains of a slot", 0, LARGEST), slots)
        grains = p.integer("grains of a node", 0, LARGEST)
        p.assume(grains.z <= most.z * slots)
        node = noise + grains
        p.claim("the cut of the true sum", cut_node(node).z == cut_node(high + grains).z)

    assert counterexample(statement) is None
    assert counterexample(lambda p: statement(p, cut_slot=lambda g, s: g)) is not None
    assert counterexample(lambda p: statement(p, cut_node=lambda n: np.clip(n, -SATURATION, SATURATION))) is not None


def test_gaps_of_scores_are_exact_modulo_two_to_the_64():
    """Of any two 64-bit scores, the difference of the words is the number of steps from the lower to the higher."""
    top, score = z3.BitVecs("top score", 64)
    exact = z3.SignExt(2, top) - z3.SignExt(2, score)
    solver = z3.Solver()
    solver.add(top >= score, z3.ZeroExt(2, top - score) != exact)
    assert solver.check() == z3.unsat
    signed = z3.Solver()
    signed.add(top >= score, z3.SignExt(2, top - score) != exact)
    assert signed.check() == z3.sat  # as a signed number the difference would overflow
