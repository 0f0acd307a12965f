"""A set of whole numbers that knows its gaps."""

from __future__ import annotations


class IndexSet:
    """A set of positive integers that finds the nearest *absent* one, up or down, in O(log).

    A tree of 64-bit masks: bit i of a word says that child i is full. Only words that hold something exist.

    >>> s = IndexSet()
    >>> for i in (1, 2, 4): s.add(i)
    >>> s.free_from(1), s.free_until(2), s.free_until(4), s.runs()
    (3, 0, 3, [[1, 2], [4, 4]])
    """

    _FULL = (1 << 64) - 1
    _LEVELS = 9

    def __init__(self) -> None:
        self._levels: list[dict[int, int]] = [{} for _ in range(self._LEVELS)]
        self.add(0)

    def add(self, index: int) -> None:
        """Put an index in; a word that becomes full marks its parent."""
        for level in self._levels:
            index, bit = index >> 6, index & 63
            mask = level.get(index, 0) | 1 << bit
            level[index] = mask
            if mask != self._FULL:
                return

    def free_from(self, index: int) -> int:
        """The smallest absent integer that is at least `index`."""
        depth = 0
        while True:
            word, bit = index >> 6, index & 63
            free = ~self._levels[depth].get(word, 0) & self._FULL & -1 << bit
            if free:
                index = word << 6 | (free & -free).bit_length() - 1
                break
            index, depth = word + 1, depth + 1
        for level in reversed(self._levels[:depth]):
            free = ~level.get(index, 0) & self._FULL
            index = index << 6 | (free & -free).bit_length() - 1
        return index

    def free_until(self, index: int) -> int:
        """The largest absent integer in 1 … index, or 0 if there is none."""
        depth = 0
        while index >= 0:
            word, bit = index >> 6, index & 63
            free = ~self._levels[depth].get(word, 0) & (2 << bit) - 1
            if free:
                index = word << 6 | free.bit_length() - 1
                break
            index, depth = word - 1, depth + 1
        else:
            return 0
        for level in reversed(self._levels[:depth]):
            free = ~level.get(index, 0) & self._FULL
            index = index << 6 | free.bit_length() - 1
        return index

    def runs(self) -> list[list[int]]:
        """The integers in the set (0 left out), as runs of consecutive ones."""
        runs: list[list[int]] = []
        for word in sorted(self._levels[0]):
            mask = self._levels[0][word]
            for bit in range(64):
                index = word << 6 | bit
                if not mask >> bit & 1 or index == 0:
                    continue
                if runs and runs[-1][1] == index - 1:
                    runs[-1][1] = index
                else:
                    runs.append([index, index])
        return runs
