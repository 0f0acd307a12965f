"""The estimator of users by class: who is active, what they do, what they pay."""

from dpi.mechanism.users._payments import ask
from dpi.mechanism.users._slot import GroupSums, close_slot
from dpi.mechanism.users._state import UsersState, digested, from_bytes, holds, to_bytes

__all__ = ["GroupSums", "UsersState", "ask", "close_slot", "digested", "from_bytes", "holds", "to_bytes"]
