import itertools
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from dpi import theory
from dpi.exact.dilogarithm import LARGEST, inverse_complement

EPSILON, MU, ZETA = 1.0, 0.1, 0.1
PUBLISHED = (EPSILON, MU, ZETA)


def log_ratio(u: float) -> float:
    """Return ln((1+u)/(1-u))."""
    return math.log((1 + u) / (1 - u))


# Spence's function and the published series


@pytest.mark.parametrize(("smallest", "largest"), [(0.0, 0.7), (0.0, 1.0), (0.2, 0.9), (0.99, 1.0)])
def test_integrals_agree_with_quadrature(smallest, largest):
    """The two integrals of the appendix, in their corrected form, are what quadrature finds."""
    ratio = mpmath.quad(lambda u: mpmath.log((1 + u) / (1 - u)) / u, [smallest, (smallest + largest) / 2, largest])
    loss = mpmath.quad(lambda u: -mpmath.log(1 - u * u) / u, [smallest, (smallest + largest) / 2, largest])
    assert theory.log_ratio_integral(smallest, largest) == pytest.approx(float(ratio), rel=1e-12)
    assert theory.log_loss_integral(smallest, largest) == pytest.approx(float(loss), rel=1e-12)


def test_swapped_integral_is_off_by_a_factor_of_five():
    """At z = 0.7 the integral of the log-ratio is 1.4945, the value the paper puts in its place 0.2842."""
    assert round(theory.log_ratio_integral(0, 0.7), 4) == 1.4945
    assert round(theory.log_loss_integral(0, 0.7), 4) == 0.2842


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 100.0, 328.98])
def test_published_series_sums_to_epsilon(epsilon):
    """The first million elements and the exact tail of 1/t² bracket ε: the series sums to it."""
    slots = 10**6
    series = theory.spence_series(slots, epsilon, MU, ZETA)
    first, last = float(series.sum()), float(series[-1])
    constant = 2 / (MU * ZETA)
    assert first <= epsilon * (1 + 1e-12)
    # After T the numerator lies between its value at T and 1, and Σ 1/t² between 1/(T+1) and 1/T.
    assert first + last * slots**2 / (slots + 1) <= epsilon * (1 + 1e-12)
    assert first + constant / slots >= epsilon * (1 - 1e-12)


def test_rates_and_exponents_are_inverse():
    """The exponents of the learning rates of a series are those of the series, in every form."""
    for form in ("theorem", "proof", "corrected", "sound"):
        exponents = theory.exponents(5, *PUBLISHED, form)
        assert theory.log_ratios(theory.rates(exponents)) == pytest.approx(exponents, rel=1e-12)


def test_largest_epsilon_is_reached_and_not_passed():
    """At the largest ε, m is 0 and ε_t = C/t²; above it the error names it."""
    largest = theory.largest_epsilon(MU, ZETA)
    assert theory.spence_series(3, largest, MU, ZETA)[-1] == pytest.approx(2 / (MU * ZETA) / 9, rel=1e-7)
    with pytest.raises(ValueError, match=r"at most 328\.987"):
        theory.spence_series(1, largest * 1.001, MU, ZETA)[-1]


@pytest.mark.parametrize(
    ("form", "one_family"), [("theorem", 2.0), ("proof", 1.0), ("corrected", 0.5), ("sound", None)]
)
def test_what_theorem_1_charges_for_each_form_of_the_rates(form, one_family):
    """A family is charged 2ε_t by the theorem's rates, ε_t by the proof's, ε_t/2 by the corrected ones."""
    budget = theory.spence_series(7, *PUBLISHED)[-1]
    charged = 4 / MU * theory.exponents(7, *PUBLISHED, form)[-1]
    if one_family is None:
        assert charged == pytest.approx(4 / MU * budget / 28)
    else:
        assert charged == pytest.approx(one_family * budget)


# Privacy


