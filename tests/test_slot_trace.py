"""The way of one slot of `dpi run`: its calls and its moves between rooms stay below a ceiling.

A count, so that a busy machine changes nothing. Whoever needs more finds another way, or writes down the new figure and
says what it buys: every slot has become slower, and harder to follow.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

CALLS, MOVES = 800, 61
"""Of one slot, on average over three. It was 1,249 and 86 when rows had six types and streams closed slots in turns.

Fifty of the calls are what one model of all users takes more than laws and sizes by class, which knew less of each
other: restarts, what of a doubt is noise, who returns by type.

One of the moves is that the stream says whose rows it gives, so that no other stream closes them.
"""


def slot_trace() -> ModuleType:
    """The benchmark: not by the folder it is in, whose modules share names with ours."""
    spec = importlib.util.spec_from_file_location("slot_trace", Path(__file__).parents[1] / "benchmarks/slot_trace.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_slot_takes_few_calls_and_moves_little_between_rooms(tmp_path: Path) -> None:
    """From one stored release to the next, all rooms together."""
    trace = slot_trace().trace_run(tmp_path)
    calls, moves = trace.by_slot
    assert 0 < calls <= CALLS, trace.calls.most_common(20)
    assert 0 < moves <= MOVES, trace.moves.most_common(20)
