"""The estimator: who is active, what they do, what they pay; by class, or of users who are measured alike."""

from dpi.mechanism.class_estimator._engagement import PRIOR_DEVIATIONS
from dpi.mechanism.class_estimator._hypotheses import Distributions
from dpi.mechanism.class_estimator._payments import FIRST, LONGEST, request_payments
from dpi.mechanism.class_estimator._single_class import HUGE, SingleClassState, same_hypotheses, update_single_class
from dpi.mechanism.class_estimator._slot import GroupSums, close_slot
from dpi.mechanism.class_estimator._state import UsersState, from_bytes, holds, to_bytes

__all__ = [
    "FIRST",
    "HUGE",
    "LONGEST",
    "PRIOR_DEVIATIONS",
    "Distributions",
    "GroupSums",
    "SingleClassState",
    "UsersState",
    "close_slot",
    "from_bytes",
    "holds",
    "request_payments",
    "same_hypotheses",
    "to_bytes",
    "update_single_class",
]
