"""Measures what docs/performance.md includes: ours beside other libraries, how a slot grows, and where its time goes.

    python benchmarks/performance.py peers|growth|flames [--quick] [--pictures docs/images]

`make bench` makes the environments of the peers first. The quick form takes smaller sizes and fewer rounds: for a try.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import performance_flames
import performance_growth
import performance_peers

Section = Callable[[bool, Path], None]
SECTIONS: dict[str, Section] = {
    "peers": performance_peers.measure,
    "growth": performance_growth.measure,
    "flames": performance_flames.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pictures", type=Path, help="a folder to draw pictures in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        SECTIONS[options.section](options.quick, options.pictures or Path(folder))


if __name__ == "__main__":
    main()
