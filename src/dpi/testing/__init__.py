"""Checks for mechanisms, stores and sources, ours and anybody's: plain functions that raise `AssertionError`."""

from dpi.testing._mechanism import MECHANISM_CHECKS, check_mechanism
from dpi.testing._source import SOURCE_CHECKS, Feed, Follower, check_source
from dpi.testing._store import STORE_CHECKS, Reopen, check_store

__all__ = [
    "MECHANISM_CHECKS",
    "SOURCE_CHECKS",
    "STORE_CHECKS",
    "Feed",
    "Follower",
    "Reopen",
    "check_mechanism",
    "check_source",
    "check_store",
]
