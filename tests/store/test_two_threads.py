from __future__ import annotations

import threading
from pathlib import Path

import pytest

import dpi
from dpi.events.rows import Rows
from dpi.store import memory


def test_a_look_at_a_new_file_disturbs_no_release(tmp_path: Path) -> None:
    """The timer may ask what is stored of a file while the reader's thread has the log erased."""
    with dpi.open_store(tmp_path / "store.db") as store:
        dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="1h", start="2026-01-01", store=store)
        store.append("", Rows.empty(), "a file", 5)
        done, answers = threading.Event(), set[int]()

        def ask() -> None:
            while not done.is_set():
                answers.add(store.sequence("", "a file"))

        timer = threading.Thread(target=ask)
        timer.start()
        try:
            for number in range(40):
                store.note("", number, "[]")
                store.engine.erase()  # type: ignore[attr-defined]
        finally:
            done.set()
            timer.join()
        assert answers == {5}


def test_the_steps_of_a_write_in_memory_are_done_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer may ask while the reader is in the middle of a write: done by both, an event could double."""
    store = dpi.MemoryStore()
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="1h", start="2026-01-01", store=store)
    append, threads, answers = memory._append, list[threading.Thread](), list[int]()
    timer = threading.Thread(target=lambda: answers.append(store.sequence("", "a file")))

    def slowly(entries: list[object], entry: object) -> None:
        """A step during which the timer asks."""
        threads.append(threading.current_thread())
        if len(threads) == 1:
            timer.start()
            timer.join(timeout=0.2)  # it should wait, so this ends by time
        append(entries, entry)

    monkeypatch.setattr(memory, "_append", slowly)
    assert store.append("", Rows.empty(), "a file", 1)
    timer.join()
    assert threads == [threading.current_thread()]
    assert answers == [1]