@pytest.mark.parametrize(
    ("slots", "true", "claimed"),
    [(10, "0.06", "0.35"), (100, "0.58", "0.61"), (1_000, "5.2", "0.86"), (10**6, "70", "1.0")],
)
def test_true_loss_passes_the_claim(slots, true, claimed):
    """One draw, ε = 1, μ = ζ = 0.1: true and claimed loss are the known numbers, to the digits given."""
    loss, claim = theory.true_loss(slots, 1, *PUBLISHED), theory.claimed_loss(slots, *PUBLISHED)
    for value, text in ((loss, true), (claim, claimed)):
        decimals = len(text.partition(".")[2])
        assert f"{value:.{decimals}f}" == text


def test_corrected_rates_for_both_families_give_the_same_two_numbers():
    """The corrected form with two families loses and claims what the proof's form does with one."""
    both = {"form": "corrected", "families": 2}
    assert theory.true_loss(100, 3, *PUBLISHED, **both) == pytest.approx(theory.true_loss(100, 3, *PUBLISHED))
    assert theory.claimed_loss(100, *PUBLISHED, **both) == pytest.approx(theory.claimed_loss(100, *PUBLISHED))


def test_true_loss_grows_like_a_logarithm():
    """The loss follows (1/ζ)(ln t + γ + ln(1 - m²)), so that no total bounds it."""
    square = float(inverse_complement(Decimal(EPSILON * MU * ZETA / 2)))
    expected = (math.log(10**6) + float(mpmath.euler) + math.log1p(-square)) / ZETA
    assert theory.true_loss(10**6, 1, *PUBLISHED) == pytest.approx(expected, rel=1e-6)


def test_twenty_draws_pass_the_claim_in_the_second_slot():
    """With 20 draws the true loss equals the claim in slot 1 and exceeds it from slot 2 on."""
    assert theory.true_loss(1, 20, *PUBLISHED) == pytest.approx(theory.claimed_loss(1, *PUBLISHED))
    for slots in (2, 10, 1000):
        assert theory.true_loss(slots, 20, *PUBLISHED) > 1.3 * theory.claimed_loss(slots, *PUBLISHED)


def test_sound_rates_lose_exactly_the_series():
    """With the sound learning rates the true loss of both families is the sum of the published budgets."""
    spent = float(theory.spence_series(1000, *PUBLISHED).sum())
    assert theory.true_loss(1000, 1, *PUBLISHED, form="sound", families=2) == pytest.approx(spent)


def test_privacy_after_agrees_with_the_series_functions():
    """Theorem 1 on the vector of the published rates is the claimed and the true loss of two families."""
    rates = theory.rates(theory.exponents(50, *PUBLISHED))
    bound = theory.privacy_after(rates, rates, MU, draws=3)
    assert bound.printed == pytest.approx(theory.claimed_loss(50, *PUBLISHED, families=2))
    assert bound.corrected == pytest.approx(theory.true_loss(50, 3, *PUBLISHED, families=2))


def test_one_draw_can_lose_what_the_true_bound_says():
    """For one target in a growing pool the log-ratio of its probability tends to 4tα and never passes it."""
    slots, alpha = 5, 0.1

    def log_probability(target: float, others: float, size: int) -> float:
        """Log-probability of the target with weights exp(α·Σ score), all others having one other score."""
        weights = alpha * slots * np.array([target, others])
        return float(weights[0] - np.logaddexp(weights[0], weights[1] + math.log(size - 1)))

    losses = [log_probability(1, -1, size) - log_probability(-1, 1, size) for size in (2, 10, 1000, 10**6)]
    bound = 4 * slots * alpha
    assert losses == sorted(losses)
    assert losses[-1] < bound
    assert losses[-1] == pytest.approx(bound, rel=1e-5)


