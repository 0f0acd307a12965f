"""How far inputs had got at moments of the public clock, by which it is told which of their events count."""

from dpi.stream.admission.marks import Journal, Mark, newest_reaches
from dpi.stream.admission.timer import Timer

__all__ = ["Journal", "Mark", "Timer", "newest_reaches"]
