"""The version of the program, which every certificate states."""

__version__ = "0.1.0"
