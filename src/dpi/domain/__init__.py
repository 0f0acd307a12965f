"""What values there are: public, and declared before any data is seen."""

from dpi.domain._amounts import Amounts
from dpi.domain._categories import Categories
from dpi.domain._discovered import Discovered
from dpi.domain._domain import OUTSIDE, Bins, Domain, Hashed, Product, column_of
from dpi.domain._texts import Texts
from dpi.domain.partition import Blocks, Marginal

__all__ = [
    "OUTSIDE", "Amounts", "Bins", "Blocks", "Categories", "Discovered", "Domain", "Hashed", "Marginal", "Product",
    "Texts", "column_of",
]  # fmt: skip
