"""From the rows of a slot to a histogram of whole numbers: one user, one unit."""

from dpi.histogram.compression import Histogram, compress, counts, normalise, truncate, whole_pdf

__all__ = ["Histogram", "compress", "counts", "normalise", "truncate", "whole_pdf"]
