"""Privacy claims that can fail: exact and empirical audits, what an analyst can reach, and a zoo of broken mechanisms.

>>> import dpi_audit as audit
>>> audit.clopper_pearson(5, 10, 0.025)[0] < 0.5
True
"""

from dpi.testing.laws import Choices, Finite, Joint, Laplace, Law, Point, Worst
from dpi_audit import neighbours
from dpi_audit.accounting import Excess, excesses
from dpi_audit.commands import command_line, odd_rows
from dpi_audit.confidence import clopper_pearson
from dpi_audit.empirical import Bound, lower_bound
from dpi_audit.exact import Finding, loss_on, search, worst_of
from dpi_audit.exports import exported
from dpi_audit.neighbours import Neighbours
from dpi_audit.reach import Reach, captured, compare, files, process
from dpi_audit.report import AuditReport, Row
from dpi_audit.running import run, steps
from dpi_audit.session import Session, SeveralStreams, StreamSession
from dpi_audit.shipped import black_box
from dpi_audit.stored import StoredSession
from dpi_audit.timing import Timing, time_to_release

__all__ = [
    "AuditReport",
    "Bound",
    "Choices",
    "Excess",
    "Finding",
    "Finite",
    "Joint",
    "Laplace",
    "Law",
    "Neighbours",
    "Point",
    "Reach",
    "Row",
    "Session",
    "SeveralStreams",
    "StoredSession",
    "StreamSession",
    "Timing",
    "Worst",
    "black_box",
    "captured",
    "clopper_pearson",
    "command_line",
    "compare",
    "excesses",
    "exported",
    "files",
    "loss_on",
    "lower_bound",
    "neighbours",
    "odd_rows",
    "process",
    "run",
    "search",
    "steps",
    "time_to_release",
    "worst_of",
]
