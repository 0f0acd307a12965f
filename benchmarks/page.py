"""How fluid the page is: frames of a real Chromium while it is used, and how long the service takes for each picture.

Streams are made up: two slots are released, and those before them are written into the store's table of releases.

    python benchmarks/page.py --slots 100000 --bins 10
    python benchmarks/page.py --slots 512 --bins 10000
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

import dpi
from dpi.service.config import Config
from dpi.service.running import make_server
from dpi.service.service import Service
from dpi.settings.streams import StreamSettings

BEGIN, MOMENT = "2026-01-01T00:00:00+00:00", 1_767_225_600_000_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FRAMES = """seconds => new Promise(done => {
  const frames = []; let last = performance.now(); const end = last + 1000 * seconds;
  const next = now => { frames.push(now - last); last = now; now < end ? requestAnimationFrame(next) : done(frames) };
  requestAnimationFrame(next) })"""


def write_past(path: Path, slots: int) -> None:
    """Releases of so many slots before the first, with shares that wander."""
    rng = np.random.default_rng(1)
    with sqlite3.connect(path) as base:
        ((first, entry, content),) = base.execute("SELECT slot, entry, content FROM releases ORDER BY slot LIMIT 1")
        head, _, body = bytes(content).partition(b"\n")
        said, vectors = json.loads(head), np.frombuffer(body, dtype="<f8").reshape(4, -1).copy()
        walk, n = np.zeros(vectors.shape[1]), vectors.shape[1]
        for slot in range(first - slots, first):
            walk = 0.98 * walk + 0.1 * rng.normal(size=n)
            pdf = np.exp(walk - np.log(np.arange(1, n + 1)))
            pdf /= pdf.sum()
            rows = {"pdf": pdf, "variance": np.full(n, 1e-6), "accumulated": pdf, "skew": np.zeros(n)}
            said |= {"slot": slot, "total": 5000 + 100 * walk[0], "total_variance": 400.0}
            text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
            ordered = (rows["pdf"], rows["variance"], rows["skew"], rows["accumulated"])
            data = text + b"\n" + b"".join(each.astype("<f8").tobytes() for each in ordered)
            base.execute("INSERT INTO releases VALUES ('visits', ?, ?, ?)", (slot, entry, data))


@contextmanager
def serving(folder: Path, bins: int, slots: int) -> Iterator[tuple[Service, list[int], str, str]]:
    domain = dpi.Categories([f"value {number:05d}" for number in range(bins - 1)])
    settings = StreamSettings(name="visits", domain=domain, epsilon="1", slot="1s", begin=BEGIN, per_slot="0.5")
    now = [MOMENT + 5_000_000]
    config = Config(
        store=str(folder / "visits.db"), tokens=folder / "tokens.json", port=0, delay="10ms",
        streams={"visits": settings},
    )  # fmt: skip
    for past in (True, False):
        service = Service(config, clock=lambda: now[0])
        made = make_server(service)
        token = service.tokens.create("analyst")
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        while not (made.started and made.servers) or service.publication.upto("visits") is None:
            time.sleep(0.05)
        if not past:
            yield service, now, f"http://127.0.0.1:{made.servers[0].sockets[0].getsockname()[1]}", token
        service.leave()
        made.should_exit = True
        thread.join()
        if past:
            write_past(folder / "visits.db", slots)


def said(frames: list[float]) -> str:
    """Frames in a line."""
    ordered = sorted(frames)
    return (
        f"median {statistics.median(frames):5.1f} ms  95 % {ordered[int(0.95 * len(ordered))]:6.1f} ms  "
        f"longest {ordered[-1]:6.1f} ms  ({len(frames)} frames)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=100_000)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, serving(Path(name), given.bins, given.slots) as (_, now, url, token):
        client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=120)
        changes = f"picture?beside={client.get('/v1/streams/visits').json()['newest'] - 1}&k=10"
        for path in ("picture?k=24", "series?k=24&code=0&code=1", "series?first=0&k=24", changes, "alerts"):
            times, size = [], 0
            for _ in range(3):
                began = time.perf_counter()
                answer = client.get(f"/v1/streams/visits/{path}").raise_for_status()
                times.append(1000 * (time.perf_counter() - began))
                size = len(answer.content)
            print(f"{path:28} {min(times):7.0f} ms best, {times[0]:7.0f} ms first, {size:8,} bytes", flush=True)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            began = time.perf_counter()
            page.goto(f"{url}/#token={token}&window=0")
            page.wait_for_selector("#bars tbody tr", timeout=60_000)
            print(f"drawn {1000 * (time.perf_counter() - began):.0f} ms after the address was opened")
            print("nothing happens:   ", said(page.evaluate(FRAMES, given.seconds)))
            stop = threading.Event()

            def slots_pass() -> None:
                while not stop.wait(1.0):
                    now[0] += 1_000_000

            passing = threading.Thread(target=slots_pass)
            passing.start()
            print("a slot each second:", said(page.evaluate(FRAMES, given.seconds)))
            stop.set()
            passing.join()
            page.evaluate(f"window.frames_ = ({FRAMES})({given.seconds})")
            box = page.locator("#heat").bounding_box()
            assert box is not None
            ends = time.perf_counter() + given.seconds
            while time.perf_counter() < ends:
                for part in range(20):
                    page.mouse.move(box["x"] + 160 + part * 50, box["y"] + 30 + part * 5)
            print("pointer on the map:", said(page.evaluate("() => window.frames_")))
            page.locator("#overview").scroll_into_view_if_needed()
            box = page.locator("#overview").bounding_box()
            assert box is not None
            page.evaluate(f"window.frames_ = ({FRAMES})({given.seconds})")
            ends = time.perf_counter() + given.seconds
            page.mouse.move(box["x"] + 200, box["y"] + 50)
            page.mouse.down()
            while time.perf_counter() < ends:
                for part in range(20):
                    page.mouse.move(box["x"] + 220 + part * 40, box["y"] + 50)
                    time.sleep(0.02)
            page.mouse.up()
            print("brush is dragged:  ", said(page.evaluate("() => window.frames_")))
            browser.close()


if __name__ == "__main__":
    main()
