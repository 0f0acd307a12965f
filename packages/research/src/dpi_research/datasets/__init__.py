"""Streams to try things on: real ones, read from their publishers' files, and made-up ones whose truth is known."""

from dpi_research.datasets.catalogue import DATASETS, load
from dpi_research.datasets.covid import cases
from dpi_research.datasets.dataset import Dataset

__all__ = ["DATASETS", "Dataset", "cases", "load"]
