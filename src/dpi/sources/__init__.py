"""Where events come from: tables in memory, files of any size, in any order, files that grow, and brokers."""

from dpi.sources.admission import Admission, Events, stamp_window
from dpi.sources.brokers import BrokerEvents, broker
from dpi.sources.files import FileEvents, read
from dpi.sources.source import FollowedEvents, PlayedSlots
from dpi.sources.table import TableEvents

__all__ = [
    "Admission",
    "BrokerEvents",
    "Events",
    "FileEvents",
    "FollowedEvents",
    "PlayedSlots",
    "TableEvents",
    "broker",
    "read",
    "stamp_window",
]
