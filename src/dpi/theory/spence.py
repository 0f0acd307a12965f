"""Spence's function on floats, and the published series of budgets and learning rates made of it.

Li₂(x) = Σ xⁿ/n². The digits come from `dpi.exact.dilogarithm`; here they are rounded to floats, for plots and
tables. A budget that is spent is computed in integers elsewhere.
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpi.errors import OptionError
from dpi.exact.dilogarithm import CONTEXT, LARGEST, complement, dilogarithm, inverse_complement
from dpi.theory.bound import check_count, check_range, check_share

Floats = NDArray[np.float64]
Rates = Floats | Sequence[float]
Form = Literal["theorem", "proof", "corrected", "sound"]

_DIVISOR = {"theorem": 2, "proof": 4, "corrected": 8}


def li2(x: float) -> float:
    """Li₂(x) for -1 ≤ x ≤ 1.

    >>> round(li2(0.5), 12)
    0.582240526465
    """
    return float(dilogarithm(Decimal(x)))


def li2_inverse(y: float) -> float:
    """Return the x in [0, 1] with Li₂(x) = y, for 0 ≤ y ≤ π²/6.

    >>> round(li2_inverse(0.5822405264650125), 12)
    0.5
    """
    if not 0 <= y <= math.pi**2 / 6:
        raise OptionError(f"`y` must be a number from 0 to pi^2/6. Got {y}.")
    with localcontext(CONTEXT):
        return float(inverse_complement(max(LARGEST - Decimal(y), Decimal(0))))


def log_ratio_integral(smallest: float, largest: float) -> float:
    """∫ ln((1+u)/(1-u))/u du from m to M: the difference of 2Li₂(z) - ½Li₂(z²) at the two ends.

    The two halves are -ln(1-u)/u, which integrates to Li₂(z), and ln(1+u)/u, which integrates to
    -Li₂(-z) = Li₂(z) - ½Li₂(z²). The paper uses ½Li₂(z²) in its place.

    >>> round(log_ratio_integral(0, 0.7), 4), round(log_loss_integral(0, 0.7), 4)
    (1.4945, 0.2842)
    """
    check_range(smallest, largest)
    with localcontext(CONTEXT):
        return float(log_ratio_tail(Decimal(smallest)) - log_ratio_tail(Decimal(largest)))


def log_loss_integral(smallest: float, largest: float) -> float:
    """∫ -ln(1-u²)/u du from m to M: the difference of ½Li₂(z²) at the two ends, by v = u²."""
    check_range(smallest, largest)
    with localcontext(CONTEXT):
        low, high = Decimal(smallest), Decimal(largest)
        return float((complement(low * low) - complement(high * high)) / 2)


def log_ratio_tail(smallest: Decimal) -> Decimal:
    """∫ ln((1+u)/(1-u))/u du from m to 1, which is π²/4 for m = 0."""
    with localcontext(CONTEXT):
        return 2 * complement(smallest) - complement(smallest * smallest) / 2


def largest_epsilon(mu: float, zeta: float) -> float:
    """Return the largest ε that the published series can reach, C·π²/6 with C = 2/(μζ): there m = 0.

    >>> round(largest_epsilon(mu=0.1, zeta=0.1), 3)
    328.987
    """
    check_share(mu, "mu")
    check_share(zeta, "zeta")
    return 2 / (mu * zeta) * math.pi**2 / 6


def spence_epsilon(t: int, epsilon: float, mu: float, zeta: float) -> float:
    """Budget of slot t in the published series: ε_t = C(1 - m^{2t})/t² with m² = Li₂⁻¹(π²/6 - ε/C).

    C is 2/(μζ) in the proof of the final theorem and Δ_Q/(μζ) in its statement, equal for Δ_Q = 2. The
    series sums to ε exactly, because Σ (1 - m^{2t})/t² = π²/6 - Li₂(m²) = ε/C. In the statement |ζ| is a
    supremum of e^{|η - η|}, hence at least 1; in the experiments it is a rate from 0.1 to 0.5. Here it is a
    parameter in (0, 1].

    >>> round(spence_epsilon(1, epsilon=1, mu=0.1, zeta=0.1), 4)
    0.1186
    """
    check_count(t, "t")
    logarithm = _log_square(epsilon, mu, zeta)
    return -2 / (mu * zeta) * math.expm1(t * logarithm) / t**2


def spence_series(slots: int, epsilon: float, mu: float, zeta: float) -> Floats:
    """Return ε_1, …, ε_t, the elements of `spence_epsilon`, as one array."""
    check_count(slots, "slots")
    logarithm = _log_square(epsilon, mu, zeta)
    t = np.arange(1, slots + 1, dtype=np.float64)
    return np.asarray(-2 / (mu * zeta) * np.expm1(t * logarithm) / t**2)


def exponent(t: int, epsilon: float, mu: float, zeta: float, form: Form = "proof") -> float:
    """X_t = ln((1+2η_t)/(1-2η_t)) of the published series; α_t = X_t/2.

    Theorem 1 charges (4/μ)·X_t to a family, queries or synopses, so that X_t = (μ/4)·(the family's budget):

    * ``theorem``: X_t = (1 - m^{2t})/(ζt²) = μ·ε_t/2, as stated, and again in the last line of the proof. A
      family is charged 2ε_t and the two together 4ε_t.
    * ``proof``: X_t = (1 - m^{2t})/(2ζt²) = μ·ε_t/4, the line before. A family is charged ε_t, both 2ε_t.
    * ``corrected``: X_t = (1 - m^{2t})/(4ζt²) = μ·ε_t/8. A family is charged ε_t/2, as Algorithm 1 divides
      the budget, and the two together ε_t.
    * ``sound``: X_t = ε_t/(4t). Theorem 1 itself charges too little (`privacy_after`); here the true loss
      of slot t is ε_t, for one draw from each of the two families at 4tα_t = 2tX_t.

    >>> [round(exponent(2, 1, 0.1, 0.1, form), 6) for form in ("theorem", "proof", "corrected", "sound")]
    [0.002964, 0.001482, 0.000741, 0.007409]
    """
    budget = spence_epsilon(t, epsilon, mu, zeta)
    return budget / (4 * t) if form == "sound" else budget * mu / _DIVISOR[form]


def exponents(slots: int, epsilon: float, mu: float, zeta: float, form: Form = "proof") -> Floats:
    """Return X_1, …, X_t of `exponent` as one array."""
    series = spence_series(slots, epsilon, mu, zeta)
    return series / (4 * np.arange(1, slots + 1)) if form == "sound" else series * mu / _DIVISOR[form]


def eta(t: int, epsilon: float, mu: float, zeta: float, form: Form = "proof") -> float:
    """Learning rate of slot t, η_t = ½(e^X - 1)/(e^X + 1) = ½·tanh(X/2), for the X_t of `exponent`.

    >>> round(eta(1, 1, 0.1, 0.1, "theorem"), 6), round(eta(1, 1, 0.1, 0.1, "corrected"), 6)
    (0.001482, 0.000371)
    """
    return math.tanh(exponent(t, epsilon, mu, zeta, form) / 2) / 2


def rates(exponents: Rates) -> Floats:
    """Learning rates ½·tanh(X/2) of a vector of exponents."""
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
