"""Kill -9 under load: every acknowledged batch is in exactly one closed slot, and no slot is released twice."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from cli_files import ENVIRONMENT, PROGRAM
from dpi.service.tokens import Tokens
from dpi.store import open_store
from dpi.verification import check_accounts, verify
from service.conftest import free_port

KILLS = 20 if os.environ.get("DPI_SLOW") else 1
PRODUCERS, BATCHES, USERS = 3, 150 * KILLS, 20
LATENESS = 6
CONFIG = """
[serve]
store = "visits.db"
key-file = "key"
port = {port}
delay = "200ms"
[streams.visits]
domain = "batches.txt"
slot = "1s"
lateness = "{lateness}s"
epsilon = 1024          # so much in every slot that noise hides nothing
per-slot = 1024
period = 1
from = "{begin}"
"""


class Load:
    """Producers whose every batch has a value of its own, which it is found by again; each is sent until it is kept."""

    def __init__(self, url, token):
        self.url, self.headers = f"{url}/v1/streams/visits/events", {"authorization": f"Bearer {token}"}
        self.slots = defaultdict(set)  # of each batch that was acknowledged: those of the times it was sent with
        self.again, self.slowest = 0, 0.0
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self._send, args=(number,)) for number in range(PRODUCERS)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        """End with the batch that is on its way."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(120)

    def _send(self, producer):
        with httpx.Client(headers=self.headers, timeout=60) as client:
            for sequence in range(BATCHES):
                if self.stopped.wait(0.03):
                    return
                batch, slots = producer * BATCHES + sequence, set()
                while not self._kept(client, producer, sequence, batch, slots):
                    self.again += 1
                    time.sleep(0.05)
                self.slots[batch] = slots

    def _kept(self, client, producer, sequence, batch, slots):
        now = time.time_ns() // 1000
        slots.add(now // 1_000_000)
        body = {
            "user": [f"user {batch} {number}" for number in range(USERS)],
            "time": [now] * USERS,
            "value": [str(batch)] * USERS,
        }
        where = {"producer": f"p{producer}", "sequence": sequence, "unit": "us"}
        try:
            status = client.post(self.url, params=where, content=json.dumps(body), headers=JSON).status_code
        except httpx.TransportError:
            return False
        assert status in (200, 503)
        self.slowest = max(self.slowest, time.time() - now / 1e6)
        return status == 200


JSON = {"content-type": "application/json"}


def started(folder, url):
    """The service as a process, once it answers."""
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--config", "dpi.toml"], cwd=folder, env=ENVIRONMENT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: process.poll() is not None or status(f"{url}/v1/ready") == 200)
    assert process.poll() is None
    return process


def status(url):
    """What a route answers; 0 if nobody does."""
    try:
        return httpx.get(url, timeout=10).status_code
    except httpx.TransportError:
        return 0


def until(true, seconds=120.0):
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_acknowledged_batch_is_in_exactly_one_closed_slot(tmp_path):
    """The process is killed again and again, also while it pays and publishes; what readers saw stays as it was."""
    port = free_port()
    url, tokens = f"http://127.0.0.1:{port}", Tokens(tmp_path / "tokens.json")
    (tmp_path / "batches.txt").write_text("\n".join(str(number) for number in range(PRODUCERS * BATCHES)))
    begin = datetime.now(UTC).replace(microsecond=0).isoformat()
    (tmp_path / "dpi.toml").write_text(CONFIG.format(port=port, begin=begin, lateness=LATENESS))
    curator, reader = tokens.create("curator"), {"authorization": f"Bearer {tokens.create('analyst')}"}
    seen = defaultdict(set)

    def look():
        """Releases as a reader has them now."""
        path, since = f"{url}/v1/streams/visits/releases", min(seen, default=0) - 1
        found = httpx.get(path, params={"since": since}, headers=reader, timeout=60).json()["releases"]
        for each in found:
            seen[each["slot"]].add(each["certificate"]["digest"])
        return max((each["slot"] for each in found), default=0)

    process = started(tmp_path, url)
    load, drawn = Load(url, curator), np.random.default_rng(7)
    try:
        for _ in range(KILLS):
            before = len(load.slots)
            until(lambda before=before: len(load.slots) > before + 5)
            look()
            time.sleep(float(drawn.uniform(0, 1)))  # at any moment of a slot
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = started(tmp_path, url)
        load.stop()
        last = max(max(slots) for slots in load.slots.values())
        until(lambda: look() >= last)
    finally:
        load.stop()
        process.terminate()
        process.wait(60)
    if load.slowest >= LATENESS:
        pytest.skip("this machine is too busy to tell a batch that was lost from one that was late")
    assert load.again >= KILLS  # batches were on their way
    with open_store(tmp_path / "visits.db", key_file=tmp_path / "key") as store:
        assert [*verify(store).problems, *check_accounts(store)] == []
        released = [json.loads(content.partition(b"\n")[0])["slot"] for content, _ in store.releases("visits")]
        digests = {
            released[number]: link.digest for number, (_, link) in enumerate(store.releases("visits"))
        }  # fmt: skip
        counted = {
            paid.slot: np.rint(np.frombuffer(paid.values, "<i8") / 2**24).astype(int)
            for paid in store.measurements("visits")
        }
    assert released == list(range(released[0], released[0] + len(released)))
    assert {slot: {digests[slot]} for slot in seen} == dict(seen)  # what was seen once is what is there
    where = {batch: [slot for slot, users in counted.items() if users[batch]] for batch in load.slots}
    assert [batch for batch, slots in where.items() if len(slots) != 1] == []
    assert all(slots[0] in load.slots[batch] for batch, slots in where.items())
    assert {int(counted[slots[0]][batch]) for batch, slots in where.items()} == {USERS}
