"""The way of one slot of `dpi run`: its calls and its moves between rooms stay below a ceiling.

A count, so that a busy machine changes nothing. Whoever needs more finds another way, or writes down the new figure and
says what it buys: every slot has become slower, and harder to follow.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from slot_trace import trace_run

CALLS, MOVES = 780, 56
"""Of one slot, on average over three. It was 1,249 and 86 when rows had six types and streams closed slots in turns."""


def test_a_slot_takes_few_calls_and_moves_little_between_rooms(tmp_path: Path) -> None:
    """From one stored release to the next, all rooms together."""
    trace = trace_run(tmp_path)
    calls, moves = trace.by_slot
    assert 0 < calls <= CALLS, trace.calls.most_common(20)
    assert 0 < moves <= MOVES, trace.moves.most_common(20)
