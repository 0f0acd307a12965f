"""Sorted accounts and what has changed of them, in one: all at once, or some at a time. Private."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpi.budget.account_table import RECORD, merged

Records = npt.NDArray[np.void]
"""Accounts as records, sorted by name."""
_RAW = np.dtype((np.void, RECORD.itemsize))


def joined(base: Records, changed: Records) -> Records:
    """The accounts of both, each sorted by name and without doubles; where a name is in both, as it was changed.

    >>> def accounts(*rows): return np.array([((high, 0), (spent, 1, 0)) for high, spent in rows], dtype=RECORD)
    >>> both = joined(accounts((1, 5), (4, 6)), accounts((2, 7), (4, 8)))
    >>> both["name"]["high"].tolist(), both["standing"]["spent"].tolist()
    ([1, 2, 4], [5, 7, 8])
    """
    high, more = (np.ascontiguousarray(each["name"]["high"]) for each in (base, changed))
    if (high[1:] == high[:-1]).any() or (more[1:] == more[:-1]).any():  # two names share a high half: rare
        return np.frombuffer(merged(base.tobytes() + changed.tobytes()), dtype=RECORD)
    at = np.searchsorted(high, more)
    inside = np.minimum(at, max(high.size - 1, 0))
    known = (high[inside] == more) if high.size else np.zeros(more.size, dtype=np.bool_)
    if (base["name"]["low"][inside[known]] != changed["name"]["low"][known]).any():
        return np.frombuffer(merged(base.tobytes() + changed.tobytes()), dtype=RECORD)
    kept = base.view(_RAW).copy()
    kept[at[known]] = changed.view(_RAW)[known]
    new = np.flatnonzero(~known)
    if not new.size:
        return kept.view(RECORD)
    result, places = np.empty(high.size + new.size, dtype=_RAW), at[new] + np.arange(new.size)
    old = np.ones(result.size, dtype=np.bool_)
    old[places] = False
    result[old], result[places] = kept, changed.view(_RAW)[new]
    return result.view(RECORD)


def joined_pieces(pieces: Iterable[Records], changed: Records) -> Iterator[Records]:
    """`joined`, where the accounts come some at a time."""
    held = iter(pieces)
    piece = next(held, None)
    while piece is not None:
        following = next(held, None)
        end = changed.size if following is None else _below(changed, following[0])
        yield joined(piece, changed[:end])
        piece, changed = following, changed[end:]
    if changed.size:
        yield changed


def _below(records: Records, first: np.void) -> int:
    """How many records come before a name."""
    high, low = records["name"]["high"], records["name"]["low"]
    start, end = (int(np.searchsorted(high, first["name"]["high"], side=side)) for side in ("left", "right"))
    return start + int(np.searchsorted(low[start:end], first["name"]["low"]))


def together(pieces: Sequence[Records]) -> Records:
    """Pieces that follow each other, as one."""
    return np.concatenate([np.empty(0, dtype=_RAW), *(piece.view(_RAW) for piece in pieces)]).view(RECORD)
