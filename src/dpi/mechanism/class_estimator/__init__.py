"""The estimator: who is active, what they do, what they pay; by class, or of users who are measured alike."""

from dpi.mechanism.class_estimator._alike import HUGE, AlikeState, close_alike, same_hypotheses
from dpi.mechanism.class_estimator._engagement import PRIOR_DEVIATIONS
from dpi.mechanism.class_estimator._hypotheses import Laws
from dpi.mechanism.class_estimator._payments import FIRST, LONGEST, ask
from dpi.mechanism.class_estimator._slot import GroupSums, close_slot
from dpi.mechanism.class_estimator._state import (
    UsersState,
    decode,
    digested,
    encode,
    freeze,
    from_bytes,
    holds,
    to_bytes,
)

__all__ = [
    "FIRST",
    "HUGE",
    "LONGEST",
    "PRIOR_DEVIATIONS",
    "AlikeState",
    "GroupSums",
    "Laws",
    "UsersState",
    "ask",
    "close_alike",
    "close_slot",
    "decode",
    "digested",
    "encode",
    "freeze",
    "from_bytes",
    "holds",
    "same_hypotheses",
    "to_bytes",
]
