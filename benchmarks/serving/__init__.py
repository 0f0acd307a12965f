"""Servers, loads and checks of `benchmarks/service.py`."""
