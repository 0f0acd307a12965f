"""Mechanisms that are broken in one known way, each beside its correct twin: what an audit is audited with.

Nothing here is for use, and nothing outside `dpi_audit` may import it: a contract of the import linter holds that.
"""

from dpi_audit.zoo import accounts, noise, public_facts, published_accounting, rows, shares
from dpi_audit.zoo.base import Check, Pair

PAIRS: tuple[Pair, ...] = (
    *published_accounting.PAIRS, *public_facts.PAIRS, *rows.PAIRS, *noise.PAIRS, *accounts.PAIRS, *shares.PAIRS
)  # fmt: skip

__all__ = ["PAIRS", "Check", "Pair"]
