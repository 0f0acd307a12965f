"""Where events come from: tables in memory, files of any size, in any order, files that grow, and brokers."""

from dpi.sources._source import Columns, FollowedEvents, PlayedSlots, Progress
from dpi.sources._table import TableEvents
from dpi.sources.admission import Admission, Events, Understood, stamp_window
from dpi.sources.brokers import BrokerEvents, broker
from dpi.sources.files import FileEvents, read

__all__ = [
    "Admission",
    "BrokerEvents",
    "Columns",
    "Events",
    "FileEvents",
    "FollowedEvents",
    "PlayedSlots",
    "Progress",
    "TableEvents",
    "Understood",
    "broker",
    "read",
    "stamp_window",
]
