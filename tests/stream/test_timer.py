from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import StoreError
from dpi.sources.live import Look, Reach
from dpi.stream.marks import Journal, Mark, Timer, system_clock

HEAD = b"user,time,value\n"
SLOTS = dpi.Slots("10s", lateness="2s")
SECOND = 1_000_000


class Desk:
    """A stream's store, a file, and a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events.csv"
        self.path.write_bytes(HEAD)
        self.store = dpi.MemoryStore()
        dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="10s", start="1970-01-01", store=self.store)
        self.now = 0

    def timer(self, **options: object) -> Timer:
        """A timer as a program has it that was just started."""
        journal = Journal(self.store, "")
        known = journal.kept[-1][1].reached if journal.kept else {}
        inputs = dpi.read(self.path).live(lambda producer: -1, known)
        return Timer(SLOTS, inputs, journal, clock=lambda: self.now, **options)  # type: ignore[arg-type]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


def test_a_mark_closes_the_slots_whose_time_has_come(desk: Desk) -> None:
    """What arrived between two marks counts for slots open after the first, and for times up to the second."""
    timer, windows, before = desk.timer(), [], None
    for second in (3, 11, 12, 47):
        desk.now = second * SECOND
        noted = timer.look(always=True)
        assert noted is not None
        windows.append(noted[1].window(before, SLOTS, 0))
        before = noted[1]
    assert [window.first for window in windows] == [0, 0, 0, 1]
    assert [window.until for window in windows] == [3 * SECOND, 11 * SECOND, 12 * SECOND, 47 * SECOND]


def test_a_mark_is_durable_before_it_is_handed_on_and_found_by_the_next_program(desk: Desk) -> None:
    """Marks are read back as they were, in order; those that are settled are gone."""
    timer, noted = desk.timer(), []
    for second in (1, 12, 22):
        desk.now = second * SECOND
        noted.append(timer.look())
        assert Journal(desk.store, "").kept == noted
    journal = Journal(desk.store, "")
    journal.settled(1)
    assert Journal(desk.store, "").kept == noted[1:]


def test_a_look_without_news_is_not_noted(desk: Desk) -> None:
    """Nothing came and no slot has closed: the segment goes on."""
    timer, desk.now = desk.timer(), 3 * SECOND
    assert timer.look() is not None
    desk.now = 11 * SECOND
    assert timer.look() is None
    desk.now = 12 * SECOND
    assert timer.look() is not None
    desk.path.write_bytes(HEAD + b"half a line")
    assert timer.look() is not None


def test_a_clock_that_is_set_back_stands_still(desk: Desk) -> None:
    """No mark is before the one before it, also after a restart: a slot that has closed stays closed."""
    desk.now = 30 * SECOND
    first = desk.timer().look()
    desk.now = 5 * SECOND
    second = desk.timer().look(always=True)
    assert first is not None
    assert second is not None
    assert second[1].moment == first[1].moment
    assert second[1].until >= first[1].until


def test_slots_close_by_the_clock_before_the_look_and_the_future_by_the_one_after(desk: Desk) -> None:
    """What came before a closing time is asked for after it, and nothing that has come is from the future."""
    timer, answers = desk.timer(), iter([int(11.9 * SECOND), int(12.1 * SECOND)])
    timer._clock = lambda: next(answers)
    noted = timer.look()
    assert noted is not None
    assert SLOTS.first_open(noted[1].moment) == 0
    assert noted[1].until == int(12.1 * SECOND)


def test_the_thread_notes_every_closing_time(tmp_path: Path) -> None:
    """With the system's clock, slots of 50 ms get a mark each, none before its time, however long the reader sleeps."""
    slots = dpi.Slots("50ms")
    (tmp_path / "events.csv").write_bytes(HEAD)
    store = dpi.MemoryStore()
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="50ms", start="1970-01-01", store=store)
    stop = threading.Event()
    inputs = dpi.read(tmp_path / "events.csv").live(lambda producer: -1, {})
    timer = Timer(slots, inputs, Journal(store, ""), stop=stop).start()
    marks = [next(timer)[1] for _ in range(8)]
    stop.set()
    marks += [mark for _, mark in timer]
    timer.stop()
    opened = [slots.first_open(mark.moment) for mark in marks]
    assert opened == sorted(opened)
    assert all(later.until >= earlier.until for earlier, later in pairwise(marks))
    assert len(set(opened)) >= 7


class Noting(dpi.MemoryStore):
    """Lets others wait for marks."""

    def note(self, stream: str, number: int, mark: str) -> None:
        """Keep a mark, and say so."""
        super().note(stream, number, mark)
        self.noted.release()


