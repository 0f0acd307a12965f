"""Whether slots are released in time, one after the other, while events come and readers ask: the service's objective.

    python benchmarks/soak.py [--seconds 1500] [--rate 1000] [--kind sqlite]

Slots have a second, so that twenty-five minutes have 1,500 of them: enough to tell 99.9 % from less. A service with
hours for slots has as many in two months. A batch of a hundred events comes every tenth of a second; one reader follows
releases, another asks a question every second. Each minute the service gets `SIGHUP`, as when tokens or a certificate
were renewed. A day's soak is the same with `--seconds 86400`.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from statistics import median

import httpx
import numpy as np

from measure import SLOT, record
from results import AT_LEAST, AT_MOST
from serving.load import Follower
from serving.server import Server, running

BATCH = 100
ASKED, SHARE = 2.0, 0.999
"""The objective: so many seconds after its end a slot is seen, in this part of all slots. The delay is one second."""


class Sender(threading.Thread):
    """Sends batches at a rate, each until it is acknowledged."""

    def __init__(self, server: Server, rate: float, seconds: float, users: int, bins: int) -> None:
        super().__init__(daemon=True)
        self.server, self.pause, self.until = server, BATCH / rate, time.monotonic() + seconds
        rng = np.random.default_rng(1)
        self.lines = [
            [f'{{"user":"user{who}","value":"v{where}","time":' for who, where in zip(*drawn, strict=True)]
            for drawn in ((rng.integers(0, users, BATCH), rng.integers(0, bins, BATCH)) for _ in range(256))
        ]
        self.acknowledged = self.again = 0
        self.waits: list[float] = []

    def run(self) -> None:
        """Send until the end."""
        began, sequence = time.monotonic(), 0
        headers = {**self.server.headers, "content-type": "application/x-ndjson"}
        with httpx.Client(headers=headers, timeout=60) as client:
            while time.monotonic() < self.until:
                now, asked = time.time_ns() // 1000, time.monotonic()
                body = "".join(f"{line}{now}}}\n" for line in self.lines[sequence % len(self.lines)])
                where = {"producer": "soak", "sequence": str(sequence), "unit": "us"}
                while client.post(f"{self.server.url}/streams/visits/events", params=where, content=body).is_error:
                    self.again += 1
                    time.sleep(0.02)
                self.waits.append(time.monotonic() - asked)
                sequence += 1
                self.acknowledged += BATCH
                time.sleep(max(0.0, began + sequence * self.pause - time.monotonic()))


class Asker(threading.Thread):
    """Asks a question every second."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server, self.refused = server, 0
        self.start()

    def run(self) -> None:
        """Ask until the server ends."""
        with httpx.Client(headers=self.server.headers, timeout=60) as client:
            while self.server.process.poll() is None:
                try:
                    answer = client.get(f"{self.server.url}/streams/visits/answers/top", params={"k": "3"})
                    self.refused += answer.status_code >= 500
                except httpx.HTTPError:
                    return
                time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1500.0)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--bins", type=int, default=200)
    parser.add_argument("--slot", type=int, default=1)
    parser.add_argument("--kind", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--postgres", default="postgresql:///postgres")
    arguments = parser.parse_args()
    with running(arguments.kind, arguments, lateness=0) as server:
        follower, asker = Follower(server), Asker(server)
        sender = Sender(server, arguments.rate, arguments.seconds, arguments.users, arguments.bins)
        began, sizes = time.time(), list[float]()
        sender.start()
        while sender.is_alive():
            sender.join(60.0)
            sizes.append(server.memory())
            server.process.send_signal(signal.SIGHUP)
        ended = time.time()
        whole = range(int(began // arguments.slot) + 1, int(ended // arguments.slot))
        server.until_seen(whole[-1])
        time.sleep(2 * ASKED)  # what was seen last is on its way to the reader
        late = [follower.delays.get(slot, float("inf")) for slot in whole]
    within = float(np.mean([each <= ASKED for each in late]))
    rate = sender.acknowledged / (ended - began)
    record(
        "soak",
        parts=(*SLOT, "service"),
        about=f"{len(whole):,} slots of {arguments.slot} s, one after the other; {arguments.bins:,} values, "
        f"{arguments.users:,} users, {'SQLite' if arguments.kind == 'sqlite' else 'PostgreSQL'}, `delay` of 1s.",
        columns=["events/s", "slots", "seen after their end s: median", "99 %", "99.9 %", "worst"],
        rows=[[round(rate), len(whole), median(late), *np.quantile(late, (0.99, 0.999)).tolist(), max(late)]],
        values={
            "within": within,
            "answer s, median": median(sender.waits),
            "answer s, 99.9 %": float(np.quantile(sender.waits, 0.999)),
            "batches sent again": sender.again,
            "questions refused": asker.refused,
            "MiB, after a minute": round(sizes[0]),
            "MiB, at the end": round(sizes[-1]),
        },
        goals=[
            (f"slots seen within {ASKED:g} s of their end, of all:", within, AT_LEAST, SHARE),
            ("batches that were not kept at first:", sender.again, AT_MOST, 0),
        ],
    )


if __name__ == "__main__":
    main()
