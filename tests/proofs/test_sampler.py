"""The sampler, bit for bit: from the same words `dpi.noise` draws what the sampler that is proved in Coq draws."""

import os
import random
import re
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest

import sampler_oracle
from dpi.noise import UnsafeSeededSource, add_laplace, exponential
from dpi.noise.exponential import below_exp, floor_log
from dpi.noise.source import WORD_BITS, LazyUniform
from sampler_oracle import BASE, GUARD, SCALES, Case, Played, Recorded, ask, beside, cut

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import proofs  # noqa: E402

needs_coq = pytest.mark.skipif(
    not os.environ.get("DPI_PROOFS") or not proofs.has_coq(),
    reason="`make proofs` runs it where Coq is: `apt-get install coq libzarith-ocaml-dev` brings that",
)
STORED = sampler_oracle.stored()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The extracted sampler."""
    return sampler_oracle.build(tmp_path_factory.mktemp("sampler"))


def drawn(case, sampler=add_laplace):
    """The noisy values, and how many words are left."""
    source = Played(case.words)
    return sampler(np.array(case.values), case.scale, source).tolist(), len(source.left)


@pytest.mark.parametrize(("case", "noisy"), STORED, ids=lambda x: getattr(x, "name", ""))
def test_the_numpy_form_draws_what_the_proved_sampler_draws(case, noisy):
    """At the borders of results, in doubt by one to three words: the same values, from exactly as many words."""
    assert drawn(case) == (cut(noisy), 0)


@pytest.mark.parametrize(("case", "noisy"), STORED, ids=lambda x: getattr(x, "name", ""))
def test_the_python_form_draws_what_the_proved_sampler_draws(case, noisy, monkeypatch):
    """Without floats, where every uniform is in doubt: the same values, from exactly as many words."""
    monkeypatch.setattr(exponential, "_FLOAT_ERROR", np.inf)
    assert drawn(case) == (cut(noisy), 0)


def test_the_stored_words_reach_both_ways_and_further_words(monkeypatch):
    """Some uniforms are decided by floats, some by decimals, and some by words that are added."""
    exact, coins, words, further = [], [], 0, 0
    monkeypatch.setattr(exponential, "floor_log", lambda *given: exact.append(1) or floor_log(*given))
    monkeypatch.setattr(exponential, "below_exp", lambda *given: coins.append(1) or below_exp(*given))
    for case, noisy in STORED:
        assert drawn(case)[0] == cut(noisy)
        first = 2 * len(case.values) * (2 if case.bits else 1)
        words, further = words + first, further + len(case.words) - first
    assert len(STORED) == len(SCALES)
    assert len(exact) + len(coins) > 300
    assert words - len(exact) - len(coins) > 50
    assert further > 500


def mutated(old, new):
    """`add_laplace` of the same program with one place changed."""
    text = "".join((ROOT / f"src/dpi/noise/{name}.py").read_text() for name in ("source", "exponential", "laplace"))
    assert text.count(old) == 1, f"{old!r} is not one place of the program"
    text = re.sub(r"^from (__future__|dpi\.noise\.\w+) import .*$", "", text.replace(old, new), flags=re.MULTILINE)
    names = {"__name__": "mutant"}
    exec(compile("from __future__ import annotations\n" + text, "mutant", "exec"), names)  # noqa: S102 our own text
    return names["add_laplace"]


FAULTS = [
    ("2.0**-51 + 2.0 / floats", "2.0**-51"),
    ("low = np.floor(x - error)", "error = 0 * error; low = np.floor(x - error)"),
    ("x *= -float(scale)", "x *= -float(scale) * (1 + 2.0**-40)"),
    ("doubt | (result < 0)", "doubt & (words > 1)"),
    ("max(bounds[0], 0) == bounds[1]", "True"),
    ("return bounds[1]", "return bounds[0]"),
    ("((uniform.numerator + 1, -1), (uniform.numerator, 1))", "((uniform.numerator, -1), (uniform.numerator, 1))"),
    (
        "((uniform.numerator + 1, -1), (uniform.numerator, 1))",
        "((uniform.numerator + 1, -1), (uniform.numerator + 1, 1))",
    ),
    (">= uniform.numerator + 1", ">= uniform.numerator"),
    ("<= uniform.numerator:", "<= uniform.numerator + 1:"),
    ("result[i] = floor_log(LazyUniform(int(words[i])", "result[i] = floor_log(LazyUniform(int(source.words(1)[0])"),
    ("_floor_logs(source.words(size), scale / (1 << bits), source)", "_floor_logs(source.words(size), scale, source)"),
    ("(1 - Fraction(1 << bits) / scale)", "(1 + Fraction(1 << bits) / scale)"),
    ("LazyUniform(int(coins[i]), coin_bits, source)", "LazyUniform(int(coins[i]), WORD_BITS, source)"),
    ("Fraction(int(digits[i])) / scale", "Fraction(int(digits[i]) + 1) / scale"),
    ("accepted[i] = below_exp", "accepted[i] = not below_exp"),
    ("open_ = open_[~accepted]", "open_ = open_[:0]"),
    ("result[open_[accepted]] = digits[accepted]", "result[open_[accepted]] = digits[accepted][::-1]"),
    ("low[: values.size] - low[values.size :]", "low[: values.size] + low[values.size :]"),
    ("high[: values.size] - high[values.size :]", "high[values.size :] - high[: values.size]"),
    ("numerator << WORD_BITS | word", "numerator << WORD_BITS | word >> 1"),
    ("self.bits += WORD_BITS", "self.bits += WORD_BITS - 1"),
]
"""Of the program's own text: each would leave most draws as they are, or their law nearly so."""


