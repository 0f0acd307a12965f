"""The published bounds as functions: what is printed, what is wrong with it, and what holds.

Formulas about public parameters only; nothing here sees data, and no mechanism takes its budget from here. Digits of
Li₂(x) = Σ xⁿ/n² come from `dpi.exact.dilogarithm`, rounded to floats.

The published weights of slot t are exp(∓α_t·Σ_{j≤t} score_j), one set for the queries and one for the synopses (the two
families), with scores on a ramp in [-1, 1] and α_t = ½·ln((1+2η_t)/(1-2η_t)) = X_t/2. The loss of a slot is
𝓛 = ½·ln(1 - 4η²), the logarithm of the factor by which boosting with an advantage of η shrinks the share of badly
answered queries: negative, and the more negative the better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpi.errors import OptionError
from dpi.exact.dilogarithm import CONTEXT, LARGEST, complement, inverse_complement


@dataclass(frozen=True)
class Bound:
    """One statement twice.

    printed: the value of the formula as the paper prints it.
    corrected: the value of the form that follows from the paper's own definitions.
    """

    printed: float
    corrected: float


def _check_shares(**shares: float) -> None:
    """Refuse a parameter outside (0, 1]; μ and ζ are such."""
    for name, value in shares.items():
        if not 0 < value <= 1:
            raise OptionError(f"`{name}` must be above 0 and at most 1. Got {value}.")


def _check_counts(**counts: int) -> None:
    """Refuse a number of slots, draws or categories below one."""
    for name, value in counts.items():
        if value < 1:
            raise OptionError(f"`{name}` must be a whole number of at least 1. Got {value}.")


def _check_range(smallest: float, largest: float) -> None:
    """Refuse limits m and M of u = 2η that do not satisfy 0 ≤ m ≤ M ≤ 1."""
    if not 0 <= smallest <= largest <= 1:
        raise OptionError(
            f"`smallest` and `largest` must satisfy 0 <= smallest <= largest <= 1. Got {smallest}, {largest}."
        )


Floats = NDArray[np.float64]
Rates = Floats | Sequence[float]
Form = Literal["theorem", "proof", "corrected", "sound"]

_DIVISOR = {"theorem": 2, "proof": 4, "corrected": 8}


def log_ratio_integral(smallest: float, largest: float) -> float:
    """∫ ln((1+u)/(1-u))/u du from m to M: the difference of 2Li₂(z) - ½Li₂(z²) at the two ends.

    The two halves are -ln(1-u)/u, which integrates to Li₂(z), and ln(1+u)/u, which integrates to
    -Li₂(-z) = Li₂(z) - ½Li₂(z²). The paper uses ½Li₂(z²) in its place.

    >>> round(log_ratio_integral(0, 0.7), 4), round(log_loss_integral(0, 0.7), 4)
    (1.4945, 0.2842)
    """
    _check_range(smallest, largest)
    with localcontext(CONTEXT):
        return float(_log_ratio_tail(Decimal(smallest)) - _log_ratio_tail(Decimal(largest)))


def log_loss_integral(smallest: float, largest: float) -> float:
    """∫ -ln(1-u²)/u du from m to M: the difference of ½Li₂(z²) at the two ends, by v = u²."""
    _check_range(smallest, largest)
    with localcontext(CONTEXT):
        low, high = Decimal(smallest), Decimal(largest)
        return float((complement(low * low) - complement(high * high)) / 2)


def _log_ratio_tail(smallest: Decimal) -> Decimal:
    """∫ ln((1+u)/(1-u))/u du from m to 1, which is π²/4 for m = 0."""
    with localcontext(CONTEXT):
        return 2 * complement(smallest) - complement(smallest * smallest) / 2


def largest_epsilon(mu: float, zeta: float) -> float:
    """Return the largest ε that the published series can reach, C·π²/6 with C = 2/(μζ): there m = 0.

    >>> round(largest_epsilon(mu=0.1, zeta=0.1), 3)
    328.987
    """
    _check_shares(mu=mu, zeta=zeta)
    return 2 / (mu * zeta) * math.pi**2 / 6


def spence_series(slots: int, epsilon: float, mu: float, zeta: float) -> Floats:
    """Return the budgets of the published series: ε_t = C(1 - m^{2t})/t² with m² = Li₂⁻¹(π²/6 - ε/C).

    C is 2/(μζ) in the proof of the final theorem and Δ_Q/(μζ) in its statement, equal for Δ_Q = 2. The
    series sums to ε exactly, because Σ (1 - m^{2t})/t² = π²/6 - Li₂(m²) = ε/C. In the statement |ζ| is a
    supremum of e^{|η - η|}, hence at least 1; in the experiments it is a rate from 0.1 to 0.5. Here it is a
    parameter in (0, 1].

    >>> spence_series(2, epsilon=1, mu=0.1, zeta=0.1).round(4).tolist()
    [0.1186, 0.0593]
    """
    _check_counts(slots=slots)
    logarithm = _log_square(epsilon, mu, zeta)
    t = np.arange(1, slots + 1, dtype=np.float64)
    return np.asarray(-2 / (mu * zeta) * np.expm1(t * logarithm) / t**2)


def exponents(slots: int, epsilon: float, mu: float, zeta: float, form: Form = "proof") -> Floats:
    """X_t = ln((1+2η_t)/(1-2η_t)) of the published series; α_t = X_t/2.

    Theorem 1 charges (4/μ)·X_t to a family, queries or synopses, so that X_t = (μ/4)·(the family's budget):

    * ``theorem``: X_t = (1 - m^{2t})/(ζt²) = μ·ε_t/2, as stated, and again in the last line of the proof. A
      family is charged 2ε_t and the two together 4ε_t.
    * ``proof``: X_t = (1 - m^{2t})/(2ζt²) = μ·ε_t/4, the line before. A family is charged ε_t, both 2ε_t.
    * ``corrected``: X_t = (1 - m^{2t})/(4ζt²) = μ·ε_t/8. A family is charged ε_t/2, as Algorithm 1 divides
      the budget, and the two together ε_t.
    * ``sound``: X_t = ε_t/(4t). Theorem 1 itself charges too little (`privacy_after`); here the true loss
      of slot t is ε_t, for one draw from each of the two families at 4tα_t = 2tX_t.

    >>> [round(float(exponents(2, 1, 0.1, 0.1, form)[1]), 6) for form in ("theorem", "proof", "corrected", "sound")]
    [0.002964, 0.001482, 0.000741, 0.007409]
    """
    series = spence_series(slots, epsilon, mu, zeta)
    return series / (4 * np.arange(1, slots + 1)) if form == "sound" else series * mu / _DIVISOR[form]


def rates(exponents: Rates) -> Floats:
    """Learning rates η = ½(e^X - 1)/(e^X + 1) = ½·tanh(X/2) of a vector of exponents."""
    return np.asarray(np.tanh(np.asarray(exponents, dtype=np.float64) / 2) / 2)


def log_ratios(rates: Rates) -> Floats:
    """Return ln((1+2η)/(1-2η)) = 2·artanh(2η) for a vector of learning rates, each in [0, ½)."""
    vector = np.asarray(rates, dtype=np.float64)
    if not ((vector >= 0) & (vector < 0.5)).all():
        raise OptionError("`rates` must be numbers of at least 0 and below 1/2.")
    return np.asarray(2 * np.arctanh(2 * vector))


@lru_cache(maxsize=256)
def _log_square(epsilon: float, mu: float, zeta: float) -> float:
    """Return ln m², from decimals: m² is close to 1 and 1 - m² would lose its digits as a float."""
    largest = largest_epsilon(mu, zeta)
    if not 0 < epsilon <= largest:
        raise OptionError(
            f"`epsilon` must be above 0 and at most {largest:g} for mu={mu:g}, zeta={zeta:g}. Got {epsilon}."
        )
    with localcontext(CONTEXT):
        square = inverse_complement(min(Decimal(epsilon) * Decimal(mu) * Decimal(zeta) / 2, LARGEST))
        return float(square.ln()) if square else -math.inf


def privacy_after(eta_synopses: Rates, eta_queries: Rates, mu: float, draws: int = 1) -> Bound:
    """Theorem 1, the loss after t slots with the given learning rates, one array per family.

    Printed: (4/μ)·Σ ln[((1+2η^A_i)/(1-2η^A_i))·((1+2η^Q_i)/(1-2η^Q_i))].

    Wrong: the proof finds a ratio of e^{2α·t·Δ_Q/μ} for the weights and as much for their normaliser, then
    drops the factor t and the number of draws from the distribution.

    Corrected: draws·Σ 4iα_i for each family. A user who is in every slot moves the sum of i scores by at
    most 2i, the ramp's range (that is less than i·2Δ_Q/μ, as Δ_Q = 2 exceeds μ); a weight therefore moves
    by a factor of at most e^{2iα_i}, the normaliser too, and losses of draws add up. For the lone target in
    a growing pool the ratio tends to e^{4iα_i}: the bound cannot be lowered for pools of every size.

    >>> privacy_after([0.1], [0.1], mu=0.1).corrected < privacy_after([0.1], [0.1], mu=0.1).printed
    True
    >>> late = privacy_after([0.0] * 99 + [0.1], [0.0] * 99 + [0.1], mu=0.1)
    >>> round(late.printed, 2), round(late.corrected, 2)
    (32.44, 162.19)
    """
    _check_shares(mu=mu)
    _check_counts(draws=draws)
    families = (log_ratios(eta_synopses), log_ratios(eta_queries))
    printed = 4 / mu * sum(float(ratios.sum()) for ratios in families)
    return Bound(printed, draws * sum(_loss_of_one_draw(ratios) for ratios in families))


def claimed_loss(
    slots: int, epsilon: float, mu: float, zeta: float, *, form: Form = "proof", families: int = 1
) -> float:
    """Loss that Theorem 1 claims for the published series after some slots: families·(4/μ)·Σ X_i.

    In the proof's form and for one family this is Σ ε_i, which stays below ε for ever.
    """
    _check_families(families)
    return families * 4 / mu * float(exponents(slots, epsilon, mu, zeta, form).sum())


def true_loss(
    slots: int, draws: int, epsilon: float, mu: float, zeta: float, *, form: Form = "proof", families: int = 1
) -> float:
    """Worst-case loss of Algorithm 1 with the published series after some slots: families·draws·Σ 4iα_i.

    With α_i = X_i/2 in the proof's form it is (draws·families/ζ)·Σ (1 - m^{2i})/i, which grows like
    (draws·families/ζ)·(ln t + γ + ln(1 - m²)): no finite ε bounds it. Setting the learning rates by the
    ``sound`` form makes it Σ ε_i for two families and one draw.

    The default is the proof's form and one family, because there `claimed_loss` is the budget itself; the
    corrected form and two families give the same two numbers. With ε = 1, μ = ζ = 0.1 and one draw the claim
    is passed between slot 100 and slot 1,000; with 20 draws it is met in slot 1 and passed in slot 2.

    >>> for t in (10, 100, 1000, 10**6):
    ...     print(f"{true_loss(t, 1, 1, 0.1, 0.1):.2g} {claimed_loss(t, 1, 0.1, 0.1):.2g}")
    0.059 0.35
    0.58 0.61
    5.2 0.86
    70 1
    """
    _check_counts(draws=draws)
    _check_families(families)
    return families * draws * _loss_of_one_draw(exponents(slots, epsilon, mu, zeta, form))


def total_privacy(smallest: float, largest: float, mu: float, zeta: float) -> Bound:
    """Total-privacy theorem, in u = 2η falling from M to m, for one family.

    Printed: ε ≥ (2Δ_Q/(μζ))·(Li₂(M²) - Li₂(m²)), which is 4/(μζ) in front; the proof ends on 2/(μζ).

    Wrong: the proof puts ½Li₂(z²), the integral of -ln(1-u²)/u, for that of ln((1+u)/(1-u))/u
    (`log_ratio_integral`), and the statement doubles it. And it is a *lower* bound: it says what is spent at
    least, and cannot show that the loss converges.

    Corrected: ε = (4/μ)·∫ ln((1+2η)/(1-2η)) dx ≥ (4/(μζ))·[2Li₂(z) - ½Li₂(z²)] from m to M, since η' ≥ -ζη
    makes dx ≥ -du/(ζu). Equal for η' = -ζη; an upper bound, the same value, needs the opposite, η' ≤ -ζη,
    which no power of t satisfies and so not the published series.

    >>> total_privacy(0, 0.7, mu=0.1, zeta=0.1)  # doctest: +ELLIPSIS
    Bound(printed=227.37..., corrected=597.81...)
    """
    _check_shares(mu=mu, zeta=zeta)
    printed = 2 * log_loss_integral(smallest, largest)
    return Bound(4 / (mu * zeta) * printed, 4 / (mu * zeta) * log_ratio_integral(smallest, largest))


def _loss_of_one_draw(ratios: Floats) -> float:
    """Σ 4iα_i = Σ 2iX_i."""
    return 2 * float(np.arange(1, ratios.size + 1) @ ratios)


def _check_families(families: int) -> None:
    if families not in (1, 2):
        raise OptionError(f"`families` must be 1, queries or synopses, or 2, both. Got {families}.")


def log_loss(eta: Rates) -> float:
    """½·Σ ln(1 - 4η²), which in the exponents X of the rates is -Σ ln cosh(X/2).

    >>> round(log_loss([0.3, 0.1]), 4)
    -0.2436
    """
    return float(-np.log(np.cosh(log_ratios(eta) / 2)).sum())


def utility_after(eta_synopses: Rates, eta_queries: Rates) -> Bound:
    """Theorem 3, the probability of a bad answer after t slots with the given learning rates.

    Printed: the probability is at most ¼·Σ ln[(1 - 4(η^Q_i)²)·(1 - 4(η^A_i)²)], summed to infinity.

    Wrong: no probability is below a negative number; this is half the logarithm of the product in the
    proof, which has √ over both families together. Nor does the cited claim know a second family.

    Corrected: Π √(1 - 4(η^Q_i)²), a bound on the share of queries whose weighted median is bad. With
    weights exp(-Σ α_j·score_j) the normaliser of round i is at most (½+η)e^{-α} + (½-η)e^{α} = √(1 - 4η²).
    That needs two things which Algorithm 1 lacks: an α_j of its own for each past score, and a synopsis that
    is accurate for ½ + η_i of the weight in every round, which a pool drawn without the data cannot promise.

    >>> utility_after([0.3, 0.1], [0.3, 0.1])  # doctest: +ELLIPSIS
    Bound(printed=-0.2435..., corrected=0.7838...)
    """
    return Bound(objective(eta_synopses, eta_queries), math.exp(log_loss(eta_queries)))


def objective(eta_synopses: Rates, eta_queries: Rates) -> float:
    """Return what the trade-off problem minimises, ¼·Σ ln[(1 - 4(η^Q)²)·(1 - 4(η^A)²)].

    Its constraint is `privacy_after(...).printed` = ε. In the exponents of both families it reads: minimise
    -½·Σ ln cosh(X/2) at a fixed ΣX. ln cosh is convex and 0 at 0, so that the minimum puts everything into a
    single slot (`concentration`): the published series is not its solution. Under the true loss, Σ 2iX_i,
    that slot is the first.
    """
    return (log_loss(eta_synopses) + log_loss(eta_queries)) / 2


@dataclass(frozen=True)
class Concentration:
    """Log-loss of three ways to spend the same sum of log-ratios; the lowest is the best."""

    first_slot: float
    inverse_square: float
    ten_equal_slots: float


def concentration(total: float = 2.0) -> Concentration:
    """Show that the series is no optimum: spread the same Σ ln((1+2η)/(1-2η)), and the log-loss gets worse.

    >>> spent = concentration(2.0)
    >>> round(spent.first_slot, 3), round(spent.inverse_square, 3), round(spent.ten_equal_slots, 3)
    (-0.434, -0.19, -0.05)
    """
    if not 0 < total < 36:  # at 37 the rate of a single slot is 1/2 in floating point
        raise OptionError(f"`total` must be a number above 0 and below 36. Got {total}.")
    t = np.arange(1, 10_001, dtype=np.float64)  # the terms left out add up to less than 1e-12 at total = 2
    spreads = (np.array([total]), total * 6 / (math.pi * t) ** 2, np.full(10, total / 10))
    return Concentration(*(log_loss(rates(spread)) for spread in spreads))


def utility_bound(smallest: float, largest: float, zeta: float) -> Bound:
    """Return the Remark's lower bound on |L|, L = ∫ ½·ln(1 - 4η²) dx, with u = 2η falling from M to m.

    Printed: (1/(4ζ))·(Li₂(M²) - Li₂(m²) + 4Li₂(m) - 4Li₂(M)), below |L| in the proof, below L in the Remark.

    Wrong: this is -(1/(2ζ))·∫ ln((1+u)/(1-u))/u du, the integral that belongs to privacy, and negative:
    for |L| it says nothing, for L it fails when the rates fall slowly. m and M are defined as extremes of η
    and used as those of 2η. The problem that it enters has 1/(8ζ) in front.

    Corrected: |L| ≥ (1/(2ζ))·∫ -ln(1-u²)/u du = (1/(4ζ))·(Li₂(M²) - Li₂(m²)), because η' ≥ -ζη makes
    dx ≥ -du/(ζu); equal for η' = -ζη.

    >>> utility_bound(0, 0.7, zeta=0.1)  # doctest: +ELLIPSIS
    Bound(printed=-7.47..., corrected=1.42...)
    """
    _check_shares(zeta=zeta)
    printed = -log_ratio_integral(smallest, largest) / (2 * zeta)
    return Bound(printed, log_loss_integral(smallest, largest) / (2 * zeta))


def final_constant(mu: float, zeta: float) -> Bound:
    """C of the final theorem: 2/(μζ); with the corrected integral 4/(μζ), and ε can reach π²/(μζ)."""
    _check_shares(mu=mu, zeta=zeta)
    return Bound(2 / (mu * zeta), 4 / (mu * zeta))


def final_utility(epsilon: float, mu: float, zeta: float) -> Bound:
    """Return the final theorem's lower bound on |L| at a total of ε, for one family.

    Printed: (1/(4ζ))·|ε/C - 2π²/3 + 4Li₂(m)| with m = √Li₂⁻¹(π²/6 - ε/C) and C = Δ_Q/(μζ) = 2/(μζ).

    Wrong: both integrals (`utility_bound`, `total_privacy`) and the optimum. At a fixed Li₂(M²) - Li₂(m²)
    the printed objective is smallest for m = 0, not for M = 1: a unit of Li₂(z²) moves Li₂(z) by
    ln(1-z)/(2·ln(1-z²)), which falls in z.

    Corrected: (1/(4ζ))·(π²/6 - Li₂(m²)), where m solves ε = (4/(μζ))·∫ ln((1+u)/(1-u))/u du from m to 1.
    Here M = 1 is right: the ratio of the integrands, -ln(1-u²)/ln((1+u)/(1-u)), grows in u. Both bounds are
    equalities for η' = -ζη. 2Li₂(z) - ½Li₂(z²) is 2·Σ z^j/j² over the odd j, so the series read off it
    would be (8/(μζ))·(1 - m^j)/j², j odd.

    >>> final_utility(1, mu=0.1, zeta=0.1)  # doctest: +ELLIPSIS
    Bound(printed=0.0145..., corrected=0.0107...)
    """
    largest = largest_epsilon(mu, zeta)
    if not 0 < epsilon <= largest:
        raise OptionError(f"`epsilon` must be above 0 and at most {largest:g}. Got {epsilon}.")
    with localcontext(CONTEXT):
        share = Decimal(epsilon) * Decimal(mu) * Decimal(zeta)
        printed_m = inverse_complement(min(share / 2, LARGEST)).sqrt()
        printed = abs(complement(printed_m * printed_m) - 4 * complement(printed_m))
        m = _start_of_tail(share / 4)
        corrected = complement(m * m)
    return Bound(float(printed) / (4 * zeta), float(corrected) / (4 * zeta))


def _start_of_tail(y: Decimal) -> Decimal:
    """Return the m with `_log_ratio_tail(m)` = y, by bisection to 36 digits."""
    low, high = Decimal(0), Decimal(1)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_ratio_tail(middle) > y else (low, middle)
    return high


_TAIL = 75.0
"""Counts outside a window are left out: by Bernstein's inequality their probability is below 2·e^-75."""


def multinomial_entropy(trials: int, categories: int) -> float:
    """Return the exact entropy of one draw, H = -ln n! + n·ln k + k·E[ln X!] with X ~ Binomial(n, 1/k).

    Written so that nothing large cancels. With s(x) = ln x! - x·ln x + x, Stirling's slowly growing part,
    and D(x) = x·ln(x/λ) - x + λ ≥ 0 around the mean λ = n/k, the same H is k·E[s(X) + D(X)] - s(n), because
    E[X] = λ.

    >>> round(multinomial_entropy(10_000, 100), 2)
    366.05
    """
    _check_counts(trials=trials, categories=categories)
    if categories == 1:
        return 0.0
    mean = trials / categories
    variance = mean * (1 - 1 / categories)
    reach = _TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * _TAIL * variance)
    low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    counts = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((trials - counts[:-1]) / (counts[1:] * (categories - 1)))
    logarithms = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logarithms - logarithms.max())
    divergence = counts * np.log(np.maximum(counts, 1) / mean) - (counts - mean)
    expected = float(weights @ (_stirling(counts) + divergence) / weights.sum())
    return categories * expected - float(_stirling(np.array([float(trials)]))[0])


