"""Parquet and Arrow files: columns with a declared type, read some rows at a time.

The footer is schema. A file whose footer or pages are damaged is refused as a whole. No row can cause that, if the
writer keeps to the format: a text column declares that its texts are UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import SchemaError, StateError
from dpi.sources.source import Progress, Source, missing

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 18
"""Rows at a time."""


class Columnar(Source):
    """A Parquet file, or an Arrow (IPC, Feather) file."""

    def __init__(self, path: str, form: str) -> None:
        self.path = path
        self.size = Path(path).stat().st_size
        self._form = form

    def _scan(self) -> pl.LazyFrame:
        import polars as pl

        if self._form == "parquet":
            return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)
        return pl.scan_ipc(self.path, glob=False, hive_partitioning=False)

    def kinds(self) -> dict[str, pl.DataType]:
        """The declared types."""
        import polars as pl

        try:
            return dict(self._scan().collect_schema())
        except (pl.exceptions.PolarsError, OSError):
            raise SchemaError(f"{self.path!r} must be a {self._form} file. It is another, or is damaged.") from None

    def check(self, user: str, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""
        kinds = self.kinds()
        for name in names:
            if name not in kinds:
                raise missing(self.path, name, kinds)

    def frames(self, user: str, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """The columns, with dictionaries of texts as texts."""
        import polars as pl

        text = pl.selectors.categorical() | pl.selectors.enum()
        try:
            rows = max(1, int(self._scan().select(pl.len()).collect().item()))
            batches = self._scan().select(names).with_columns(text.cast(pl.String)).collect_batches(chunk_size=_ROWS)
            done = 0
            for frame in batches:
                done += frame.height
                yield frame
                progress(self.size * done // rows)
        except (pl.exceptions.PolarsError, OSError):
            # The cause may quote what was read.
            raise StateError(f"{self.path!r} is damaged, or holds text that is not UTF-8; write it again.") from None
