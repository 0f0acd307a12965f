"""A small slot stays fast: how often its hot paths call a function of ours, which no busy machine changes.

Times belong into benchmarks/small_slots.py; here is what can be counted. The figures are those of a seeded stream over
32 slots after 32 others. A count may exceed its figure by a tenth: whoever adds more has made every small slot slower,
and either finds another way or writes down the new figure and says in docs/benchmarks.md what it buys.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import dpi
from dpi.noise import UnsafeSeededSource

HOME = str(Path(dpi.__file__).parent)
SLACK = 1.1
SLOTS = 32

CALLS = {
    # (bins, users, durable): calls of functions of ours in a slot
    (10, 100, False): 719,
    (100, 500, False): 732,
    (1000, 500, False): 740,
    (100, 500, True): 844,
}
PATHS = {
    # calls of one function in a slot, of 100 bins in a file
    ("options/option.py", "to_options"): 0,
    ("stream/options.py", "to_options"): 0,
    ("events/columns.py", "canonical"): 0,
    ("budget/account_table.py", "get"): 4,
    ("budget/account_table.py", "find"): 5,
    ("budget/class_allocation.py", "_read"): 0.6,
    ("mechanism/cells/sizes.py", "regressed"): 1,
    ("mechanism/filtering/population.py", "_locate"): 2.3,
    ("mechanism/filtering/laplace_gauss.py", "score"): 2.4,
    ("store/sqlite.py", "rows"): 13.2,
    ("store/sqlite.py", "execute"): 15.4,
}


def counted(bins: int, users: int, store: Path | None) -> tuple[Counter[tuple[str, str]], int]:
    """Calls of our functions by file and name over `SLOTS` slots, and how often a data frame was collected."""
    names = np.array([f"v{bin}" for bin in range(bins)])
    rng, ours, collected = np.random.default_rng(1), Counter[tuple[str, str]](), 0

    def heard(frame: FrameType, event: str, _: object) -> None:
        nonlocal collected
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(HOME):
                ours[code.co_filename[len(HOME) + 1 :], code.co_name] += 1
            collected += code.co_name == "collect"

    with dpi.Stream(
        domain=dpi.Categories(names),
        epsilon=2,
        unsafe_source=UnsafeSeededSource(1),
        store=dpi.MemoryStore(bytes(32)) if store is None else store,
    ) as stream:
        for slot in range(2 * SLOTS):
            ids, values = rng.integers(0, 2 * users, users), names[rng.integers(0, bins, users)]
            before = sys.getprofile()
            sys.setprofile(heard if slot >= SLOTS else before)
            try:
                stream.release(ids, values, slot=slot)
            finally:
                sys.setprofile(before)
    return ours, collected


@pytest.mark.parametrize(("bins", "users", "durable"), CALLS)
def test_a_small_slot_calls_no_more_functions(bins: int, users: int, durable: bool, tmp_path: Path) -> None:
    """What a slot costs beside its arrays is the number of steps it takes."""
    ours, collected = counted(bins, users, tmp_path / "store.db" if durable else None)
    assert collected == 0  # a data frame costs a small slot more than all its rows
    assert ours.total() / SLOTS <= SLACK * CALLS[bins, users, durable]


def test_hot_paths_are_taken_no_more_often(tmp_path: Path) -> None:
    """What cannot change within a slot, or at all, is found once."""
    ours, _ = counted(100, 500, tmp_path / "store.db")
    often = {path: ours[path] / SLOTS for path, figure in PATHS.items() if ours[path] / SLOTS > SLACK * figure}
    assert not often
    gone = [path for path in PATHS if PATHS[path] and not ours[path]]
    assert not gone  # a path that was renamed is counted no more
