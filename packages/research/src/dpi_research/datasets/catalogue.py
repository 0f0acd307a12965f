"""The real streams, by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi_research.datasets.covid import COVID19
from dpi_research.datasets.flights import FLIGHTS
from dpi_research.datasets.network import HONEYPOT, PACKETS
from dpi_research.datasets.psd import PSD
from dpi_research.datasets.retail import RETAIL
from dpi_research.datasets.wikiticker import WIKITICKER

if TYPE_CHECKING:
    import polars as pl

DATASETS = {dataset.name: dataset for dataset in (COVID19, HONEYPOT, PACKETS, PSD, FLIGHTS, RETAIL, WIKITICKER)}
"""Real streams by name; each says who its user is."""


def load(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    download: bool = False,
    sha256: str | None = None,
) -> pl.DataFrame:
    """A real stream as a table: `user`, `timestamp`, `value`, and what else it has.

    `path` is the publisher's own file; without it the stream is looked for in the folder that DPI_DATA names. Nothing
    is downloaded unless `download=True`, and then only a file whose `sha256` you state.

    >>> load("taxi")
    Traceback (most recent call last):
    dpi.errors.OptionError: there is no data set 'taxi'; known are covid19, honeypot, packets, psd, flights, ...
    """
    if name not in DATASETS:
        raise OptionError(f"there is no data set {name!r}; known are {', '.join(DATASETS)}.")
    return DATASETS[name].load(path, download=download, sha256=sha256)
