"""Where events come from: files of any size, in any order, and files that grow."""

from dpi.sources.events import Batch, FileEvents
from dpi.sources.files import read
from dpi.sources.follow import Position

__all__ = ["Batch", "FileEvents", "Position", "read"]
