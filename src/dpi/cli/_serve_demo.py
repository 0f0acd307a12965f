"""`dpi serve --demo`: a service with a made-up shop in it, whose hours are a few seconds long."""

from __future__ import annotations

import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpi.cli.output import document, note, say
from dpi.client import connect
from dpi.demo import PAGES, hourly
from dpi.domain import Categories
from dpi.errors import OptionError, StoreError
from dpi.service.config import Config
from dpi.service.running import make_server
from dpi.service.service import Service
from dpi.service.tokens import Tokens
from dpi.settings.streams import StreamSettings

HOUR = 4
"""Seconds that an hour of the shop takes."""
NAME = "shop"


def demonstrate(host: str, port: int, json: bool) -> None:
    """Serve until a signal comes; everything lies in a temporary folder, and is gone after it."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Tokens(Path(folder) / "tokens.json")
        curator, analyst = tokens.create("curator", name="demo"), tokens.create("analyst", name="demo")
        settings = StreamSettings(
            name=NAME, domain=Categories(PAGES), epsilon="1", slot=f"{HOUR}s", begin=_begin(), season=24, people="0.2"
        )
        config = Config(
            store=f"{folder}/shop.db", tokens=tokens.path, host=host, port=port, delay="500ms", streams={NAME: settings}
        )
        stop, url = threading.Event(), f"http://{host}:{port}"
        page = f"{url}/#token={analyst}"  # what is after # is never sent: a script takes it, and out of the address

        def say_where() -> None:
            if json:
                document({"url": url, "streams": [NAME], "analyst": analyst, "page": page})
                return
            note(f"serving a made-up shop on {url}/v1, until Ctrl-C; an hour of it takes {HOUR} seconds.")
            say(
                f"Look at it, with a token that is in the address alone:  {page}",
                "Releases as they are seen, and a question, from another terminal:",
                f'  curl -N -H "Authorization: Bearer {analyst}" {url}/v1/streams/{NAME}/follow',
                f'  curl -H "Authorization: Bearer {analyst}" "{url}/v1/streams/{NAME}/answers/top?k=3"',
            )

        running = make_server(Service(config), say_where)
        threads = [threading.Thread(target=_visit, args=(url, curator, stop), daemon=True)]
        if not json:
            threads.append(threading.Thread(target=_tell, args=(url, analyst, stop), daemon=True))
        for thread in threads:
            thread.start()
        try:
            running.run()
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=2 * HOUR)


def _begin() -> str:
    """Return the slot that is next."""
    now = int(time.time())
    return datetime.fromtimestamp(now - now % HOUR + HOUR, UTC).isoformat()


def _visit(url: str, token: str, stop: threading.Event) -> None:
    """Send the visits of one hour of the shop after the other, in parts, as they happen."""
    try:
        with connect(url, token, patience=10.0) as service:
            stream = service.stream(NAME)
            for hour in hourly(10_000):
                for part in hour.iter_slices(max(1, -(-hour.height // HOUR))):
                    now = datetime.now(UTC) - timedelta(milliseconds=1)
                    stream.append(part["user"], [now] * part.height, part["page"])
                    if stop.wait(1.0):
                        return
    except (OptionError, StoreError):
        if not stop.is_set():
            note("the made-up visitors have lost the service.")


def _tell(url: str, token: str, stop: threading.Event) -> None:
    """Print a line for every release that is seen."""
    try:
        with connect(url, token, patience=10.0) as service:
            for release in service.stream(NAME).follow(stop=stop):
                best = "  ".join(f"{page} {share:.0%}" for page, share in release.top(3))
                say(f"{release.start_text}  spent at most {release.epsilon_spent:.3f} of 1  {best}")
    except (OptionError, StoreError):
        return
