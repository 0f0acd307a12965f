"""Privacy claims that can fail: exact and empirical audits, what an analyst can reach, and a zoo of broken mechanisms.

>>> from dpi import audit
>>> audit.clopper_pearson(5, 10, 0.025)[0] < 0.5
True
"""

from dpi.audit import neighbours
from dpi.audit.accounting import Excess, excesses
from dpi.audit.commands import command_line, odd_rows
from dpi.audit.confidence import clopper_pearson
from dpi.audit.empirical import Bound, lower_bound
from dpi.audit.exact import Finding, loss_on, search, worst_of
from dpi.audit.exports import exported
from dpi.audit.laws import Choices, Finite, Joint, Laplace, Law, Point, Worst
from dpi.audit.neighbours import Neighbours
from dpi.audit.reach import Reach, captured, compare, files, process
from dpi.audit.report import AuditReport, Row
from dpi.audit.running import run, steps
from dpi.audit.session import Session, SeveralStreams, StreamSession
from dpi.audit.shipped import black_box
from dpi.audit.stored import StoredSession
from dpi.audit.timing import Timing, time_to_release

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
