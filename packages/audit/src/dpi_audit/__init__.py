"""Privacy claims that can fail: exact and empirical audits, what an analyst can reach, and a zoo of broken mechanisms.

>>> import dpi_audit as audit
>>> audit.clopper_pearson(5, 10, 0.025)[0] < 0.5
True
"""

from dpi.testing.laws import Choices, Finite, Joint, Laplace, Law, Point, Worst
from dpi_audit import neighbours
from dpi_audit._report import AuditReport, Excess, Row, excesses
from dpi_audit._running import count_steps, run
from dpi_audit._shipped import black_box
from dpi_audit.commands import command_line, odd_rows
from dpi_audit.empirical import Bound, clopper_pearson, lower_bound
from dpi_audit.exact import Finding, loss_on, search, worst_of
from dpi_audit.neighbours import Neighbours
from dpi_audit.reach import Reach, Timing, capture, compare, exported, read_files, run_process, time_to_release
from dpi_audit.session import Session, SeveralStreams, StoredSession, StreamSession

__all__ = [
    "AuditReport", "Bound", "Choices", "Excess", "Finding", "Finite", "Joint", "Laplace", "Law", "Neighbours",
    "Point", "Reach", "Row", "Session", "SeveralStreams", "StoredSession", "StreamSession", "Timing", "Worst",
    "black_box", "capture", "clopper_pearson", "command_line", "compare", "count_steps", "excesses", "exported",
    "loss_on", "lower_bound", "neighbours", "odd_rows", "read_files", "run", "run_process", "search",
    "time_to_release", "worst_of",
]  # fmt: skip
