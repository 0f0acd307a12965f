"""A shop's pages, released hour by hour into a store; a page and a picture made from what is in the store.

    python examples/shop_dashboard/dashboard.py [FOLDER]

It may be called again and again: what was released stays, nobody pays twice, and the page is made anew.
"""

from __future__ import annotations

import sys
from datetime import UTC, timedelta
from pathlib import Path

import dpi
from dpi import demo
from dpi.report import Status, page, write
from dpi.verification import verify
from shop_visits import make

START = demo.START.replace(tzinfo=UTC)


def release(folder: Path, days: int) -> None:
    """Release every hour that is not in the store yet."""
    events = dpi.read(folder / "visits.parquet", user="user", time="at", value="page")
    with dpi.Stream(
        domain=dpi.Categories(demo.PAGES), epsilon=1, slot="1h", start=START, store=folder / "shop.db"
    ) as stream:
        assert stream.slots is not None  # noqa: S101 - it has a clock
        begin, end = stream.slots.start(stream.next_slot), START + timedelta(days=days)
        if begin < end:
            for made in stream.replay(events, start=begin, end=end):
                if made.start is not None and made.start.hour == 18:
                    print(made.start, ", ".join(f"{name} {share:.3f}" for name, share in made.top(3)))


def draw(folder: Path) -> None:
    """Check the store; write the page and the picture. Both are made of releases, so anybody may have them."""
    with dpi.open(folder / "shop.db") as stored:
        found = verify(stored.store)
        status = Status(entries=found.entries, head=found.head, chain_intact=found.intact, problems=found.problems)
        releases = list(stored)
    write(folder / "dashboard.html", page(releases, title="Pages of a made-up shop", verification=status))
    dpi.plot_series(releases, ["home", "shoes", "games", "offer"]).savefig(folder / "pages.svg")


def main(folder: Path, days: int = 14) -> None:
    """Make the visits, release them, draw."""
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / "visits.parquet", days)
    release(folder, days)
    draw(folder)
    print(f"Look at {folder / 'dashboard.html'} and {folder / 'pages.svg'}.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/shop_dashboard"))
