"""What happens at doors, played twice: by the running code, and by the model extracted from `proofs/Admission.v`.

    python tests/door_oracle.py 200        # so many scripts of each door

A script is random, and a function of its seed. One door is a file that is followed by marks: lines, looks of a timer,
looks without an answer, stops, reading, closing. The other one takes batches: heads that arrive, are read late and are
kept, refused or for another stream, while slots close. After every step the model and the code must agree on what was
held, on the marks or receipts, and on every row that is kept for any slot.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import dpi
from dpi.events.identity import name_users
from dpi.service import _receipts
from dpi.service._body import Body, Room
from dpi.service._problems import Problem
from dpi.service._receipts import ROUNDS
from dpi.service.config import Config
from dpi.service.service import Batch, Sent, Service
from dpi.settings.streams import StreamSettings
from dpi.store import MemoryStore
from dpi.stream.input_positions import Mark, Timer
from dpi.stream.live import Follower
from dpi.stream.slot_closer import SlotCloser

PROOFS = Path(__file__).resolve().parent.parent / "proofs"
SECOND = 1_000_000
BEGIN = 1_774_000_000 * SECOND
"""Ten days before Berlin's clocks change."""
GRIDS: tuple[tuple[str, dict[str, str]], ...] = (
    ("10s", {}),
    ("10s", {"lateness": "3s"}),
    ("10s", {"lateness": "27s", "origin": "2026-01-01T00:00:03"}),
    ("day", {"zone": "Europe/Berlin", "lateness": "5h"}),
    ("week", {"zone": "America/New_York"}),
    ("month", {"zone": "Europe/Berlin", "lateness": "1d"}),
)