@pytest.mark.parametrize("largest", [0.3, 0.7, 0.99])
def test_total_privacy_of_an_exponential_rate(largest):
    """For u falling like e^{-ζx} quadrature of the loss meets the corrected bound, not the printed one."""
    loss = 4 / MU * quad(lambda x: log_ratio(largest * math.exp(-ZETA * (x - 1))), 1, 500, limit=400)[0]
    bound = theory.total_privacy(0, largest, MU, ZETA)
    assert loss == pytest.approx(bound.corrected, rel=1e-8)
    assert bound.printed < 0.7 * loss


def test_total_privacy_is_only_a_lower_bound():
    """A rate that falls ten times slower satisfies the theorem's assumption and loses ten times its bound."""
    slow = 4 / MU * quad(lambda x: log_ratio(0.7 * math.exp(-ZETA / 10 * (x - 1))), 1, 5000, limit=400)[0]
    assert slow == pytest.approx(10 * theory.total_privacy(0, 0.7, MU, ZETA).corrected, rel=1e-6)


# Utility


def test_log_loss_is_the_sum_of_half_logarithms():
    """The log-loss equals ½·Σ ln(1 - 4η²) computed as it is written."""
    rates = [0.49, 0.3, 0.1, 1e-3]
    assert theory.log_loss(rates) == pytest.approx(sum(math.log(1 - 4 * x * x) for x in rates) / 2)


def test_printed_utility_bounds_a_probability_by_a_negative_number():
    """Theorem 3 as printed is negative; for equal rates the corrected bound is its exponential."""
    bound = theory.utility_after([0.3, 0.2, 0.1], [0.3, 0.2, 0.1])
    assert bound.printed < 0 < bound.corrected < 1
    assert bound.corrected == pytest.approx(math.exp(bound.printed))
    assert bound.corrected == pytest.approx(math.prod(math.sqrt(1 - 4 * x * x) for x in (0.3, 0.2, 0.1)))


def test_boosting_with_an_advantage_keeps_the_corrected_utility():
    """With an advantage of η_i in every round the share of badly voted queries stays in the bound."""
    generator = np.random.default_rng(7)
    rates = np.array([0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.1, 0.05])
    alphas = theory.log_ratios(rates) / 2
    for _ in range(50):
        votes = np.zeros(300)
        for rate, alpha in zip(rates, alphas, strict=True):
            weights = np.exp(-votes)
            order = generator.permutation(300)
            mass = np.cumsum(weights[order]) / weights.sum()
            accurate = order[: np.searchsorted(mass, 0.5 + rate) + 1]
            scores = np.full(300, -1.0)
            scores[accurate] = 1.0
            votes += alpha * scores
        assert (votes <= 0).mean() <= theory.utility_after(rates, rates).corrected


def test_concentration_beats_the_series():
    """At Σ log-ratio = 2 the log-loss is -0.434 in one slot, -0.190 for 1/t², -0.050 in ten equal slots."""
    spent = theory.concentration(2.0)
    assert f"{spent.first_slot:.3f}" == "-0.434"
    assert f"{spent.inverse_square:.3f}" == "-0.190"
    assert f"{spent.ten_equal_slots:.3f}" == "-0.050"


def test_trade_off_problem_prefers_one_slot_to_the_published_series():
    """To spend what the published series spends in a single slot more than doubles the gain."""
    series = theory.exponents(20_000, 50.0, MU, 0.5)
    one_slot = [float(series.sum())]
    spread, single = theory.rates(series), theory.rates(one_slot)
    constraints = [theory.privacy_after(rates, rates, MU).printed for rates in (spread, single)]
    assert constraints[0] == pytest.approx(constraints[1])
    assert theory.objective(single, single) < 2 * theory.objective(spread, spread) < 0


@pytest.mark.parametrize("largest", [0.3, 0.7, 0.99])
def test_utility_of_an_exponential_rate(largest):
    """For u falling like e^{-ζx} quadrature of |L| meets the corrected Remark, the printed is negative."""
    loss = quad(lambda x: math.log1p(-((largest * math.exp(-ZETA * (x - 1))) ** 2)) / 2, 1, 300, limit=400)[0]
    bound = theory.utility_bound(0, largest, ZETA)
    assert -loss == pytest.approx(bound.corrected, rel=1e-8)
    assert bound.printed < 0


