"""A stream: the object that ties everything together, its options, and its life between two slots."""

from dpi.stream._stream import Stream
from dpi.stream.prefix_tree import PrefixTree

__all__ = ["PrefixTree", "Stream"]
