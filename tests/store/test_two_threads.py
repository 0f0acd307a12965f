from __future__ import annotations

import sys
import threading
from pathlib import Path

import dpi
from dpi.events.rows import Rows


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


def test_no_write_in_memory_is_lost_beside_another_thread() -> None:
    """The timer notes marks while the reader keeps events: each puts its own beside what the other has written."""
    store, number = dpi.MemoryStore(), 2000
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="1h", start="2026-01-01", store=store)
    timer = threading.Thread(target=lambda: [store.note("", mark, "[]") for mark in range(number)])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        timer.start()
        assert all(store.append("", Rows.empty(), "a file", sequence) for sequence in range(300))
        timer.join()
    finally:
        sys.setswitchinterval(before)
    assert len(store.marks("")) == number
    assert store.sequence("", "a file") == 299