def build(folder: Path) -> Path:
    """Extract the model and compile it; returns the program."""
    for name in ("Admission.v", "ExtractAdmission.v", "doors.ml"):
        shutil.copy(PROOFS / name, folder)
    compiled = ["ocamlfind", "ocamlopt", "-package", "zarith", "-linkpkg", "admission.mli", "admission.ml", "doors.ml"]
    for command in (["coqc", "-q", "Admission.v"], ["coqc", "-q", "ExtractAdmission.v"], [*compiled, "-o", "doors"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "doors"


@contextmanager
def recorded() -> Iterator[dict[int, set[str]]]:
    """Note the names in each slot as it closes."""
    closed, close = dict[int, set[str]](), SlotCloser.close

    def noting(self: SlotCloser, number: int, rows: Any) -> object:
        released = close(self, number, rows)
        assert number not in closed, "a slot has closed twice"
        closed[number] = {name_of(row) for row in rows.names.tolist()}
        return released

    SlotCloser.close = noting  # type: ignore[method-assign, assignment]
    try:
        yield closed
    finally:
        SlotCloser.close = close  # type: ignore[method-assign]


def name_of(row: list[int]) -> str:
    """A name as text."""
    return "{:016x}{:016x}".format(*row)


@dataclass
class World:
    """A random script, and what the code makes of it."""

    seed: int
    steps: int
    lines: list[str] = field(default_factory=list)
    results: list[str | None] = field(default_factory=list)
    """Of each line what the model should say; None where the code is in between."""
    hit: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        slot, options = self.rng.choice(GRIDS)
        self.slot, self.options, self.slots = slot, options, dpi.Slots(slot, **options)
        self.width, self.number = self.slots.about, 0
        self.names = dict[str, int]()
        self.first = self.slots.at(BEGIN) + self.rng.choice([0, 0, 1])
        self.begin = self.slots.start(self.first).isoformat()

    def grid(self) -> str:
        """The slots, for the model."""
        slots = self.slots
        if not slots.calendar:
            return f"fixed {slots.origin} {slots.width} {slots.lateness}"
        first = self.first - 100
        begins = [slots.begin(number) for number in range(first, first + 400)]
        return f"calendar {first} {slots.lateness} {' '.join(map(str, begins))}"

    def event(self, now: int, *, stamps: bool = False) -> tuple[tuple[str, str, str, str], str]:
        """An event, as its cells and as words of the model: its time may be late, to come, or no time at all."""
        rng, self.number = self.rng, self.number + 1
        user = f"{self.number:05d}" if rng.random() < 0.95 else ""
        moment = now + round(rng.choice([0.2, 1, 4]) * self.width * rng.uniform(-1, 1))
        if rng.random() < 0.2:  # just where something changes
            edges = [self.slots.closing(self.slots.at(moment)), self.slots.begin(self.slots.at(moment)), now]
            moment = rng.choice(edges) + rng.choice([-1, 0, 1])
        text = str(moment) if rng.random() < 0.95 else rng.choice(["soon", ""])
        value = "x" if rng.random() < 0.95 else "y"
        stamp = "none"
        if stamps:
            away = rng.choice([0, 0, rng.randint(0, 2 * self.width), -rng.randint(0, 4 * self.width)])
            stamp = str(now - away) if rng.random() < 0.9 else "-"
        words = f"{self.number if user else '-'} {text if text.isdigit() else '-'} "
        words += f"{self.number if value == 'x' else '-'} {stamp}"
        return (user, text, value, stamp if stamp != "-" else "soon"), words

    def learn(self, key: bytes) -> None:
        """By which name the store knows each event."""
        users = [f"{number:05d}" for number in range(20 * self.steps)]
        self.names = {name_of(row): number for number, row in enumerate(name_users(users, key)[0].tolist())}

    def tell(self, *words: object) -> None:
        """Write a line of the script."""
        self.lines.append(" ".join(map(str, words)))

    def give(self, result: str | None) -> None:
        """Note what the code says."""
        self.results.append(result)

    def rows(self, slot: int, names: set[str]) -> list[tuple[int, int]]:
        """Which events are in a slot."""
        return [(slot, self.names[name]) for name in names]

    def kept(self, store: Any, stream: str, closed: dict[int, set[str]], following: int, upto: int) -> str:
        """All rows that are kept, or were kept of slots that have closed."""
        found = [row for slot, names in closed.items() for row in self.rows(slot, names)]
        for slot in range(following, upto + 1):
            found += self.rows(slot, {name_of(row) for row in store.events(stream, slot).names.tolist()})
        return join(sorted(found))


def join(rows: list[tuple[int, int]]) -> str:
    """Pairs of numbers as text."""
    return ",".join(f"{one}:{other}" for one, other in rows)


class Marks(World):
    """A file that is followed."""

    def play(self) -> None:
        """Choose what happens, and do it."""
        with tempfile.TemporaryDirectory() as folder, recorded() as self.closed:
            self.stamps = self.rng.random() < 0.3
            self.path = Path(folder, "events.csv")
            self.path.write_text("user,time,value,arrived\n")
            arrived = {"arrived": "arrived"} if self.stamps else {}
            self.events = dpi.read(self.path, unit="us", **arrived)
            self.store = MemoryStore()
            self.stream = dpi.Stream(
                domain=dpi.Categories(["x"], other=None), epsilon=1, slot=self.slot, start=self.begin,
                store=self.store, **self.options,
            )  # fmt: skip
            self.learn(self.store.key)
            self.tell("follower", self.first, self.grid())
            self.now, self.farthest, self.follower, self.timer = BEGIN, self.first, None, None
            self.queue, self.reached = deque[tuple[int, Mark]](), None
            self.closing: Iterator[object] | None = None
            self.restart()
            while len(self.results) < self.steps:
                self.step()

    def step(self) -> None:
        """One thing that happens."""
        draw, rng = self.rng.random(), self.rng
        if draw < 0.45:
            self.arrive()
        elif draw < 0.75:
            ahead = rng.choice([0.05, 0.3, 0.3, 1.2, 4.0] if rng.random() < 0.3 else [0.05, 0.3])
            jump = round(rng.random() * ahead * self.width)
            if rng.random() < 0.4:  # to a closing time, or just beside it
                jump = self.slots.next_closing(self.now) - self.now + rng.choice([-1, 0, 1])
            self.now += jump if rng.random() < 0.95 else -jump
            self.look(answered=rng.random() < 0.9, always=rng.random() < 0.2)
        elif draw < 0.97:
            self.read()
        else:
            self.restart()

    def arrive(self) -> None:
        """A line, or several."""
        for _ in range(self.rng.choice([1, 1, 3])):
            cells, words = self.event(self.now, stamps=self.stamps)
            with self.path.open("a") as file:
                file.write(",".join(cells) + "\n")
            self.tell("A", words)
            self.give(self.state(True))

    def look(self, *, answered: bool, always: bool) -> None:
        """The timer looks: a mark is noted, or none."""
        assert self.timer is not None
        for each in self.timer._inputs:
            if not answered:
                each.look = lambda: lambda: None  # type: ignore[method-assign]
            else:
                each.__dict__.pop("look", None)
        before = None if self.timer._last is None else self.timer._last.moment
        noted = self.timer.look(always=always)
        if noted is not None:
            self.queue.append(noted)
            opened = self.slots.first_open(noted[1].moment)
            kind = "closes" if before is None or opened > self.slots.first_open(before) else "in between"
            self.hit[f"mark: {kind}"] += 1
            self.farthest = max(self.farthest, self.slots.at(noted[1].until))
        else:
            self.hit["no mark: nothing came" if answered else "no mark: no answer"] += 1
        self.tell("L", self.now, int(answered), int(always))
        self.give(self.state(True))

    def read(self) -> None:
        """Read up to the next mark, and close what it closes; or stop halfway."""
        assert self.follower is not None
        self.tell("R")
        if not self.queue:
            self.hit["held: no mark"] += 1
            self.give(self.state(False))
            return
        number, mark = self.queue.popleft()
        self.give(None)
        going = self.follower.reach(number, mark)
        self.close(going, mark, stops=self.rng.random() < 0.1)

    def close(
        self, going: Generator[object, None, None], mark: Mark, *, stops: bool = False, newest: bool = True
    ) -> None:
        """Close what a mark closes; one that was read before a stop closes less than the newest one."""
        while True:
            before = len(self.closed)
            release = next(going, None)
            self.reached = mark.moment if self.reached is None else max(self.reached, mark.moment)
            assert len(self.closed) == before + (release is not None)
            if release is None and not newest:
                return
            self.tell("C")
            self.hit["closed" if release is not None else "held: not yet to be closed"] += 1
            self.give(self.state(release is not None))
            if release is None:
                return
            if stops:
                going.close()
                self.hit["stopped halfway"] += 1
                self.restart()
                return

    def restart(self) -> None:
        """The program ends, and another one goes on from the store."""
        self.follower = Follower(self.stream, self.events)
        again = [mark for mark in self.follower.journal.kept if mark not in self.queue]
        self.timer = Timer(self.slots, self.follower.inputs, self.follower.journal, clock=lambda: self.now)
        self.tell("S")
        self.give(None)
        for number, mark in again:  # what was read before is gone through again, and nothing is kept twice
            self.close(self.follower.reach(number, mark), mark, newest=mark is again[-1][1])
        self.look(answered=True, always=True)  # `Timer.start`: the moment of coming back
        self.hit["restart"] += 1

    def state(self, possible: bool) -> str:
        """What the code has, in the words of the model."""
        assert self.timer is not None
        last = self.timer._last
        closed = self.stream.next_slot - 1
        released = "-" if closed < self.first else f"{closed}={join_numbers(self.numbers(closed))}"
        marks = ",".join(f"{mark.moment}:{mark.until}" for _, mark in self.queue)
        kept = self.kept(self.store, "", self.closed, self.stream.next_slot, self.farthest)
        return " ".join([
            str(int(possible)), "-" if last is None else str(last.moment),
            "-" if self.reached is None else str(self.reached),
            str(self.stream.next_slot), released, marks, kept,
        ])  # fmt: skip

    def numbers(self, slot: int) -> list[int]:
        """Which events a closed slot held."""
        return sorted(self.names[name] for name in self.closed[slot])


class Held(Exception):
    """Whoever would wait here gives up instead."""


class Loop:
    """The thread that moves bytes: it goes round when the script says."""

    def __init__(self) -> None:
        self.waiting = deque[Callable[[], object]]()

    def call_soon(self, work: Callable[..., object], *given: object) -> None:
        """Do something in the next round."""
        self.waiting.append(lambda: work(*given))

    call_soon_threadsafe = call_soon


class Clock:
    """The system's clock, as far as the service can tell."""

    now = BEGIN

    def __call__(self) -> int:
        """Microseconds since 1970."""
        return self.now


@dataclass
class Coming:
    """A batch: its moments, and what it holds."""

    number: int
    head: int
    ended: int
    body: bytes
    receipt: _receipts.Receipt | None = None
    used: ExitStack = field(default_factory=ExitStack)
    """Holds the admission by which it is being read."""


class Batches(World):
    """A service that takes batches."""

    def play(self) -> None:
        """Choose what happens, and do it."""
        self.clock = Clock()
        with (
            tempfile.TemporaryDirectory() as folder,
            recorded() as self.closed,
            mock.patch.object(_receipts, "system_clock", self.clock),
        ):
            self.settings = StreamSettings(
                name="visits", domain=dpi.Categories(["x"], other=None), epsilon="1", slot=self.slot, begin=self.begin,
                **self.options,
            )  # fmt: skip
            place = {"store": str(Path(folder, "visits.db")), "tokens": Path(folder, "tokens.json"), "port": 0}
            config = Config(**place, delay="1s", streams={"visits": self.settings})  # type: ignore[arg-type]
            self.service = Service(config, clock=self.clock)
            self.service.writer.start()
            try:
                self.begin_script()
                while len(self.results) < self.steps:
                    self.step()
            finally:
                self.service.stop()

    def begin_script(self) -> None:
        """Nothing has come yet."""
        self.learn(self.service.store.key)
        self.tell("door", self.first, self.grid())
        self.loop, self.farthest = Loop(), self.first
        self.service.receipts.look_by(self.loop)  # type: ignore[arg-type]
        self.unread, self.open, self.elsewhere = list[Coming](), list[Coming](), list[Coming]()
        self.batches, self.began, self.producers = 0, None, Counter[str]()
        self.service.admissions._turn.wait_for = self.held  # type: ignore[method-assign, assignment]

    @staticmethod
    def held(predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Do not wait."""
        if not predicate():
            raise Held
        return True

    @property
    def stream(self) -> dpi.Stream:
        """The stream, as it is now."""
        return self.service.closing.streams["visits"]

    def step(self) -> None:
        """One thing that happens."""
        draw, rng = self.rng.random(), self.rng
        if draw < 0.2:
            self.come()
        elif draw < 0.36 and self.unread:
            self.take(rng.choice(self.unread))
        elif draw < 0.4 and self.open:
            self.use(rng.choice(self.open))
        elif draw < 0.56 and self.open:
            self.finish(rng.choice(self.open))
        elif draw < 0.68:
            jump = round(rng.random() * rng.choice([0.05, 0.3, 0.3, 1.2]) * self.width)
            if rng.random() < 0.4:
                jump = max(0, self.slots.next_closing(self.clock.now) - self.clock.now + rng.choice([-1, 0, 1]))
            self.clock.now += jump
        elif draw < 0.8:
            self.go_round()
        elif draw < 0.94:
            self.close()
        elif draw < 0.97:
            self.close_elsewhere()
        else:
            self.renew()

    def come(self) -> None:
        """A head arrives. Of most batches the last byte does, too; of others it comes later."""
        self.batches += 1
        head, rng = self.clock.now, self.rng
        ended = head + rng.choice([0, 0, rng.randint(0, self.width), rng.randint(0, 3 * self.width)])
        lines, words = list[str](), list[str]()
        for _ in range(rng.choice([0, 1, 3])):
            (user, text, value, _), said = self.event(rng.choice([head, ended]))
            moment = int(text) if text.isdigit() else text
            lines.append(json.dumps({"user": user, "time": moment, "value": value}) + "\n")
            words.append(said)
        self.unread.append(Coming(self.batches, head, ended, "".join(lines).encode()))
        self.tell("B", self.batches, head, ended, *words)
        self.give(self.state(True))

    def take(self, batch: Coming) -> None:
        """The head is read."""
        self.unread.remove(batch)
        batch.receipt = self.service.arrive(batch.head)
        self.open.append(batch)
        self.hit["read late" if self.clock.now > batch.head else "read at once"] += 1
        self.tell("T", batch.number)
        self.give(self.state(True))

    def use(self, batch: Coming) -> None:
        """It begins to be read, by the admission as it is."""
        batch.used.enter_context(self.service.admissions.use("visits"))
        self.tell("U", batch.number)
        self.give(self.state(True))

    def finish(self, batch: Coming) -> None:
        """A batch is kept, refused, or for another stream."""
        assert batch.receipt is not None
        self.open.remove(batch)
        if self.rng.random() < 0.1:
            self.service.receipts.assign(batch.receipt, "elsewhere")
            self.elsewhere.append(batch)
            self.end("V", "for another stream", batch)
            return
        self.service.receipts.assign(batch.receipt, "visits")
        self.open.append(batch)  # it waits for nothing but itself, and still for that
        producer, body = self.rng.choice("ab"), Body(Room(1 << 20))
        good = self.rng.random() < 0.8
        body.add(batch.body if good else b"{")
        kind, sequence = ("application/x-ndjson", self.producers[producer]) if good else ("application/json", 0)
        complete = max(batch.receipt.moment, self.service.receipts.read_clock(batch.ended))
        sent = Batch(Sent("visits", body, kind, "", "us", producer), producer, sequence, batch.receipt, complete)
        try:
            kept = self.service.receive(sent).result(60)
        except Problem:
            assert not good
            self.end("N", "refused", batch)
            return
        assert kept.slot == max(self.service.admissions.find("visits").first, self.slots.first_open(batch.head))
        self.producers[producer] += 1
        self.farthest = max(self.farthest, self.slots.at(self.slots.next_closing(complete)))
        self.end("K", "kept", batch)

    def end(self, word: str, what: str, batch: Coming) -> None:
        """It is no longer on its way."""
        batch.used.close()
        if batch in self.open:
            self.open.remove(batch)
        self.hit[what] += 1
        self.tell(word, batch.number)
        self.give(self.state(True))

    def go_round(self) -> None:
        """The thread that moves bytes: some rounds. What had come when it began is read before the last one."""
        for _ in range(self.rng.choice([3, 20, 20])):
            if not self.loop.waiting:
                return
            seen = self.service.receipts._looked
            if self.began is None:
                self.began = self.clock.now
            last = self.rounds == 0 if self.rounds is not None else False
            for batch in [each for each in self.unread if last and each.head < self.began]:
                self.take(batch)
            self.rounds = ROUNDS if self.rounds is None else self.rounds
            self.loop.waiting.popleft()()
            self.rounds -= 1
            if self.service.receipts._looked != seen or self.rounds < 0:
                self.hit["all is read that had come"] += 1
                self.tell("L", self.began)
                self.began = self.rounds = None
                self.give(self.state(True))

    rounds: int | None = None

    def close(self) -> None:
        """Close the next slot, if that can be."""
        before = len(self.closed)
        self.service.closing.step()
        closed = len(self.closed) > before
        self.hit["closed" if closed else "held"] += 1
        waits = [each for each in self.open if each.head < self.slots.closing(self.stream.next_slot)]
        self.hit["held: a batch is on its way"] += bool(waits) and not closed
        assert not self.service.closing.failing
        self.tell("C")
        self.give(self.state(closed))

    def close_elsewhere(self) -> None:
        """Another stream closes a slot."""
        moment = self.clock.now - self.rng.randint(0, self.width)
        possible = self.service.receipts._looked >= moment
        self.service.receipts.settled("elsewhere", moment)
        self.hit["another stream closes"] += possible
        self.tell("O", moment)
        self.give(self.state(possible))

    def renew(self) -> None:
        """The stream is declared again, with a new admission."""
        try:
            self.service._declare(self.settings, True, approved=False)
            possible = True
        except Held:
            self.service.admissions._changing.clear()
            possible = False
        self.hit["a new admission" if possible else "held: a batch is being read"] += 1
        self.tell("W")
        self.give(self.state(possible))

    def state(self, possible: bool) -> str:
        """What the code has, in the words of the model."""
        receipts, stream = self.service.receipts, self.stream
        closed = stream.next_slot - 1
        numbers = sorted(self.names[name] for name in self.closed[closed]) if closed >= self.first else []
        moments = join([(each.number, each.receipt.moment) for each in self.open if each.receipt is not None])
        kept = self.kept(self.service.store, "visits", self.closed, stream.next_slot, self.farthest)
        return " ".join([
            str(int(possible)), str(receipts._closed), str(receipts._looked), str(stream.next_slot),
            moments, "-" if closed < self.first else f"{closed}={join_numbers(numbers)}", "", kept,
        ])  # fmt: skip


def join_numbers(numbers: list[int]) -> str:
    """Numbers as text."""
    return ",".join(map(str, numbers))


def ordered(line: str) -> str:
    """What the model says, with rows in order: the code's have none."""
    words = line.split(" ")
    slot, equal, rows = words[-3].partition("=")
    if equal:
        words[-3] = f"{slot}={join_numbers(sorted(map(int, rows.split(','))) if rows else [])}"
    if words[-1]:
        words[-1] = join(sorted(tuple(map(int, row.split(":"))) for row in words[-1].split(",")))  # type: ignore[misc]
    return " ".join(words)


def compare(program: Path, world: World) -> int:
    """Play a script with both; returns the number of rows that were kept, and raises where a step differs."""
    world.play()
    script = "\n".join(world.lines) + "\n"
    told = subprocess.run([program], input=script, capture_output=True, check=True, text=True).stdout.splitlines()
    assert len(told) == len(world.results) == len(world.lines) - 1
    for number, (model, ours) in enumerate(zip(told, world.results, strict=True), 1):
        if ours is not None and ordered(model) != ours:
            line = world.lines[number]
            raise AssertionError(
                f"script {world.seed}, step {number} {line[:90]!r}: the model says\n{ordered(model)}\nthe code\n{ours}"
            )
    rows = ordered(told[-1]).split(" ")[-1]
    world.hit["rows"] += rows.count(":")
    return rows.count(":")


def main(scripts: int, first: int = 0, steps: int = 150) -> None:
    """Play many scripts of both doors and say what was hit."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for door in (Marks, Batches):
            began, hit = time.monotonic(), Counter[str]()
            for seed in range(first, first + scripts):
                world = door(seed, steps)
                compare(program, world)
                hit += world.hit
            print(f"{door.__name__}: {scripts} scripts, {time.monotonic() - began:.0f} s: no difference")
            for name in sorted(hit):
                print(f"{hit[name]:12d} {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
