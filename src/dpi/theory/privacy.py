"""What the published text says a stream loses, and what it loses.

The published weights of slot t are exp(∓α_t·Σ_{j≤t} score_j), one set for the queries and one for the
synopses (the two families), with scores on a ramp in [-1, 1] and α_t = ½·ln((1+2η_t)/(1-2η_t)) = X_t/2.
"""

import numpy as np

from dpi.errors import OptionError
from dpi.theory.bound import Bound, check_count, check_share
from dpi.theory.spence import (
    Floats,
    Form,
    Rates,
    exponents,
    log_loss_integral,
    log_ratio_integral,
    log_ratios,
)


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
    check_share(mu, "mu")
    check_count(draws, "draws")
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
    slots: int,
    draws: int,
    epsilon: float,
    mu: float,
    zeta: float,
    *,
    form: Form = "proof",
    families: int = 1,
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
    check_count(draws, "draws")
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
    check_share(mu, "mu")
    check_share(zeta, "zeta")
    printed = 2 * log_loss_integral(smallest, largest)
    return Bound(4 / (mu * zeta) * printed, 4 / (mu * zeta) * log_ratio_integral(smallest, largest))


def _loss_of_one_draw(ratios: Floats) -> float:
    """Σ 4iα_i = Σ 2iX_i."""
    return 2 * float(np.arange(1, ratios.size + 1) @ ratios)


def _check_families(families: int) -> None:
    if families not in (1, 2):
        raise OptionError(f"`families` must be 1, queries or synopses, or 2, both. Got {families}.")
