"""Streams to try things on: real ones, read from their publishers' files, and made-up ones whose truth is known."""

from dpi_research.datasets._dataset import FOLDER, Dataset
from dpi_research.datasets.loaders import DATASETS, cases, load

__all__ = ["DATASETS", "FOLDER", "Dataset", "cases", "load"]
