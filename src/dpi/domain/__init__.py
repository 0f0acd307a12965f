"""What values there are: public, and declared before any data is seen."""

from dpi.domain.categories import Categories
from dpi.domain.domain import OUTSIDE, Bins, Domain, Hashed, Product
from dpi.domain.texts import Texts

__all__ = ["OUTSIDE", "Bins", "Categories", "Domain", "Hashed", "Product", "Texts"]
