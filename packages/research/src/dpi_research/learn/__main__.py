"""`python -m dpi_research.learn train|heads|evaluate|card`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from dpi.estimator import Weights
from dpi_research.learn import batches


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m dpi_research.learn", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train, or go on with a checkpoint; needs JAX")
    train.add_argument("folder", type=Path, help="where checkpoint.npz and weights.npz are written")
    train.add_argument("--resume", type=Path, help="a checkpoint to go on with")
    train.add_argument("--steps", type=int, default=9000, help="steps of the whole schedule")
    train.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate")
    train.add_argument("--seconds", type=float, default=1e9, help="stop after so many seconds of training")
    train.add_argument("--first", type=int, default=20_000, help="the first seed of this piece's worlds")
    train.add_argument("--worlds", type=int, default=6000)
    train.add_argument("--wait", type=int, default=600, help="worlds that must be there before training begins")
    train.add_argument("--cells", type=int, default=24_576, help="bins in a batch")
    train.add_argument("--longest", type=int, default=700, help="slots of the longest worlds")
    train.add_argument("--bins", type=int, default=batches.SIZES[-1], help="bins of the largest worlds")
    train.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    train.add_argument("--script", type=Path, help="worlds.py: two of five worlds are of this script's")
    train.add_argument("--weights", type=Path, help="begin with the weights of this file")
    heads = commands.add_parser("heads", help="train the heads beside a filter; needs JAX")
    heads.add_argument("folder", type=Path, help="where weights.npz of both is written")
    heads.add_argument("--filter", type=Path, required=True, help="weights of the filter")
    heads.add_argument("--steps", type=int, default=2000)
    heads.add_argument("--first", type=int, default=950_000, help="the first seed of worlds")
    heads.add_argument("--worlds", type=int, default=800)
    heads.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    heads.add_argument("--bins", type=int, default=200, help="bins of the largest worlds")
    heads.add_argument("--script", type=Path, help="worlds.py: two of five worlds are of this script")
    evaluate = commands.add_parser("evaluate", help="what weights say of streams whose truth is known")
    evaluate.add_argument(
        "--weights",
        type=Path,
        help="a file of weights, instead of those of releases (--people, --bins 1), or of many bins",
    )
    evaluate.add_argument("--worlds", type=Path, help="the script worlds.py")
    evaluate.add_argument("--seeds", type=int, nargs=2, default=(0, 40), metavar=("FIRST", "COUNT"))
    evaluate.add_argument("--prior", choices=("choosing", "reporting"), help="200 unseen worlds of the prior")
    evaluate.add_argument("--bins", type=int, default=512, help="bins of the largest of these")
    evaluate.add_argument(
        "--people", type=float, metavar="PART", help="counts of users with a part of ε: of --year, --shop and --real"
    )
    evaluate.add_argument("--joint", action="store_true", help="sums and changes of shares, on 100 of them")
    evaluate.add_argument(
        "--list", nargs="*", default=(), metavar="NAME=NUMBER", help="another price list: its options"
    )
    evaluate.add_argument("--year", type=Path, help="the script year.py")
    evaluate.add_argument("--users", type=int, default=20_000, help="users a day of that year")
    evaluate.add_argument("--shop", action="store_true")
    evaluate.add_argument("--real", nargs="*", default=(), help="names of real streams in DPI_DATA")
    commands.add_parser("card", help="print the card of this package's weights, after a look at their digest")
    options = parser.parse_args()
    {"train": _train, "heads": _heads, "evaluate": _evaluate, "card": _card}[options.command](options)


def _heads(options: argparse.Namespace) -> None:
    from dpi.estimator import HEADS, digest, load_weights
    from dpi_research.learn.beginning import save_weights
    from dpi_research.learn.heads_training import train_heads

    weights = load_weights(options.filter)
    filtered = {name: array for name, array in weights.items() if name.removesuffix(".b") not in HEADS}
    seeds = range(options.first, options.first + options.worlds)
    worlds = {"longest": 256, "most_bins": options.bins, "script": options.script}
    trained = train_heads(filtered, seeds, options.steps, options.processes, _say, **worlds)
    both = {**filtered, **trained}
    options.folder.mkdir(parents=True, exist_ok=True)
    save_weights(options.folder / "weights.npz", both)
    _say(f"weights {digest(both)}")


def _evaluate(options: argparse.Namespace) -> None:
    from dpi.estimator import load_weights, trained
    from dpi.estimator.prices import Options
    from dpi_research.learn import reports
    from dpi_research.learn.beginning import histograms

    seeds = {"choosing": reports.CHOOSING, "reporting": reports.REPORTING}
    of_releases = options.people is not None or options.bins == 1
    weights = load_weights(options.weights) if options.weights else trained() if of_releases else histograms()
    first, count = options.seeds
    listed = Options(**{name: float(number) for name, number in (each.split("=") for each in options.list)})  # type: ignore[arg-type]
    listed = replace(listed, width=int(listed.width), wider=int(listed.wider))
    lines = [
        *([reports.on_worlds(weights, options.worlds, range(first, first + count), listed)] if options.worlds else []),
        *([reports.on_prior(weights, seeds[options.prior], options.bins)] if options.prior else []),
        *([reports.on_joint(weights, reports.REPORTING[:100])] if options.joint else []),
    ]
    if options.people is None:
        lines += [
            *([reports.on_year(weights, options.year, options.users, listed)] if options.year else []),
            *([reports.on_shop(weights, listed)] if options.shop else []),
            *(reports.on_real(weights, name, listed) for name in options.real),
        ]
    else:
        lines += _counts(weights, options)
    for line in chain.from_iterable(lines):
        _say(line)


def _counts(weights: Weights, options: argparse.Namespace) -> Iterator[Iterator[str]]:
    from dpi_research.learn import reports
    from dpi_research.learn.shop import shop

    if options.year:
        year = batches.load_script(options.year)
        stream = ((users, values) for _, users, values in year.world(options.users, 60, 365, 0))
        yield reports.on_people(weights, stream, options.people, 7, f"{options.users} a day")
    if options.shop:
        yield reports.on_people(weights, shop(0), options.people, 7, "shop")
    for name in options.real:
        yield reports.on_people(weights, reports.real_stream(name)[1], 2 * options.people, None, name)


def _card(options: argparse.Namespace) -> None:
    from dpi.estimator import CARD, trained

    trained()
    print(CARD.read_text(encoding="utf-8"), end="")


def _say(text: str) -> None:
    print(text, flush=True)


def _train(options: argparse.Namespace) -> None:
    seeds = range(options.first, options.first + options.worlds)
    # Forks before JAX has threads.
    worlds = batches.Worlds(
        seeds, options.processes, longest=options.longest, most_bins=options.bins, script=options.script
    )
    from dpi.estimator import digest, load_weights
    from dpi_research.learn.beginning import save_weights
    from dpi_research.learn.training import Checkpoint, train

    worlds.wait(options.wait)
    begun = Checkpoint.load(options.resume) if options.resume else Checkpoint.new(1)
    if options.weights:
        begun = Checkpoint.of(load_weights(options.weights))
    options.folder.mkdir(parents=True, exist_ok=True)

    def keep(now: Checkpoint) -> None:
        now.save(options.folder / "checkpoint.npz")
        save_weights(options.folder / "weights.npz", now.mean)

    ended = train(
        begun, worlds, options.steps, seconds=options.seconds, cells=options.cells, say=_say, keep=keep,
        highest=options.rate,
    )  # fmt: skip
    worlds.close()
    keep(ended)
    _say(f"step {ended.step}, {worlds.made} worlds, weights {digest(ended.mean)}")


if __name__ == "__main__":
    main()
