"""How an evaluation is run, kept, drawn and written down; what is evaluated stands in `dpi.experiments`."""

from dpi.reproduce.experiment import Case, Experiment, Row, Sheet, Summary, Table
from dpi.reproduce.page import write
from dpi.reproduce.running import Outcome, run

__all__ = ["Case", "Experiment", "Outcome", "Row", "Sheet", "Summary", "Table", "run", "write"]