@pytest.mark.parametrize(("old", "new"), FAULTS, ids=[str(number) for number in range(len(FAULTS))])
def test_a_fault_in_the_program_is_found(old, new):
    """Some words of the file give another value, or another number of words is drawn."""
    wrong = mutated(old, new)

    def differs(case, noisy):
        try:
            return drawn(case, wrong) != (cut(noisy), 0)
        except (AssertionError, ValueError, IndexError, OverflowError):
            return True

    assert any(differs(case, noisy) for case, noisy in STORED)


def test_the_unchanged_program_is_not_blamed():
    """The same text without a change draws what is stored."""
    same = mutated("x *= -float(scale)", "x *= -float(scale)")
    assert all(drawn(case, same) == (cut(noisy), 0) for case, noisy in STORED)


@needs_coq
def test_the_stored_values_are_those_of_the_proved_sampler(program):
    """The file holds the words that are made here, and what the extracted sampler makes of them."""
    answers = ask(program, (case.question() for case, _ in STORED))
    for (case, noisy), made, (used, *told) in zip(STORED, sampler_oracle.cases(), answers, strict=True):
        assert [int(value) for value in told] == noisy
        assert int(used) == len(case.words)
        assert (case.name, case.values, case.words) == (made.name, made.values, made.words[: int(used)])


@needs_coq
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_random_words_give_the_same_noise(program, scale):
    """Of any words: the numpy form and the extracted sampler draw as many, and return the same."""
    cases, found = [], []
    for seed in range(4):
        source = Recorded(UnsafeSeededSource(seed))
        values = np.arange(-20, 20) * 12345
        found.append(add_laplace(values, scale, source).tolist())
        cases.append(Case("", scale, values.tolist(), source.given))
    for case, ours, (used, *told) in zip(cases, found, ask(program, (case.question() for case in cases)), strict=True):
        assert cut(int(value) for value in told) == ours
        assert int(used) == len(case.words)


@needs_coq
def test_uniforms_alone_are_decided_alike(program):
    """floor(-s ln U) and U < e^-x in decimals, for scales and exponents of all sizes, at borders and elsewhere."""
    rng, questions, found = random.Random(0), [], []
    for _ in range(150):
        scale = Fraction(rng.randint(1, 1 << rng.randint(1, 70)), rng.randint(1, 1 << rng.randint(1, 20)))
        exponent = Fraction(rng.randint(1, 1 << 20), 1 << rng.randint(15, 30))
        for first, *more in [*beside(exponent, WORD_BITS, rng), [rng.randrange(BASE)]]:
            words = [*more, *(rng.randrange(BASE) for _ in range(4))]
            j = max(1, round(exponent * scale))
            near = j / scale
            if near < 40 and rng.random() < 0.3:
                first, *more = next(beside(near, WORD_BITS, rng))
                words = [*more, *words]
            ratio = (scale.numerator, scale.denominator)
            source = Played(words)
            value = floor_log(LazyUniform(first, WORD_BITS, source), scale)
            found.append([str(len(words) - len(source.left)), str(value)])
            questions.append(["log", GUARD, BASE, *ratio, first, BASE, *words])
            r = rng.randint(1, 1 << 20)
            rate = exponent / r
            source = Played(words)
            heads = below_exp(LazyUniform(first, WORD_BITS, source), exponent)
            found.append([str(len(words) - len(source.left)), str(heads).lower()])
            questions.append(["below", GUARD, BASE, rate.denominator, rate.numerator, 1 << 20, r, first, BASE, *words])
    assert ask(program, (" ".join(map(str, question)) for question in questions)) == found


@needs_coq
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(10, 3)], ids=str)
def test_the_shares_of_all_words_are_within_the_proved_bounds(program, scale):
    """With words of 3 bits, of all lists of four: each value has its mass, less at most 4/8^4 (`log_mass_bounds`)."""
    lists = list(product(range(8), repeat=4))
    ratio = (scale.numerator, scale.denominator)
    questions = (" ".join(map(str, ("log", GUARD, 8, *ratio, first, 8, *more))) for first, *more in lists)
    answers = ask(program, questions)
    with mpmath.workprec(100):
        for k in range(6):
            mass = mpmath.exp(-k / mpmath.mpf(scale)) - mpmath.exp(-(k + 1) / mpmath.mpf(scale))
            share = sum(answer[0] != "undecided" and answer[1] == str(k) for answer in answers) / len(lists)
            assert mass - mpmath.mpf(4) / 8**4 <= share <= mass
