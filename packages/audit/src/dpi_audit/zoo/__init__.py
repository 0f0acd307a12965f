"""Mechanisms that are broken in one known way, each beside its correct twin: what an audit is audited with.

Nothing here is for use, and nothing outside `dpi_audit` may import it: a contract of the import linter holds that.
"""

from dpi_audit.zoo import (
    accounts,
    allocations,
    batches,
    classes,
    clocks,
    discoveries,
    lives,
    numbers,
    public_facts,
    published_accounting,
    quotas,
    refusals,
    retries,
    sparse_vector,
    surfaces,
    writers,
)
from dpi_audit.zoo.base import Check, Pair

PAIRS: tuple[Pair, ...] = (
    *published_accounting.PAIRS,
    *public_facts.PAIRS,
    *discoveries.PAIRS,
    *retries.PAIRS,
    *refusals.PAIRS,
    *clocks.PAIRS,
    *batches.PAIRS,
    *numbers.PAIRS,
    *accounts.PAIRS,
    *classes.PAIRS,
    *lives.PAIRS,
    *quotas.PAIRS,
    *writers.PAIRS,
    *allocations.PAIRS,
    *sparse_vector.PAIRS,
    *surfaces.PAIRS,
)

__all__ = ["PAIRS", "Check", "Pair"]
