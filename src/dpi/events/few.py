"""Few rows: where plain Python or numpy is faster than a data frame, whose every call costs as much as many rows.

The one place that says how many rows are few. Whatever takes another way for them has the same result row by row, so
that the number of rows decides nothing but speed (tests/events/test_few.py compares both ways).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl

FEW = 1 << 14
"""Up to so many rows a look-up of each text is faster than a column of a data frame.

Source: both ways timed by themselves. 2,000 texts of 100 categories took 0.3 ms instead of 1.4, and 20,000 texts of
1,000 categories in a list 2.3 instead of 2.8; of 200,000 texts in a list the column was faster.
"""


def few_texts(column: object) -> list[str] | None:
    """The rows of a column of few texts, of numpy or in a list; None for any other, which is read as a column.

    >>> few_texts(np.array(["a", "b"])), few_texts(["a", None])
    (['a', 'b'], None)
    """
    if isinstance(column, np.ndarray):
        return column.tolist() if column.ndim == 1 and column.dtype.kind == "U" and column.size <= FEW else None
    if isinstance(column, list) and len(column) <= FEW and set(map(type, column)) <= {str}:
        return column
    return None


HANDFUL = 1 << 9
"""Up to so many texts of a column a loop over them is faster than one call of the data frame that holds them.

Source: both ways timed by themselves. The lengths of 64 texts took 15 µs instead of 100, and those of 512 as long as
the column's.
"""


def handful(column: pl.Series) -> list[str] | None:
    """The rows of a column of a handful of texts, missing ones as None; None for a longer one.

    >>> import polars as pl
    >>> handful(pl.Series(["a", "b"])), handful(pl.Series(["a"]).new_from_index(0, HANDFUL + 1))
    (['a', 'b'], None)
    """
    return column.to_list() if column.len() <= HANDFUL else None
