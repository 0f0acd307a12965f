"""Texts of at most eight ASCII letters, each as one number: a column of them is looked up without an object for each.

Which way a column is read decides nothing but speed: whatever is not found here is looked up as any other text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers

LONGEST = 8
"""Letters that are one number of eight bytes.

Source: by definition.
"""

_Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ShortTexts:
    """The short ones of some texts by their numbers, sorted, and the code of each."""

    keys: _Keys
    codes: Integers

    @classmethod
    def of(cls, codes: Mapping[str, int]) -> ShortTexts:
        """Those of a list; numpy knows no text that ends with a zero byte, so that none has one here."""
        plain = [text for text in codes if 0 < len(text) <= LONGEST and text.isascii() and "\0" not in text]
        keys = np.array([text.encode() for text in plain], dtype=f"S{LONGEST}").view(np.uint64)
        order = np.argsort(keys)
        return cls(keys[order], np.array([codes[text] for text in plain], dtype=np.int64)[order])

    def find(self, column: object, unlisted: int) -> Integers | None:
        """The code of each row, `unlisted` where there is none; None for a column that is not of short texts."""
        keys = _numbers(column) if self.keys.size else None
        if keys is None:
            return None
        at = self.keys.searchsorted(keys)
        np.minimum(at, self.keys.size - 1, out=at)
        return np.where(self.keys.take(at) == keys, self.codes.take(at), unlisted)


def _numbers(column: object) -> _Keys | None:
    """The numbers of a column of numpy texts, all of them short and ASCII; None for any other."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind != "U" or not column.dtype.isnative:
        return None
    letters = column.dtype.itemsize // 4
    if not column.size or not 0 < letters <= LONGEST:
        return None
    points = np.ascontiguousarray(column).view(np.uint32).reshape(column.size, letters)
    if points.max() > 127:
        return None
    padded = np.zeros((column.size, LONGEST), dtype=np.uint8)
    padded[:, :letters] = points
    return padded.view(np.uint64)[:, 0]
