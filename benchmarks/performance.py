"""Makes the measured parts of docs/performance.md.

    python benchmarks/performance.py [--quick] [--only peers,growth,costs,flames] [--page docs/performance.md]

Without a page, tables are printed and no picture is drawn. `make bench` makes the environments of the peers first.
The quick form takes smaller sizes and fewer rounds, and says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import performance_costs
import performance_flames
import performance_growth
import performance_peers

Section = Callable[[bool, Path], list[str]]
SECTIONS: dict[str, Section] = {
    "peers": performance_peers.table,
    "growth": performance_growth.table,
    "costs": performance_costs.table,
    "flames": performance_flames.table,
}


def machine(quick: bool) -> str:
    """What it was measured on, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ours = ", ".join(f"{name} {version(name)}" for name in ("numpy", "polars"))
    return (
        f"Measured on {platform.system()}, {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {ours}; load at the start {os.getloadavg()[0]:.1f}"
        f"{'; quick form' if quick else ''}."
    )


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with what stands between the marks of a section exchanged."""
    begin, end = f"<!-- {name}: made by benchmarks/performance.py -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"the page has no marks for {name}.")
    return "\n".join([before + begin, "", *lines, "", end + after])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pictures = options.page.parent / "images" if options.page else Path(folder)
        for name in options.only.split(","):
            lines = [machine(options.quick), "", *SECTIONS[name](options.quick, pictures)]
            print(*lines, "", sep="\n", flush=True)
            if options.page:
                page = options.page.read_text(encoding="utf-8")
                options.page.write_text(replaced(page, name, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
