"""What values there are: public, and declared before any data is seen."""

from dpi.domain.categories import Categories
from dpi.domain.domain import OUTSIDE, Bins, Domain, Hashed, Product
from dpi.domain.partition import Blocks, Marginal
from dpi.domain.texts import Texts

__all__ = ["OUTSIDE", "Bins", "Blocks", "Categories", "Domain", "Hashed", "Marginal", "Product", "Texts"]
