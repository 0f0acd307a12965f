"""How an evaluation is run, kept, drawn and written down; what is evaluated stands in `dpi.research.experiments`."""

from dpi.research.reproduce.experiment import Case, Experiment, Row, Sheet, Summary, Table
from dpi.research.reproduce.page import write
from dpi.research.reproduce.running import Outcome, run

__all__ = ["Case", "Experiment", "Outcome", "Row", "Sheet", "Summary", "Table", "run", "write"]
