from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.store.base import PaidSlot
from dpi.stream.input_positions import Mark, Timer
from dpi.stream.live import LOST, Follower, advance, follow

pytestmark = pytest.mark.filterwarnings("ignore::dpi.errors.WeakPromise")  # a count above the noise

SECOND = 1_000_000
SLOT = 10
GENEROUS = {"epsilon": 1024, "budget": dpi.Ledger(per_slot=100)}
"""So much that a noisy count is half a user off with a probability below 10⁻²⁰."""


class Counting(dpi.MemoryStore):
    """Remembers how many users were measured in each slot and bin."""

    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        """Note the counts."""
        counts = np.frombuffer(paid.values, dtype="<i8") / (1 << 24)
        self.counts = {**getattr(self, "counts", {}), (paid.stream, paid.slot): np.rint(counts).astype(int).tolist()}
        super().pay(paid, ledger, charge, payments)


class Desk:
    """A live stream of one file, with a clock and a reader that are moved by hand."""

    def __init__(self, folder: Path, *, lateness: str = "0s", arrived: str | None = None) -> None:
        self.path, self.store, self.now = folder / "log.ndjson", Counting(), 0
        self.path.write_bytes(b"")
        self.lateness, self.arrived = lateness, arrived
        self.told: list[str] = []
        self.come_back()

    def come_back(self) -> None:
        """Start the program, for the first time or after a kill: marks that are kept, and that of coming back."""
        self.stream = dpi.Stream(
            domain=dpi.Categories(["x"]), slot=f"{SLOT}s", start="1970-01-01", lateness=self.lateness,
            store=self.store, **GENEROUS,
        )  # type: ignore[arg-type]  # fmt: skip
        events = dpi.read(self.path, unit="us", arrived=self.arrived)
        self.follower = Follower(self.stream, events, tell=self.told.append)
        slots = self.stream.slots
        assert slots is not None
        self.timer = Timer(slots, self.follower.inputs, self.follower.journal, clock=lambda: self.now)
        self.waiting = list(self.follower.journal.kept)
        self.look(always=True)

    def look(self, *, always: bool = False) -> None:
        """Let the timer note how far the file has got."""
        noted = self.timer.look(always=always)
        if noted is not None:
            self.waiting.append(noted)

    def write(self, user: object, time: float, **more: object) -> None:
        """Append an event."""
        with self.path.open("a") as file:
            file.write(json.dumps({"user": user, "time": round(time * SECOND), "value": "x", **more}) + "\n")

    def read(self, marks: int | None = None) -> list[int]:
        """Let the reader come after the timer, by some marks or by all; the slots that were released."""
        released = []
        for _ in range(len(self.waiting) if marks is None else min(marks, len(self.waiting))):
            released += [release.slot for release in self.follower.reach(*self.waiting.pop(0))]
        return released

    @property
    def counts(self) -> list[int]:
        """Users of each slot so far."""
        found = getattr(self.store, "counts", {})
        return [found[key][0] for key in sorted(found)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


def test_what_was_there_when_the_program_started_counts(desk: Desk) -> None:
    """However late the program is: its slots are still open."""
    for second in range(30):
        desk.write(second, second)
    desk.now = 33 * SECOND
    desk.look()
    assert desk.read() == [0, 1, 2]
    assert desk.counts == [10, 10, 10]


def test_a_first_start_that_is_late_loses_nothing(desk: Desk) -> None:
    """What lay there before the program was started for the first time counts, of whatever slots it is."""
    for second in range(30):
        desk.write(second, second)
    desk.now, desk.store = 33 * SECOND, Counting()
    desk.come_back()
    assert desk.read() == [0, 1, 2]
    assert desk.counts == [10, 10, 10]


def test_what_was_written_while_the_program_was_stopped_counts(desk: Desk) -> None:
    """A stop of some slots loses nothing; what comes after the program is back is judged by the clock."""
    desk.now = 5 * SECOND
    desk.write("a", 5)
    desk.look()
    assert desk.read() == []
    for second in (8, 12, 17, 25):
        desk.write(f"at {second}", second)
    desk.now = 37 * SECOND
    desk.come_back()
    desk.write("late", 26)
    desk.now = 40 * SECOND
    desk.look()
    assert desk.read() == [0, 1, 2, 3]
    assert desk.counts == [2, 2, 1, 0]


def test_a_program_that_is_asleep_comes_back(desk: Desk) -> None:
    """Stopped by a signal instead of ended: nothing that was written meanwhile is lost."""
    for second in (1, 11, 21):
        desk.write(second, second)
    desk.now = 29 * SECOND
    desk.look()
    assert desk.read() == [0, 1]
    desk.now = 30 * SECOND
    desk.look()
    assert desk.read() == [2]
    assert desk.counts == [1, 1, 1]


def test_a_flood_displaces_nobody(desk: Desk) -> None:
    """Others' events count as they arrived, although the reader comes to them many slots later."""
    for second in range(60):
        for _ in range(200):
            desk.write("flood", second)
        desk.write(second, second)
        desk.now = second * SECOND + 1
        desk.look()
    desk.now = 60 * SECOND
    desk.look()
    desk.write("too late", 59)
    desk.look()
    assert desk.read() == [0, 1, 2, 3, 4, 5]
    assert desk.counts == [11] * 6


def test_a_recorded_arrival_decides_and_downtime_changes_nothing(tmp_path: Path) -> None:
    """An event that was received in time counts, one that was received too late does not, whenever they are read."""
    desk = Desk(tmp_path, lateness="2s", arrived="received")
    for user, second, received in (("a", 5, 11.9), ("b", 5, 12), ("c", 15, 14), ("d", 15, 16), ("e", 5, None)):
        desk.write(user, second, received=None if received is None else round(received * SECOND))
    desk.now = 100 * SECOND
    desk.look()
    desk.read()
    assert desk.counts[:2] == [1, 1]


@pytest.mark.parametrize("arrived", [None, "received"])
@pytest.mark.parametrize("looks", [(), (4,), (4, 6, 8)])
def test_looks_in_between_do_not_decide_what_is_from_the_future(
    tmp_path: Path, looks: tuple[int, ...], arrived: str | None
) -> None:
    """Times, and recorded arrivals, that are ahead of a look count as they do if it is left out."""
    desk = Desk(tmp_path, arrived=arrived)
    for user, second in (("a", 5), ("b", 7), ("c", 12), ("d", 18), ("e", 21)):
        desk.write(user, second, received=(second + 1) * SECOND)
    for second in (*looks, 10, 20, 30):
        desk.now = second * SECOND
        desk.look()
    assert desk.read() == [0, 1, 2]
    assert desk.counts == [2, 2, 0]


def test_the_curator_is_told_that_something_was_lost(desk: Desk) -> None:
    """A file that was cut before it was read closes its slot with what there is."""
    desk.write("a", 1)
    desk.now = 2 * SECOND
    desk.look()
    desk.path.write_bytes(b"")
    desk.now = 10 * SECOND
    desk.look()
    assert desk.read() == [0]
    assert desk.counts == [0]
    assert desk.told == [LOST]


MOMENTS = st.integers(0, 80)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), MOMENTS),
        st.tuples(st.just("look"), st.integers(0, 13)),
        st.tuples(st.just("read"), st.integers(1, 3)),
        st.tuples(st.just("kill"), st.integers(0, 25)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(actions=ACTIONS, lateness=st.sampled_from([0, 3]))
def test_an_event_counts_by_its_own_time_and_the_marks_alone(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]], lateness: int
) -> None:
    """Whatever is written, and whenever it is read, over kills at any point: the model knows times and marks only."""
    desk = Desk(tmp_path_factory.mktemp("live"), lateness=f"{lateness}s")
    slots = desk.stream.slots
    assert slots is not None
    marks: list[Mark] = []
    written: list[tuple[int, int]] = []
    for name, number in [*actions, ("look", 13), ("look", 13)]:
        if name == "write":
            desk.write(len(written), number)
            written.append((number, len(marks)))
        elif name == "read":
            desk.read(number)
        else:
            desk.now += number * SECOND
            if name == "kill":
                desk.come_back()
            else:
                desk.look(always=True)
            marks.append(desk.waiting[-1][1])
    desk.read()
    expected = [0] * slots.first_open(marks[-1].moment)
    for time, segment in written:
        if segment < len(marks):
            first = slots.first_open(marks[segment - 1].moment) if segment else slots.first_open(0)
            if time // SLOT >= first and time * SECOND <= marks[segment].until and time // SLOT < len(expected):
                expected[time // SLOT] += 1
    assert desk.counts == expected


def test_following_a_real_clock(tmp_path: Path) -> None:
    """`follow` releases slots of 100 ms as they close, with what is written meanwhile, and ends at `end`."""
    path = tmp_path / "log.ndjson"
    path.write_text("")
    slots = dpi.Slots("100ms")
    import time

    start = slots.number(_iso(time.time())) + 1
    store = Counting()
    stream = dpi.Stream(domain=dpi.Categories(["x"]), slot="100ms", start=slots.start(start), store=store, **GENEROUS)  # type: ignore[arg-type]
    written: list[int] = []
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.01):
            moment = time.time_ns() // 1000
            with path.open("a") as file:
                file.write(json.dumps({"user": len(written), "time": moment, "value": "x"}) + "\n")
                written.append(moment)

    writer = threading.Thread(target=write)
    writer.start()
    releases = list(follow(stream, dpi.read(path, unit="us"), end=slots.start(start + 10)))
    done.set()
    writer.join()
    assert [release.slot for release in releases] == list(range(start, start + 10))
    numbers = [(moment - slots.origin) // slots.width for moment in written]
    for slot in range(start, start + 10):
        # A line whose time is before a closing time may be written after it: it is late, by itself.
        assert numbers.count(slot) - 1 <= store.counts["", slot][0] <= numbers.count(slot)


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_a_set_event_ends_it(tmp_path: Path) -> None:
    """Whoever waits an hour for a slot still stops when told, with everything stored that was there."""
    path = tmp_path / "log.ndjson"
    path.write_text("")
    store = Counting()
    stream = dpi.Stream(domain=dpi.Categories(["x"]), slot="1h", start="2026-01-01", store=store, **GENEROUS)  # type: ignore[arg-type]
    stop = threading.Event()
    following = follow(stream, dpi.read(path), stop=stop, end="2026-01-01T01:00")
    assert next(following).slot == stream.released(dpi.Slots("1h").number("2026-01-01")).slot
    stop.set()
    assert list(following) == []


def test_standard_input_is_spooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is followed to its end, an endless line and a last one without an end included; its end closes no slot."""
    outlet, inlet = os.pipe()
    line = json.dumps({"user": "%s", "time": 1767225600_000_000, "value": "x"})

    def write() -> None:
        with os.fdopen(inlet, "wb") as pipe:
            pipe.write((line % "a" + "\n").encode())
            for _ in range(300):
                pipe.write(b"endless " * 1000)
            pipe.write(("\n" + line % "b" + "\n" + line % "c").encode())

    writer = threading.Thread(target=write)
    with os.fdopen(outlet, "rb") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        events = dpi.read("-", format="ndjson", unit="us", longest_line=1000)
        store = Counting()
        clock = {"slot": "99999d", "origin": "2026-01-01", "start": "2026-01-01"}
        stream = dpi.Stream(domain=dpi.Categories(["x"]), store=store, **clock, **GENEROUS)  # type: ignore[arg-type]
        writer.start()
        assert list(follow(stream, events)) == []
        writer.join()
    assert store.events("", 0).counts.tolist() == [1, 1, 1]


class TestOrder:
    """Streams that share a ledger close slots in one public order."""

    @pytest.fixture
    def streams(self) -> tuple[dpi.Stream, dpi.Stream]:
        """Two streams of one hour and of half an hour."""
        store = dpi.MemoryStore()
        options = {"domain": dpi.Categories(["x"]), "epsilon": 1, "start": "2026-01-01", "store": store}
        return (
            dpi.Stream(**options, slot="1h", name="a"),  # type: ignore[arg-type]
            dpi.Stream(**options, slot="30m", name="b"),  # type: ignore[arg-type]
        )

    def test_a_later_one_waits(self, streams: tuple[dpi.Stream, dpi.Stream]) -> None:
        """Which stream is asked first, or more often, changes nothing."""
        hours, halves = streams
        hours.append([], [], [], now="2026-01-01")
        halves.append([], [], [], now="2026-01-01")
        now = "2026-01-01T02:00"
        order: list[str] = []
        for _ in range(4):
            order += [stream.name for stream in (hours, halves, hours) for _ in stream.advance(now)]
        assert order == ["b", "a", "b", "b", "a", "b"]

    def test_advance_takes_all_at_once(self, streams: tuple[dpi.Stream, dpi.Stream]) -> None:
        """In either order of the arguments."""
        assert [stream.name for stream, _ in advance(streams[::-1], now="2026-01-01T02:00")] == list("babbab")

    def test_a_closed_stream_is_waited_for_no_more(self, streams: tuple[dpi.Stream, dpi.Stream]) -> None:
        """One that lives in another process, or nowhere, does not hold up the rest."""
        hours, halves = streams
        halves.append([], [], [], now="2026-01-01")
        assert list(hours.advance("2026-01-01T01:00")) == []
        halves.close()
        assert len(list(hours.advance("2026-01-01T01:00"))) == 1

    def test_streams_with_an_epsilon_of_their_own_wait_for_nobody(self) -> None:
        """They take from other accounts."""
        store = dpi.MemoryStore()
        options = {"domain": dpi.Categories(["x"]), "epsilon": 1, "start": "2026-01-01", "store": store}
        hours = dpi.Stream(**options, slot="1h", name="a")  # type: ignore[arg-type]
        halves = dpi.Stream(**options, slot="30m", name="b", separate=True)  # type: ignore[arg-type]
        halves.append([], [], [], now="2026-01-01")
        assert len(list(hours.advance("2026-01-01T01:00"))) == 1

    def test_names_are_needed(self, streams: tuple[dpi.Stream, dpi.Stream]) -> None:
        """One stream twice is refused."""
        with pytest.raises(dpi.OptionError, match="names"):
            list(advance([streams[0], streams[0]]))


def test_what_earlier_marks_say_of_a_file_is_known_after_a_restart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that the last mark does not name any more, because the reader was minutes behind."""
    from dpi.sources import _growing as growing

    clock = type("Clock", (), {"now": 0.0, "monotonic": lambda self: self.now})()
    monkeypatch.setattr(growing, "time", clock)
    desk.write("gone", 1)
    desk.look()
    desk.path.write_bytes(b"")  # the next generation, of which nothing is stored when the program is killed
    desk.look()
    desk.write("ada", 2)
    desk.now = 3 * SECOND
    desk.look()
    desk.path.rename(desk.path.with_suffix(".1"))
    desk.path.write_bytes(b"")
    for _ in range(3):
        desk.look()
        clock.now += 61
    desk.now = 10 * SECOND
    desk.come_back()
    assert desk.read() == [0]
    assert desk.counts == [1]


def test_a_recorded_arrival_does_not_open_a_slot_that_waits_for_another_stream(tmp_path: Path) -> None:
    """What reaches the input after a slot's mark is not in it, however long the slot waits for its turn."""
    desk = Desk(tmp_path, arrived="received")
    other = dpi.Stream(
        domain=dpi.Categories(["x"]), slot=f"{SLOT}s", start="1970-01-01", name="A", store=desk.store, **GENEROUS
    )  # type: ignore[arg-type]
    other.append([], [], [], now="1970-01-01")
    desk.stream.leave()
    desk.stream.close()
    desk.stream = dpi.Stream(
        domain=dpi.Categories(["x"]), slot=f"{SLOT}s", start="1970-01-01", name="B", store=desk.store, **GENEROUS
    )  # type: ignore[arg-type]
    desk.follower = Follower(desk.stream, dpi.read(desk.path, unit="us", arrived="received"))
    slots = desk.stream.slots
    assert slots is not None
    desk.timer = Timer(slots, desk.follower.inputs, desk.follower.journal, clock=lambda: desk.now)
    desk.waiting = []
    desk.write("ada", 5, received=6 * SECOND)
    desk.now = 10 * SECOND
    desk.look()
    assert desk.read() == []  # it is the other's turn
    desk.write("late", 5, received=6 * SECOND)
    desk.now = 11 * SECOND
    desk.look()
    desk.read()
    assert [release.slot for release in other.advance("1970-01-01T00:00:10")] == [0]
    desk.now = 12 * SECOND
    desk.look(always=True)
    assert desk.read() == [0]
    assert desk.store.counts["B", 0][0] == 1


def test_the_end_of_one_stream_stops_no_other(tmp_path: Path) -> None:
    """An event that several followers listen to is set by whoever made it, and by nobody else."""
    path = tmp_path / "log.ndjson"
    path.write_text("")
    stream = dpi.Stream(domain=dpi.Categories(["x"]), slot="1h", start="2026-01-01", **GENEROUS)  # type: ignore[arg-type]
    stop = threading.Event()
    assert len(list(follow(stream, dpi.read(path), stop=stop, end="2026-01-01T01:00"))) == 1
    assert not stop.is_set()


def test_a_stream_that_is_followed_no_more_holds_up_no_other(tmp_path: Path) -> None:
    """Its next slot would never close, and others of its ledger would wait for it for ever."""
    path = tmp_path / "log.ndjson"
    path.write_text("")
    options = {"domain": dpi.Categories(["x"]), "slot": "1h", "start": "2026-01-01", "store": dpi.MemoryStore()}
    first, second = (dpi.Stream(**options, **GENEROUS, name=name) for name in "ab")  # type: ignore[arg-type]
    assert len(list(follow(first, dpi.read(path), end="2026-01-01T01:00"))) == 1
    stop = threading.Event()
    stop.set()
    assert len(list(follow(second, dpi.read(path), end="2026-01-01T03:00", stop=stop))) == 3


@pytest.mark.parametrize("slot", ["day", "month", "1h"])
@pytest.mark.parametrize("stamp", [None, "x", "9999-12-31T23:59:59Z"])
def test_an_arrival_that_cannot_be_read_costs_its_own_event_alone(slot: str, stamp: str | None) -> None:
    """Also where a calendar has no day for it."""
    at, budget = "2026-01-01T10:00+01:00", dpi.Ledger(per_slot=100)
    stream = dpi.Stream(
        domain=dpi.Categories(["a"]), epsilon=1024, budget=budget, slot=slot, zone="Europe/Berlin",
        start="2026-01-01T10:00" if slot == "1h" else "2026-01-01", store=(store := Counting()),
    )  # fmt: skip
    stream.append(["ada", "eve"], [at] * 2, ["a"] * 2, now="2026-01-01T10:59+01:00", arrived=[at, stamp])
    first = stream.next_slot
    list(stream.advance("2026-02-01T00:00+01:00" if slot != "1h" else "2026-01-01T11:00+01:00"))
    assert store.counts["", first][0] == 1
