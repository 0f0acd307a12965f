"""A page about a stream of releases: one HTML file that needs nothing else. It sees releases only."""

from dpi.report._page import page, write
from dpi.report._page_text import Status

__all__ = ["Status", "page", "write"]
