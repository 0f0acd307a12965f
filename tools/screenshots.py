"""Takes the pictures of the live page and of the report: docs/images/page*.png and report.png.

    python tools/screenshots.py

A made-up shop is served by a clock that the script sets. It needs Chromium and `.[page]`. Noise
is random, so numbers differ a little from run to run.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import sync_playwright

import dpi
from dpi.demo import CROWD, PAGES, hourly
from dpi.report import page as report
from dpi.service.config import Config
from dpi.service.running import make_server
from dpi.service.service import Service
from dpi.settings.streams import StreamSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
HOUR = 3600
HOURS = CROWD[0] + 4
"""Until the fourth hour of the crowd that an offer draws."""
BEGIN = int(time.time()) // HOUR * HOUR - HOURS * HOUR
"""So that the last slot has just ended by the browser's clock."""


class Shop:
    """A service of the shop's visits, whose clock the script sets."""

    def __init__(self, folder: Path) -> None:
        stream = StreamSettings(
            name="visits", domain=dpi.Categories(PAGES), epsilon="1", slot="1h", season=24, people="0.2",
            begin=datetime.fromtimestamp(BEGIN, UTC).isoformat(),
        )  # fmt: skip
        self.now = BEGIN * 1_000_000
        config = Config(
            store=str(folder / "visits.db"), tokens=folder / "tokens.json", port=0, streams={"visits": stream}
        )
        self.service = Service(config, clock=lambda: self.now)
        self.server = make_server(self.service)
        self.tokens = {role: self.service.tokens.create(role) for role in ("curator", "analyst")}

    @contextmanager
    def served(self) -> Iterator[str]:
        """Give the address of the service while it runs."""
        thread = threading.Thread(target=self.server.run, daemon=True)
        thread.start()
        while not (self.server.started and self.server.servers):
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            self.service.leave()
            self.server.should_exit = True
            thread.join()

    def play(self, url: str) -> None:
        """Send the visits of each hour, and close its slot."""
        closing = self.service.closing
        with dpi.connect(url, self.tokens["curator"], patience=10.0) as connection:
            stream = connection.stream("visits")
            for number, hour in enumerate(hourly(HOURS)):
                begin = BEGIN + HOUR * number
                self.now = (begin + 5) * 1_000_000
                stream.append(hour["user"], [datetime.fromtimestamp(begin + 1, UTC)] * hour.height, hour["page"])
                self.now = (begin + HOUR + 2) * 1_000_000
                while closing.call(lambda: closing.streams["visits"].upcoming[0] <= self.now).result(30):
                    time.sleep(0.01)


def opened(browser: Browser, address: str, width: int, height: int, scheme: str = "light") -> Page:
    """Return a page of the service that has drawn everything."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#bars tbody tr")
    page.locator("#tile-chain", has_text="consistent").wait_for()
    page.wait_for_timeout(1500)
    return page


def shoot(address: str, browser: Browser) -> None:
    """Take the pictures of the page."""
    opened(browser, address, 1280, 1000).screenshot(path=IMAGES / "page.png")
    opened(browser, address, 1280, 1000, "dark").screenshot(path=IMAGES / "page-dark.png")
    page = opened(browser, address, 1280, 900)
    page.locator("#alerts").evaluate("card => card.scrollIntoView()")
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / "page-alerts.png")


def main() -> None:
    """Play, draw, and write the pictures."""
    with TemporaryDirectory() as made, sync_playwright() as started:
        browser, folder = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS), Path(made)
        shop = Shop(folder)
        with shop.served() as url:
            shop.play(url)
            shoot(f"{url}/#token={shop.tokens['analyst']}", browser)
            with dpi.open(folder / "visits.db", "visits") as releases:
                (folder / "report.html").write_text(report(list(releases), title="Visits of a shop"), "utf-8")
        page = browser.new_page(viewport={"width": 1000, "height": 1300})
        page.goto((folder / "report.html").as_uri())
        page.screenshot(path=IMAGES / "report.png")
        browser.close()
    for path in (*IMAGES.glob("page*.png"), IMAGES / "report.png"):
        Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


if __name__ == "__main__":
    main()
