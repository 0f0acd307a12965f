"""The live page and the report: frames of a real Chromium while the page is used, and what a report takes.

    python benchmarks/page.py frames [--sizes 100000x10,512x10000] [--seconds 5]
    python benchmarks/page.py report [--sizes 336x10,700x50,2000x1000]

Sizes are slots × values. Streams of the live page are made up: two slots are released, and those before them are
written into the store's table of releases. Those of reports are released slot by slot, from 2,000 random events each. A
report is made by `dpi report` in a process of its own: processor seconds, and the most that was resident.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
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
from measure import Cell, record

REPORT = """import json, resource, subprocess, sys
command = [sys.executable, "-m", "dpi.cli", "report", sys.argv[1], "--out", sys.argv[2]]
subprocess.run(command, check=True, stdout=sys.stderr)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""
"""Makes a report from a process that is small itself, and tells what it took."""
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


def told(what: str, frames: list[float]) -> list[Cell]:
    """A row: milliseconds of frames."""
    ordered = sorted(frames)
    return [what, statistics.median(frames), ordered[int(0.95 * len(ordered))], ordered[-1], len(frames)]


def pictures(url: str, token: str) -> list[float]:
    """Milliseconds that the service takes for what the page asks for, the first time."""
    client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=120)
    changes = f"picture?beside={client.get('/v1/streams/visits').json()['newest'] - 1}&k=10"
    times = []
    for path in ("picture?k=24", "series?k=24&code=0&code=1", "series?first=0&k=24", changes, "alerts"):
        began = time.perf_counter()
        client.get(f"/v1/streams/visits/{path}").raise_for_status()
        times.append(1000 * (time.perf_counter() - began))
    return times


def used(now: list[int], url: str, token: str, seconds: float) -> tuple[str, float, list[list[Cell]]]:
    """The browser, seconds until the first bars, and frames while the page is used in four ways."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(f"{url}/#token={token}&window=0")
        page.wait_for_selector("#bars tbody tr", timeout=60_000)
        drawn = time.perf_counter() - began
        rows = [told("nothing happens", page.evaluate(FRAMES, seconds))]
        stop = threading.Event()

        def slots_pass() -> None:
            while not stop.wait(1.0):
                now[0] += 1_000_000

        passing = threading.Thread(target=slots_pass)
        passing.start()
        rows.append(told("a slot each second", page.evaluate(FRAMES, seconds)))
        stop.set()
        passing.join()
        page.evaluate(f"window.frames_ = ({FRAMES})({seconds})")
        box = page.locator("#heat").bounding_box()
        assert box is not None
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            for part in range(20):
                page.mouse.move(box["x"] + 160 + part * 50, box["y"] + 30 + part * 5)
        rows.append(told("pointer on the map", page.evaluate("() => window.frames_")))
        page.locator("#overview").scroll_into_view_if_needed()
        box = page.locator("#overview").bounding_box()
        assert box is not None
        page.evaluate(f"window.frames_ = ({FRAMES})({seconds})")
        ends = time.perf_counter() + seconds
        page.mouse.move(box["x"] + 200, box["y"] + 50)
        page.mouse.down()
        while time.perf_counter() < ends:
            for part in range(20):
                page.mouse.move(box["x"] + 220 + part * 40, box["y"] + 50)
                time.sleep(0.02)
        page.mouse.up()
        rows.append(told("the window is dragged", page.evaluate("() => window.frames_")))
        version = browser.version
        browser.close()
    return version, drawn, rows


def frames(sizes: list[tuple[int, int]], seconds: float) -> None:
    """Frames for streams of some sizes."""
    rows, notes, version = list[list[Cell]](), list[str](), ""
    for slots, bins in sizes:
        with tempfile.TemporaryDirectory() as name, serving(Path(name), bins, slots) as (_, now, url, token):
            slowest = max(pictures(url, token))
            version, drawn, frames = used(now, url, token, seconds)
        label = f"{slots:,} slots of {bins:,} values"
        rows += [[f"{label}: {row[0]}", *row[1:]] for row in frames]
        notes.append(
            f"{label}: first bars {drawn:.1f} s after the address was opened; the slowest of five answers of the "
            f"service took {slowest / 1000:.1f} s."
        )
    record(
        "page-frames",
        parts=("service",),
        about=f"Chromium {version}, a window of 1280 × 900; {seconds:g} s each.",
        columns=["", "ms a frame, median", "95 %", "longest", "frames"],
        rows=rows,
        notes=notes,
    )


def report(sizes: list[tuple[int, int]]) -> None:
    """Reports of streams of some sizes."""
    rows, rng = list[list[Cell]](), np.random.default_rng(1)  # benchmark data, no privacy noise
    for slots, bins in sizes:
        with tempfile.TemporaryDirectory() as name:
            store, page = Path(name) / "visits.db", Path(name) / "visits.html"
            domain = dpi.Categories([f"value {number:05d}" for number in range(bins)], other=None)
            with dpi.Stream(domain=domain, epsilon=1, slot="1h", start="2026-01-01", store=store) as stream:
                for _ in range(slots):
                    values = [f"value {number:05d}" for number in rng.integers(0, bins, 2000)]
                    stream.release(rng.integers(0, 5000, 2000), values)
            command = [sys.executable, "-c", REPORT, str(store), str(page)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds, memory = json.loads(done.stdout.splitlines()[-1])
            rows.append([f"{slots:,} slots of {bins:,} values", page.stat().st_size / 1e6, seconds, memory])
    record("page-report", parts=("release", "cli"), columns=["", "MB", "processor s", "MiB at most"], rows=rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", choices=("frames", "report"))
    parser.add_argument("--sizes")
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    usual = {"frames": "100000x10,512x10000", "report": "336x10,700x50,2000x1000"}
    pairs = [tuple(map(int, size.split("x"))) for size in (given.sizes or usual[given.section]).split(",")]
    sizes = [(slots, bins) for slots, bins in pairs]
    frames(sizes, given.seconds) if given.section == "frames" else report(sizes)


if __name__ == "__main__":
    main()
