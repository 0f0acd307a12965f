"""What the published text says about accuracy, and what follows from its definitions.

The loss of a slot is 𝓛 = ½·ln(1 - 4η²), the logarithm of the factor by which boosting with an advantage of
η shrinks the share of badly answered queries. It is negative, and the more negative the better.
"""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from dpi.errors import OptionError
from dpi.exact.dilogarithm import CONTEXT, LARGEST, complement, inverse_complement
from dpi.theory.bound import Bound, check_share
from dpi.theory.spence import (
    Rates,
    largest_epsilon,
    log_loss_integral,
    log_ratio_integral,
    log_ratio_tail,
    log_ratios,
    rates,
)


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
    check_share(zeta, "zeta")
    printed = -log_ratio_integral(smallest, largest) / (2 * zeta)
    return Bound(printed, log_loss_integral(smallest, largest) / (2 * zeta))


def final_constant(mu: float, zeta: float) -> Bound:
    """C of the final theorem: 2/(μζ); with the corrected integral 4/(μζ), and ε can reach π²/(μζ)."""
    check_share(mu, "mu")
    check_share(zeta, "zeta")
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
    """Return the m with `log_ratio_tail(m)` = y, by bisection to 36 digits."""
    low, high = Decimal(0), Decimal(1)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if log_ratio_tail(middle) > y else (low, middle)
    return high