def test_remark_as_printed_fails_for_slow_rates():
    """Read as a lower bound on L, the printed Remark is broken by a rate that falls 20 times slower."""
    slow = quad(lambda x: math.log1p(-((0.7 * math.exp(-ZETA / 20 * (x - 1))) ** 2)) / 2, 1, 9000, limit=800)[0]
    assert slow < theory.utility_bound(0, 0.7, ZETA).printed


def test_printed_formulas_are_the_printed_ones():
    """The printed sides equal the paper's expressions, evaluated term by term with mpmath."""

    def li2(x):
        return mpmath.polylog(2, x).real

    low, high = 0.2, 0.9
    remark = (li2(high**2) - li2(low**2) + 4 * li2(low) - 4 * li2(high)) / (4 * ZETA)
    total = 2 * 2 / (MU * ZETA) * (li2(high**2) - li2(low**2))
    assert theory.utility_bound(low, high, ZETA).printed == pytest.approx(float(remark), rel=1e-12)
    assert theory.total_privacy(low, high, MU, ZETA).printed == pytest.approx(float(total), rel=1e-12)

    share = 150.0 / (2 / (MU * ZETA))
    root = mpmath.sqrt(mpmath.findroot(lambda x: li2(x) - (mpmath.pi**2 / 6 - share), (0.5, 0.9), solver="anderson"))
    final = abs(share - 2 * mpmath.pi**2 / 3 + 4 * li2(root)) / (4 * ZETA)
    assert theory.final_utility(150.0, MU, ZETA).printed == pytest.approx(float(final), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 150.0])
def test_final_theorem_holds_for_an_exponential_rate(epsilon):
    """A rate falling from u = 1 like e^{-ζx} until ε is spent has exactly the corrected |L|."""
    bound = theory.final_utility(epsilon, MU, ZETA)
    constant = theory.final_constant(MU, ZETA).corrected
    end = mpmath.findroot(
        lambda x: constant * theory.log_ratio_integral(math.exp(-ZETA * float(x)), 1) - epsilon,
        (0, 40),
        solver="anderson",
        tol=1e-20,
    )
    loss = mpmath.quad(lambda x: -mpmath.log(-mpmath.expm1(-2 * ZETA * x)) / 2, [0, end / 50, end])
    assert float(loss) == pytest.approx(bound.corrected, rel=1e-6)


def test_final_constants():
    """C is 2/(μζ) as printed and 4/(μζ) with the corrected integral, whose whole range is π²/4."""
    constant = theory.final_constant(MU, ZETA)
    assert (constant.printed, constant.corrected) == pytest.approx((200, 400))
    assert theory.log_ratio_integral(0, 1) == pytest.approx(math.pi**2 / 4)


def test_largest_rate_of_one_half_is_no_optimum_of_the_printed_problem():
    """At the same printed constraint the printed objective is far smaller for m = 0 than for M = 1."""
    at_one = theory.utility_bound(math.sqrt(float(inverse_complement(Decimal("0.5")))), 1, ZETA).printed
    at_zero = theory.utility_bound(0, math.sqrt(float(inverse_complement(LARGEST - Decimal("0.5")))), ZETA).printed
    assert at_zero < 3 * at_one < 0


def test_largest_rate_of_one_half_is_the_optimum_of_the_corrected_problem():
    """At the same corrected constraint the gain |L| rises with M and is largest for M = 1."""
    total, gains = 1.0, []
    for largest in (0.49, 0.6, 0.8, 0.95, 1.0):
        smallest = mpmath.findroot(
            lambda m, largest=largest: theory.log_ratio_integral(float(m), largest) - total,
            (0, largest),
            solver="bisect",
            tol=1e-20,
        )
        gains.append(theory.log_loss_integral(float(smallest), largest))
    assert gains == sorted(gains)
    assert gains[-1] > 3 * gains[0]


