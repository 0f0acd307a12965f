"""Private discovery: frequent values of events for which nobody has a public list, found with pure ε."""

from dpi.discovery._discovery import Discovery, Found

__all__ = ["Discovery", "Found"]
