"""What is sent to a server, as fast as it answers, and whether each event of it is in exactly one closed slot.

The budget of a slot is so large (1024) that a release says what it was made of: every user's events in a slot are
weighed to one, so that the exact histogram of a slot follows from the batches that were acknowledged for it. An event
that is lost or counted twice moves bins by a user's fraction. Noise moves none of 10,000 bins by 0.03 in a slot, but
for a chance of 10⁻⁹.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import httpx
import numpy as np
import polars as pl

import dpi
from serving.server import Server

GRAINS = 1 << 24
CONNECTIONS = 3
BATCH = {"arrow": 40_000, "ndjson": 10_000}
NOISE = 0.03


@dataclass
class Load:
    """What is sent: fixed columns of users and values, with the time of sending."""

    users: int
    bins: int
    kind: str
    drawn: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Of each batch: users and bins."""
    columns: list[pl.DataFrame | list[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng, size = np.random.default_rng(1), BATCH[self.kind]
        for _ in range(8):
            who, where = rng.integers(0, self.users, size), rng.integers(0, self.bins, size)
            users, values = [f"user{number:07d}" for number in who], [f"v{number}" for number in where]
            self.drawn.append((who, where))
            if self.kind == "ndjson":
                pairs = zip(users, values, strict=True)
                lines = [b'{"user":"%s","value":"%s","time":' % (u.encode(), v.encode()) for u, v in pairs]
                self.columns.append(lines)
            else:
                self.columns.append(pl.DataFrame({"user": users, "value": values}))

    def body(self, number: int, now: int) -> bytes:
        """A batch of events that happen at a moment, in microseconds."""
        columns = self.columns[number % len(self.columns)]
        if isinstance(columns, list):
            end = b"%d}\n" % now
            return end.join(columns) + end
        return columns.with_columns(pl.lit(now).cast(pl.Int64).alias("time")).write_ipc_stream(None).getvalue()

    @property
    def media(self) -> str:
        """The media type."""
        return "application/x-ndjson" if self.kind == "ndjson" else "application/vnd.apache.arrow.stream"

    def histogram(self, sent: Counter[int]) -> np.ndarray:
        """What a slot holds that got each batch so many times."""
        who = np.concatenate([users for users, _ in self.drawn])
        where = np.concatenate([bins for _, bins in self.drawn])
        times = np.repeat([sent[number] for number in range(len(self.drawn))], BATCH[self.kind]).astype(float)
        total = np.bincount(who, times, minlength=self.users)
        here = times > 0
        return np.bincount(where[here], times[here] / total[who[here]], minlength=self.bins)


class Senders:
    """Sends batches over a few connections until a moment, each again until it is acknowledged.

    They are sent as fast as they are answered, or at a rate of events a second: a connection that is behind sends at
    once until it has caught up.
    """

    def __init__(self, server: Server, load: Load, seconds: float, rate: float | None = None) -> None:
        self.server, self.load, self.began = server, load, time.monotonic()
        self.until = self.began + seconds
        self.step = 0.0 if rate is None else CONNECTIONS * BATCH[load.kind] / rate
        self.acknowledged: list[tuple[int, int, int]] = []
        """Of each batch: the moment of its events, its number, and the moment of its answer."""
        self.waits: list[float] = []
        self.again = 0
        self._turn = threading.Lock()
        self._threads = [
            threading.Thread(target=self._send, args=(number,), daemon=True) for number in range(CONNECTIONS)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def sending(self) -> bool:
        """Whether an answer is still waited for."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the last answers."""
        for thread in self._threads:
            thread.join()

    @property
    def events(self) -> int:
        """How many were acknowledged."""
        return len(self.acknowledged) * BATCH[self.load.kind]

    def last_slot(self) -> int:
        """The newest slot that has events."""
        return max(moment for moment, _, _ in self.acknowledged) // (self.server.slot * 1_000_000)

    def _send(self, producer: int) -> None:
        with httpx.Client(headers={**self.server.headers, "content-type": self.load.media}, timeout=60) as client:
            sequence = 0
            while time.monotonic() < self.until:
                now, number = time.time_ns() // 1000, sequence * CONNECTIONS + producer
                body, began = self.load.body(number, now), time.monotonic()
                where = {"producer": str(producer), "sequence": str(sequence), "unit": "us"}
                while not self._post(client, body, where):
                    time.sleep(0.02)
                with self._turn:
                    self.acknowledged.append((now, number, time.time_ns() // 1000))
                    self.waits.append(time.monotonic() - began)
                sequence += 1
                due = self.began + self.step * (sequence + producer / CONNECTIONS)
                time.sleep(max(0.0, min(due, self.until) - time.monotonic()))

    def _post(self, client: httpx.Client, body: bytes, where: dict[str, str]) -> bool:
        try:
            answer = client.post(f"{self.server.url}/streams/visits/events", params=where, content=body)
        except httpx.TransportError:
            answer = None
        if answer is not None and answer.status_code not in (200, 429, 503):
            raise AssertionError(answer.text)
        done = answer is not None and answer.status_code == 200
        self.again += not done
        return done


class Follower(threading.Thread):
    """Reads server-sent events, and notes how long after its closing moment each slot was seen."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server, self.delays = server, dict[int, float]()
        self.start()

    def run(self) -> None:
        """Read until the server ends."""
        while self.server.process.poll() is None:
            try:
                url = f"{self.server.url}/streams/visits/follow"
                with httpx.stream("GET", url, headers=self.server.headers, timeout=60) as answer:
                    for line in answer.iter_lines():
                        if line.startswith("id: "):
                            slot = int(line[4:])
                            self.delays.setdefault(slot, time.time() - self.server.closing(slot))
            except httpx.HTTPError:
                time.sleep(0.2)


def checked(senders: Senders) -> int:
    """How many slots hold exactly the events whose batches were acknowledged for them; raises if one does not.

    A batch that is answered before its slot closes was stamped before: it must be there. Slots wait so long for late
    events that every answer comes before that; on a machine so slow that one does not, nothing can be said.
    """
    server, load = senders.server, senders.load
    sent: dict[int, Counter[int]] = defaultdict(Counter)
    for moment, number, answered in senders.acknowledged:
        slot = moment // (server.slot * 1_000_000)
        assert answered < server.closing(slot) * 1_000_000, "an answer came after its slot had closed: too slow to tell"
        sent[slot][number % len(load.drawn)] += 1
    with dpi.open_store(str(server.options["store"]), read_only=True) as store:
        measured = {paid.slot: np.frombuffer(paid.values, "<i8") / GRAINS for paid in store.measurements("visits")}
        released = [json.loads(content.partition(b"\n")[0])["slot"] for content, _ in store.releases("visits")]
    assert released == list(range(released[0], released[-1] + 1)), "a slot was released twice, or left out"
    for slot, values in measured.items():
        off = np.abs(values[: load.bins] - load.histogram(sent[slot])).max()
        assert off < NOISE, f"slot {slot} holds other events than were acknowledged: a bin is off by {off:.3f}"
    assert set(sent) <= set(measured), "a slot was not closed"
    return len(sent)