# Entropy


def reference_entropy(trials: int, categories: int) -> float:
    """Return the textbook formula in 40 digits, summed until the binomial has no mass left."""
    with mpmath.workdps(40):
        share = mpmath.mpf(1) / categories
        probability, factorial, expected = (1 - share) ** trials, mpmath.mpf(0), mpmath.mpf(0)
        for count in range(1, min(trials, 3 * trials // categories + 300) + 1):
            probability *= (trials - count + 1) * share / (1 - share) / count
            factorial += mpmath.log(count)
            expected += probability * factorial
        entropy = -mpmath.loggamma(trials + 1) + trials * mpmath.log(categories) + categories * expected
        return float(entropy)


@pytest.mark.parametrize(
    ("trials", "categories"),
    [
        (1, 2),
        (17, 2),
        (100, 100),
        (10_000, 100),
        (3_000, 2),
        (1_000, 100_000),
        (10**6, 10**5),
        (10**6, 2_000),
    ],
)
def test_exact_entropy_agrees_with_forty_digits(trials, categories):
    """The stable form of the entropy is the textbook formula to 13 digits."""
    found = theory.multinomial_entropy(trials, categories)
    assert found == pytest.approx(reference_entropy(trials, categories), rel=1e-13)


def test_exact_entropy_is_that_of_all_outcomes():
    """For 5 trials on 3 categories the entropy is -Σ p ln p over all 21 outcomes."""
    entropy = 0.0
    for outcome in itertools.product(range(6), repeat=3):
        if sum(outcome) == 5:
            p = math.factorial(5) / math.prod(map(math.factorial, outcome)) / 3**5
            entropy -= p * math.log(p)
    assert theory.multinomial_entropy(5, 3) == pytest.approx(entropy, rel=1e-14)
    assert theory.multinomial_entropy(5, 1) == 0


def test_pool_cannot_hold_what_the_ideal_has():
    """At k = 100 and n = 10,000 one draw has 366 nats, about 370; a pool of 6,500 has at most 8.8."""
    assert f"{theory.multinomial_entropy(10_000, 100):.1f}" == "366.0"
    assert f"{theory.pool_entropy(6_500):.1f}" == "8.8"


def test_one_of_the_two_published_approximations_is_never_an_entropy():
    """The first printed approximation is negative for all n and k, the second is close when n is large."""
    for trials, categories in itertools.product((1, 10, 10_000), (1, 2, 3, 4, 7, 100)):
        assert theory.entropy_approximation(trials, categories).printed < 0
    bound = theory.entropy_approximation(10_000, 100)
    assert f"{bound.printed:.1f}" == "-136.3"
    assert bound.corrected == pytest.approx(theory.multinomial_entropy(10_000, 100), abs=0.1)


# Refusals


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.spence_series(0, *PUBLISHED)[-1],
        lambda: theory.spence_series(1, 0.0, MU, ZETA)[-1],
        lambda: theory.spence_series(1, 1.0, 0.0, ZETA)[-1],
        lambda: theory.spence_series(3, 1.0, MU, 1.5),
        lambda: theory.log_ratios([0.5]),
        lambda: theory.privacy_after([0.1], [-0.1], MU),
        lambda: theory.true_loss(3, 0, *PUBLISHED),
        lambda: theory.claimed_loss(3, *PUBLISHED, families=3),
        lambda: theory.total_privacy(0.7, 0.3, MU, ZETA),
        lambda: theory.utility_bound(0.1, 1.1, ZETA),
        lambda: theory.final_utility(400.0, MU, ZETA),
        lambda: theory.concentration(0.0),
        lambda: theory.multinomial_entropy(0, 3),
        lambda: theory.pool_entropy(0),
    ],
)
def test_parameters_outside_their_range_are_refused(call):
    """A parameter outside its range is a ValueError that says what is expected."""
    with pytest.raises(ValueError, match="must"):
        call()