def test_the_timer_waits_for_no_reader(tmp_path: Path) -> None:
    """Slots of 50 ms are marked one after the other while nobody takes a mark; then all of them are there."""
    (tmp_path / "events.csv").write_bytes(HEAD)
    store = Noting()
    store.noted = threading.Semaphore(0)
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="50ms", start="1970-01-01", store=store)
    inputs = dpi.read(tmp_path / "events.csv").live(lambda producer: -1, {})
    timer = Timer(dpi.Slots("50ms"), inputs, Journal(store, "")).start()
    try:
        assert all(store.noted.acquire(timeout=20) for _ in range(6))
    finally:
        timer.stop()
    assert [number for number, _ in timer][:6] == list(range(6))


def test_a_store_that_fails_is_heard_by_whoever_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's error ends the iteration with the same error; it does not end in silence."""
    timer = desk.timer().start()
    next(timer)

    def refuse(*_: object) -> None:
        raise StoreError("the disk is full.")

    monkeypatch.setattr(desk.store, "note", refuse)
    desk.path.write_bytes(HEAD + b"ada,1,x\n")
    with pytest.raises(StoreError, match="disk is full"):
        next(timer)
    timer.stop()


@given(st.dictionaries(st.text(), st.lists(st.builds(Reach, st.text(), st.integers(0), st.integers(0))).map(tuple)))
def test_a_mark_is_stored_as_it_is(reached: dict[str, tuple[Reach, ...]]) -> None:
    """Whatever inputs are called."""
    mark = Mark(1, 2, reached)
    assert Mark.from_json(mark.to_json()) == mark


def test_a_store_that_is_busy_delays_no_look(tmp_path: Path) -> None:
    """While a long write of the reader has the store, every closing time is still looked at when it comes."""
    slots = dpi.Slots("50ms")
    path = tmp_path / "events.csv"
    path.write_bytes(HEAD)
    with dpi.open_store(tmp_path / "store.db") as store:
        dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="50ms", start="1970-01-01", store=store)
        timer = Timer(slots, dpi.read(path).live(lambda producer: -1, {}), Journal(store, "")).start()
        next(timer)
        with store.engine.transaction():  # type: ignore[attr-defined]
            begun = slots.first_open(system_clock())
            while slots.first_open(system_clock()) < begun + 8:
                threading.Event().wait(0.01)
        opened = set()
        while max(opened, default=0) < begun + 8:
            opened.add(slots.first_open(next(timer)[1].moment))
        timer.stop()
    assert len(opened & set(range(begun + 1, begun + 8))) >= 5  # a noisy machine may miss some


def test_no_mark_is_handed_on_before_it_is_stored(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes."""
    timer = desk.timer().start()
    next(timer)
    waits, reached, note = threading.Event(), threading.Event(), desk.store.note

    def slowly(stream: str, number: int, mark: str) -> None:
        reached.set()
        waits.wait()
        note(stream, number, mark)

    monkeypatch.setattr(desk.store, "note", slowly)
    desk.path.write_bytes(HEAD + b"ada,1,x\n")
    reached.wait(timeout=10)
    assert timer._noted.empty()
    waits.set()
    number, mark = next(timer)
    assert (number, mark) in Journal(desk.store, "").kept
    timer.stop()


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_looks_are_due_at_public_moments(tmp_path_factory: pytest.TempPathFactory, now: int, later: int) -> None:
    """The next look follows from the clock alone, not from when the last one was or how long it took."""
    timer = Desk(tmp_path_factory.mktemp("due")).timer()
    due = timer.due(now)
    assert now < due <= now + SECOND
    assert due % SECOND == 0 or due == SLOTS.closing(SLOTS.first_open(now))
    assert timer.due(now + later % (due - now)) == due


def test_counting_delays_no_look(desk: Desk) -> None:
    """However long counting takes, every look fixes what had arrived at its own moment; marks come in that order."""
    (live,) = dpi.read(desk.path).live(lambda producer: -1, {})
    counted, looks = threading.Event(), list[int]()

    class Slow(type(live)):  # type: ignore[misc]
        """Counts when it is let."""

        def look(self) -> Look:
            reached = self.reached()
            looks.append(reached[0].offset)
            return lambda: reached if len(looks) == 1 or counted.wait(10) else None

    live.__class__ = Slow
    stop = threading.Event()
    timer = Timer(dpi.Slots("1s"), [live], Journal(desk.store, ""), stop=stop).start()
    next(timer)
    deadline = system_clock() + 10 * SECOND
    while len(looks) < 5 and system_clock() < deadline:
        with desk.path.open("ab") as file:
            file.write(b"ada,1,x\n")
        threading.Event().wait(0.05)
    assert len(looks) >= 5
    counted.set()
    stop.set()
    marks = [mark for _, mark in timer]
    assert [mark.moment for mark in marks] == sorted(mark.moment for mark in marks)
    assert {mark.reached[live.name][0].offset for mark in marks} >= set(looks[1:5])
    timer.stop()
    live.close()
