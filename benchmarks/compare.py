"""DPI beside the systems of others: at equal guarantee, and as they were published.

    python benchmarks/compare.py [--streams small20,shop] [--slots 300] [--epsilon 1] [--cap 10] [--pictures out]

Prints a table for every stream and mode, and writes three pictures for each if asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpi.compare import Mode, Terms, compare_named, plot_error, plot_loss, plot_trade_off
from dpi.datasets.generators import stream_named

NAMES = ("dpi", "binary", "hybrid", "pegasus", "perrier", "tops", "boosting", "noisy", "demo")
MODES: tuple[Mode, ...] = ("user", "published")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default="small20,shop,published", help="names, separated by commas")
    parser.add_argument("--mechanisms", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--cap", type=int, default=10, help="records of a user that count, over all time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=Path, help="a directory to write pictures to")
    options = parser.parse_args()
    for name in options.streams.split(","):
        for mode in MODES:
            records = stream_named(name).records
            terms = Terms(options.epsilon, mode=mode, cap=options.cap, records=records)
            result = compare_named(options.mechanisms.split(","), name, terms, slots=options.slots, seed=options.seed)
            print(result.table(), "", sep="\n", flush=True)
            if options.pictures:
                options.pictures.mkdir(parents=True, exist_ok=True)
                plot_loss(result).savefig(options.pictures / f"{name}-{mode}-loss.svg")
                plot_error(result).savefig(options.pictures / f"{name}-{mode}-error.svg")
                plot_trade_off([result]).savefig(options.pictures / f"{name}-{mode}-trade-off.svg")


if __name__ == "__main__":
    main()
