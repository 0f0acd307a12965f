"""A stream: the object that ties everything together, its options, and its life between two slots."""

from dpi.stream.accumulation import PrefixTree
from dpi.stream.stream import Stream

__all__ = ["PrefixTree", "Stream"]
