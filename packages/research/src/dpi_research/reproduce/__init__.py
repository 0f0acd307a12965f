"""How an evaluation is run, kept, drawn and written down; what is evaluated stands in `dpi_research.experiments`."""

from dpi_research.reproduce._page import write
from dpi_research.reproduce._running import Outcome, run
from dpi_research.reproduce.experiment import Case, Experiment, Row, Sheet, Summary, Table

__all__ = ["Case", "Experiment", "Outcome", "Row", "Sheet", "Summary", "Table", "run", "write"]
