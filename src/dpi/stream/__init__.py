"""A stream: the object that ties everything together, its options, and its life between two slots."""

from dpi.stream.stream import Stream, clocked

__all__ = ["Stream", "clocked"]
