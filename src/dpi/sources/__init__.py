"""Where events come from: tables in memory, files of any size, in any order, and files that grow."""

from dpi.sources.events import Batch, FileEvents
from dpi.sources.files import read
from dpi.sources.source import PlayedSlots, SlotRows
from dpi.sources.table import TableEvents

__all__ = ["Batch", "FileEvents", "PlayedSlots", "SlotRows", "TableEvents", "read"]
