"""A week of a made-up shop, released hour by hour from Python; `dpi demo` does the same from the command line."""

from __future__ import annotations

import polars as pl

import dpi
from dpi import demo as shop


def main() -> None:
    """Release the week; print an evening."""
    visits = pl.concat(shop.hourly(7 * 24))
    stream = dpi.Stream(domain=dpi.Categories(shop.PAGES), epsilon=1, slot="1h")
    releases = list(stream.replay(visits, start="2026-03-02", end="2026-03-09", time="at", value="page"))
    print(stream.guarantee)
    for release in releases[18:24]:
        shares = ", ".join(f"{page} {share:.3f}" for page, share in release.top(3))
        print(f"{release.start}  {shares}, shoes {release.probability('shoes').interval(0.95)}")


if __name__ == "__main__":
    main()
