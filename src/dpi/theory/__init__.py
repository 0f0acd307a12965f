"""The published bounds as functions: what is printed, what is wrong with it, and what holds.

Formulas about public parameters only; nothing here sees data, and no mechanism takes its budget from here.
"""

from dpi.theory.bound import Bound
from dpi.theory.entropy import entropy_approximation, multinomial_entropy, pool_entropy
from dpi.theory.privacy import claimed_loss, privacy_after, total_privacy, true_loss
from dpi.theory.spence import (
    Form,
    eta,
    exponent,
    exponents,
    largest_epsilon,
    li2,
    li2_inverse,
    log_loss_integral,
    log_ratio_integral,
    log_ratios,
    rates,
    spence_epsilon,
    spence_series,
)
from dpi.theory.utility import (
    Concentration,
    concentration,
    final_constant,
    final_utility,
    log_loss,
    objective,
    utility_after,
    utility_bound,
)

__all__ = [
    "Bound",
    "Concentration",
    "Form",
    "claimed_loss",
    "concentration",
    "entropy_approximation",
    "eta",
    "exponent",
    "exponents",
    "final_constant",
    "final_utility",
    "largest_epsilon",
    "li2",
    "li2_inverse",
    "log_loss",
    "log_loss_integral",
    "log_ratio_integral",
    "log_ratios",
    "multinomial_entropy",
    "objective",
    "pool_entropy",
    "privacy_after",
    "rates",
    "spence_epsilon",
    "spence_series",
    "total_privacy",
    "true_loss",
    "utility_after",
    "utility_bound",
]
