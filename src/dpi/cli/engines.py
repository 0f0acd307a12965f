"""Which engine a command line asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from dpi._version import load_plugin
from dpi.engine import BucketEngine, local, pool
from dpi.errors import OptionError, meant
from dpi.store.sql import SQLStore

ENGINES = ("local", "pool", "spark")
LAYOUTS = ("buckets", "embedded")


@contextmanager
def engine(name: str | None, path: Path | None, workers: int | None) -> Iterator[BucketEngine | None]:
    """The engine of this name, while it is needed; None if the stream has all accounts in memory."""
    if name is None:
        for option, given in (("--path", path), ("--workers", workers)):
            if given is not None:
                raise OptionError(f"`{option}` is for an engine: give `--engine` as well.")
        yield None
        return
    if name not in ENGINES:
        raise OptionError(f"there is no engine {name!r}{meant(name, ENGINES)}")
    if workers is not None and name != "pool":
        raise OptionError("`--workers` is for `--engine pool`.")
    with local(path) if name == "local" else pool(workers, path) if name == "pool" else _spark(path) as found:
        yield found


def _spark(path: Path | None) -> BucketEngine:
    spark = cast("Callable[..., BucketEngine]", load_plugin("dpi.executors", "spark", "spark"))
    return spark(path=path)


def move(store: SQLStore, layout: str, path: Path | None, bits: int) -> None:
    """Move the accounts of a store into another layout."""
    if layout not in LAYOUTS:
        raise OptionError(f"`--layout` must be buckets or embedded. Got {layout!r}.")
    if layout == "embedded":
        if path is not None:
            raise OptionError("`--path` is of buckets: leave it out.")
        store.embed()
    else:
        store.lay_out(path, bits)