def entropy_approximation(trials: int, categories: int) -> Bound:
    """Approximate the entropy of one draw for large n.

    Printed first: k - ½·ln(2πne) - (k/2)·ln k, called highly accurate. It is negative for every n and k, as
    k·(1 - ½·ln k) ≤ e/2 < ½·ln(2πe), and no entropy of a discrete variable is.

    Corrected, and printed further down with N, the size of the pool, in place of n:
    ((k-1)/2)·ln(2πne) - (k/2)·ln k. It is the entropy of the Gaussian limit: k - 1 free counts, whose
    covariance n·(diag(p) - ppᵀ) has the determinant n^{k-1}/k^k. The first form has lost the brackets of
    (k-1)/2. It needs n well above k: at k = 100,000 and n = 1,000 it is negative too.

    >>> entropy_approximation(10_000, 100)  # doctest: +ELLIPSIS
    Bound(printed=-136.28..., corrected=366.1...)
    """
    _check_counts(trials=trials, categories=categories)
    gauss = math.log(2 * math.pi * trials * math.e)
    shared = categories / 2 * math.log(categories)
    return Bound(categories - gauss / 2 - shared, (categories - 1) / 2 * gauss - shared)


def pool_entropy(size: int) -> float:
    """Return the most a pool of N synopses can have, ln N, whatever the N draws are.

    The lemma lets H(pool)/H(ideal) tend to 1 as N grows. So it does, once ln N is near H(ideal): with
    k = 100 and n = 10,000 that takes about e^366 synopses.

    >>> round(pool_entropy(6_500), 1)
    8.8
    """
    _check_counts(size=size)
    return math.log(size)


def _stirling(x: Floats) -> Floats:
    """Return ln x! - x·ln x + x for whole x ≥ 0; from 16 on by a series whose next term is below 2e-14."""
    small = np.array([math.lgamma(j + 1) - j * math.log(max(j, 1)) + j for j in range(16)])
    y = np.maximum(x, 16)
    tail = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * y**2)) / y**2) / y**2) / y
    series = np.log(2 * math.pi * y) / 2 + tail
    return np.where(x < 16, small[np.minimum(x, 15).astype(np.int64)], series)
