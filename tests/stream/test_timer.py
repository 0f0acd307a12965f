from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import StoreError
from dpi.sources.live import Block, LiveInput, Look, Reach
from dpi.stream.input_positions import Journal, Mark, Timer, system_clock

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
    """What arrived counts for slots open at the mark before, and for times up to the closing time after its own mark's.

    That of a mark which closes no slot is the next closing mark, at 12 s: there the marks at 3 s and 11 s belong.
    """
    timer, windows, before = desk.timer(), [], None
    for second in (3, 11, 12, 47):
        desk.now = second * SECOND
        noted = timer.look(always=True)
        assert noted is not None
        windows.append(noted[1].window(before, SLOTS, 0))
        before = noted[1]
    assert [window.first for window in windows] == [0, 0, 0, 1]
    assert [window.until for window in windows] == [22 * SECOND, 22 * SECOND, 22 * SECOND, 52 * SECOND]


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
    again = Journal(desk.store, "")
    assert again.note(noted[-1][1]) == 3  # type: ignore[index]


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


def test_slots_close_by_the_clock_before_the_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before a closing time is asked for after it: a look that is answered after it closes nothing."""
    timer, desk.now = desk.timer(), int(11.9 * SECOND)
    (live,) = timer._inputs
    reached = live.reached

    def slowly() -> tuple[Reach, ...]:
        desk.now = int(12.1 * SECOND)
        return reached()

    monkeypatch.setattr(live, "reached", slowly)
    noted = timer.look()
    assert noted is not None
    assert SLOTS.first_open(noted[1].moment) == 0


GRIDS = (
    dpi.Slots("10s"),
    dpi.Slots("10s", lateness="3s"),
    dpi.Slots("10s", lateness="27s"),
    dpi.Slots("day", zone="Europe/Berlin", lateness="5h"),
    dpi.Slots("month", zone="America/New_York"),
)


class Counter(LiveInput):
    """An input of which all is known: how often something has come."""

    name, came = "counter", 0

    def reached(self) -> tuple[Reach, ...]:
        """Tell it."""
        return (Reach("", 0, self.came),)

    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """There is nothing to read."""
        yield from ()

    def close(self) -> None:
        """There is nothing to let go of."""


def windows(slots: dpi.Slots, looks: list[int], arrivals: list[int], start: int) -> list[tuple[object, object]]:
    """The window of each arrival, which comes before the look of its own moment; the program starts at `start`."""
    store, live, now = dpi.MemoryStore(), Counter(), [start]
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="1h", start="1970-01-01", store=store)
    timer = Timer(slots, [live], Journal(store, ""), clock=lambda: now[0])
    first = timer.look(always=True)
    assert first is not None
    found, before = dict[int, tuple[object, object]](), first[1]
    for now[0] in looks:
        live.came = sum(arrival <= now[0] for arrival in arrivals)
        noted = timer.look()
        if noted is not None:
            window = noted[1].window(before, slots, 0)
            fresh = range(before.reached["counter"][0].offset, noted[1].reached["counter"][0].offset)
            found |= dict.fromkeys(fresh, (window.first, window.until))
            before = noted[1]
    return [found[number] for number in range(len(arrivals))]


class Busy(Counter):
    """One of which looks always wait to be counted."""

    @property
    def busy(self) -> bool:
        """They do."""
        return True


def test_a_look_that_closes_a_slot_is_never_left_out() -> None:
    """While others wait to be counted there is one for every closing time, and none in between."""
    slots, store, stop = dpi.Slots("100ms"), dpi.MemoryStore(), threading.Event()
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="100ms", start="1970-01-01", store=store)
    late = threading.Timer(10, stop.set)
    late.start()
    timer = Timer(slots, [Busy()], Journal(store, ""), stop=stop).start()
    opened = [slots.first_open(mark.moment) for _, mark in islice(timer, 6)]
    late.cancel()
    timer.stop()
    assert len(opened) == 6
    assert all(earlier < later for earlier, later in pairwise(opened))


@given(st.data(), st.sampled_from(GRIDS))
def test_looks_between_closing_times_decide_nothing(data: st.DataObject, slots: dpi.Slots) -> None:
    """Whichever of them are left out, every arrival has the same window: also over a month, or a change of clocks."""
    width = slots.about
    start = 1_774_000_000 * SECOND + data.draw(st.integers(0, width))  # Berlin's clocks change ten days later
    between = data.draw(st.lists(st.integers(1, 5 * width), max_size=20))
    closings = [slots.next_closing(start)]
    while len(closings) < 7:
        closings.append(slots.next_closing(closings[-1]))
    late = [closing + data.draw(st.integers(0, width // 20)) for closing in closings]
    looks = sorted([*late, *(start + later for later in between)])
    closing_looks = [start]
    for moment in looks:
        if slots.first_open(moment) > slots.first_open(closing_looks[-1]):
            closing_looks.append(moment)
    kept = [moment for moment in looks if moment in closing_looks or data.draw(st.booleans())]
    arrivals = sorted(start + later for later in data.draw(st.lists(st.integers(1, 5 * width), max_size=10)))
    expected = list[tuple[object, object]]()
    for arrival in arrivals:
        number = sum(moment < arrival for moment in closing_looks)
        opened, until = slots.first_open(closing_looks[number - 1]), slots.next_closing(closing_looks[number])
        expected.append((opened, until))
    assert windows(slots, looks, arrivals, start) == expected
    assert windows(slots, kept, arrivals, start) == expected


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


def test_a_mark_with_many_holes_delays_no_look() -> None:
    """Other threads run while it is written down."""
    mark = Mark(1, 2, {"a": (Reach("", 0, 1 << 20, tuple((3 * n, 3 * n + 1) for n in range(1 << 17))),)})
    ticks, begun, over = [0], threading.Event(), threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            ticks[0] += 1
            begun.set()

    timer = threading.Thread(target=tick)
    timer.start()
    assert begun.wait(10)
    before = ticks[0]
    text = mark.to_json()
    ran = ticks[0] - before
    over.set()
    timer.join()
    assert ran > 5  # one, where nobody else has a turn
    assert Mark.from_json(text) == mark


def test_a_store_that_is_busy_delays_no_look(tmp_path: Path) -> None:
    """While a long write of the reader has the store, every closing time is still looked at when it comes."""
    slots = dpi.Slots("50ms")
    path = tmp_path / "events.csv"
    path.write_bytes(HEAD)
    with dpi.open_store(tmp_path / "store.db") as store:
        dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="50ms", start="1970-01-01", store=store)
        (live,) = dpi.read(path).live(lambda producer: -1, {})
        look, looks = live.look, list[int]()
        live.look = lambda: looks.append(slots.first_open(system_clock())) or look()  # type: ignore[method-assign]
        timer = Timer(slots, [live], Journal(store, "")).start()
        next(timer)
        with store.engine.transaction():  # type: ignore[attr-defined]
            begun, deadline = slots.first_open(system_clock()), system_clock() + 60 * SECOND
            while len(seen := {slot for slot in looks if slot > begun}) < 5 and system_clock() < deadline:
                threading.Event().wait(0.01)  # however slow the machine is
        opened = set[int]()
        while max(opened, default=0) < max(seen, default=0):
            opened.add(slots.first_open(next(timer)[1].moment))
        timer.stop()
    assert len(seen) >= 5
    assert opened & seen  # and is marked, when the store is free


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
    assert reached.wait(timeout=60)
    assert timer._noted.empty()
    waits.set()
    number, mark = next(timer)
    assert (number, mark) in Journal(desk.store, "").kept
    timer.stop()


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from([SLOTS, dpi.Slots("10s", lateness="2300ms")]))
def test_looks_are_due_at_public_moments(now: int, later: int, slots: dpi.Slots) -> None:
    """The next look follows from the clock alone, not from when the last one was or how long it took."""
    store = dpi.MemoryStore()
    dpi.Stream(domain=dpi.Categories(["x"]), epsilon=1, slot="10s", start="1970-01-01", store=store)
    timer = Timer(slots, [], Journal(store, ""))
    due = timer.due(now)
    assert now < due <= min(now + SECOND, slots.next_closing(now))
    assert due % SECOND == 0 or due == slots.next_closing(now)
    assert timer.due(now + later % (due - now)) == due
    assert timer.due(slots.next_closing(now) - 1) == slots.next_closing(now)


def test_counting_delays_no_look(desk: Desk) -> None:
    """However long counting takes, every look fixes what had arrived at its own moment; marks come in that order."""
    (live,) = dpi.read(desk.path).live(lambda producer: -1, {})
    counted, looks = threading.Event(), list[int]()

    class Slow(type(live)):  # type: ignore[misc]
        """Counts when it is let."""

        def look(self) -> Look:
            reached = self.reached()
            looks.append(reached[0].offset)
            return lambda: reached if len(looks) == 1 or counted.wait(60) else None

    live.__class__ = Slow
    stop = threading.Event()
    timer = Timer(dpi.Slots("1s"), [live], Journal(desk.store, ""), stop=stop).start()
    next(timer)
    deadline = system_clock() + 60 * SECOND
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
