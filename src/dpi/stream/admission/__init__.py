"""Which events count: by their own time, and by moments that were recorded when they arrived."""

from dpi.stream.admission.events import Admission, Events, admitted, stamped
from dpi.stream.admission.marks import Journal, Mark, newest_reaches
from dpi.stream.admission.timer import Timer

__all__ = ["Admission", "Events", "Journal", "Mark", "Timer", "admitted", "newest_reaches", "stamped"]
