"""Arithmetic that decides privacy matters: whole numbers, and series to any precision."""
