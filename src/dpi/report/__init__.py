"""A page about a stream of releases: one HTML file that needs nothing else. It sees releases only."""

from dpi.report.page import page, write
from dpi.report.page_text import Status

__all__ = ["Status", "page", "write"]
