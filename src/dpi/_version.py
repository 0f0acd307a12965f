"""The version of the program, which the certificate of every release states."""

__version__ = "0.2.0"
