"""A store in memory that is interrupted, at whatever line, goes on as if nothing had happened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

import dpi
from dpi.store import _memory
from dpi.testing.workload import KEY, outcome, run

WRITES = ("declare", "pay", "publish", "append_all")
SLOTS = 2


@contextmanager
def interrupted(method: str, line: int) -> Iterator[list[int]]:
    """Ctrl-C before the `line`-th line that is done inside a method of the store; the list is told of every line."""
    passed: list[int] = []
    write = getattr(dpi.MemoryStore, method)

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != _memory.__file__:
            return None
        if event == "line":
            passed.append(frame.f_lineno)
            if len(passed) == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    def traced(*values: object, **named: object) -> object:
        before = sys.gettrace()
        sys.settrace(trace)  # nothing else is slowed down by it
        try:
            return write(*values, **named)
        finally:
            sys.settrace(before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpi.MemoryStore, method, traced)
        yield passed


@pytest.fixture(scope="module")
def expected() -> dict[str, object]:
    """The outcome of a run that nothing disturbed."""
    store = dpi.MemoryStore(KEY)
    list(run(store, SLOTS))
    return outcome(store)


@pytest.mark.parametrize("method", WRITES)
def test_a_write_that_is_interrupted_is_whole_or_was_not(method, expected) -> None:
    """Wherever an interruption falls, the store's streams go on to the same accounts, releases and chain."""
    with interrupted(method, 0) as passed:
        list(run(dpi.MemoryStore(KEY), SLOTS))
    assert len(set(passed)) > 5
    for line in {number: at for at, number in enumerate(passed, 1)}.values():  # the last time that each was done
        store = dpi.MemoryStore(KEY)
        with pytest.raises(KeyboardInterrupt), interrupted(method, line):
            list(run(store, SLOTS))
        list(run(store, SLOTS))
        assert outcome(store) == expected, f"line {passed[line - 1]}"
