"""Worlds on all cores, put together into batches of like sizes, cut into windows of slots."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
import threading
import time
from bisect import insort
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dpi.estimator import HISTOGRAMS
from dpi.estimator.prices import Floats
from dpi_research.learn.records import Record, record, record_stream

SIZES = (1, 16, 96, 512)
"""Numbers of bins that batches are padded to; each is compiled once."""
RING = 24
"""The longest season in training."""
WINDOW = 128


def make(seed: int, *, longest: int, most_bins: int, script: Path | None = None) -> Record | None:
    """Return the record of a seed; None of a world in which hardly anybody is active.

    With a script such as `worlds.py`, two of five seeds are of its worlds, with up to eight times as many users.
    """
    if script is not None and seed % 5 < 2:
        return _scripted(seed, script, most_bins)
    world_record = record(seed, longest=longest, most_bins=most_bins)
    return world_record if world_record.users.sum(1).mean() >= 20 else None


MOST_WORLDS = 512
"""Worlds of a batch, at most."""
MOST_PEOPLE = 100_000
"""Worlds of a script are played person by person: larger ones are left out."""


def load_script(path: Path) -> ModuleType:
    """Return a script as a module."""
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"there is no script at {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _scripted(seed: int, script: Path, most_bins: int) -> Record | None:
    worlds, rng = load_script(script), np.random.default_rng([seed, 62])
    world = worlds.world(seed)
    if world.bins > most_bins:
        return None
    scale = float(np.exp(rng.uniform(np.log(0.5), np.log(8)))) if rng.random() < 0.6 else 1.0
    for group in world.groups:
        group.stock, group.arrivals = int(group.stock * scale), group.arrivals * scale
        if group.waves:
            group.waves = (group.waves[0], int(group.waves[1] * scale))
    if sum(group.stock + group.arrivals * 30 for group in world.groups) > MOST_PEOPLE:
        return None
    if rng.random() < 0.4:
        world.epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(50))))
    world_record = record_stream(seed, worlds.play(world), world.bins, world.epsilon, world.season)
    return world_record if world_record.users.sum(1).mean() >= 20 else None


class Worlds:
    """Records as they are made, by size, sorted by length."""

    def __init__(
        self, seeds: range, processes: int, *, longest: int, most_bins: int, script: Path | None = None
    ) -> None:
        self.by_size: dict[int, list[tuple[int, int, Record]]] = {size: [] for size in SIZES}
        self.made = 0
        self._pool = multiprocessing.get_context("fork").Pool(processes)
        self._make = partial(make, longest=longest, most_bins=most_bins, script=script)
        self._thread = threading.Thread(target=self._collect, args=(seeds,), daemon=True)
        self._thread.start()

    def _collect(self, seeds: range) -> None:
        for world_record in self._pool.imap_unordered(self._make, seeds, chunksize=4):
            if world_record is not None:
                size = next(size for size in SIZES if size >= world_record.users.shape[1])
                insort(self.by_size[size], (world_record.users.shape[0], self.made, world_record))
                self.made += 1

    def wait(self, count: int) -> None:
        """Wait until so many worlds are made, or all of them."""
        while self.made < count and self._thread.is_alive():
            time.sleep(0.2)

    def close(self) -> None:
        """Make no more."""
        self._pool.terminate()

    def choose(self, rng: np.random.Generator, cells: int) -> tuple[int, list[Record]]:
        """Return a size, and worlds of it that are about as long as each other: so many bins together."""
        sizes = [size for size in SIZES if self.by_size[size]]
        size = int(rng.choice(sizes))
        count = int(min(cells // size, MOST_WORLDS))
        rows = self.by_size[size]
        start = int(rng.integers(0, max(len(rows) - count, 0) + 1))
        chosen = [row[2] for row in rows[start : start + count]]
        while len(chosen) < count:
            chosen.append(chosen[int(rng.integers(len(chosen)))])
        return size, chosen


def windows(rows: list[Record], size: int, window: int = WINDOW) -> Iterator[dict[str, Any]]:
    """Yield the windows of a batch, one after the other: the fields of `scores.Window`."""
    longest, count = max(len(row.users) for row in rows), len(rows)
    mask = np.zeros((count, size), np.float32)
    floor = np.zeros(count, np.float32)
    for number, row in enumerate(rows):
        mask[number, : row.users.shape[1]] = 1
        floor[number] = 1e-6 + 0.3 / max(float(row.users.sum(1).mean()), 1.0)
    fixed = {
        "season": np.array([float(row.period > 0) for row in rows], np.float32),
        "partial": np.array([float(row.partial) for row in rows], np.float32),
        "width": np.array([row.width for row in rows], np.float32),
        "mask": mask,
        "floor": floor,
    }
    for start in range(0, longest, window):

        def zeros(*shape: int) -> Floats:
            return np.zeros((window, count, *shape), np.float32)

        paid, users = zeros(HISTOGRAMS, size), zeros(size)
        due, price, members = zeros(HISTOGRAMS), np.ones((window, count, HISTOGRAMS), np.float32), zeros(HISTOGRAMS)
        newcomers, here, phase = zeros(), zeros(), np.zeros((window, count), np.int32)
        for number, row in enumerate(rows):
            bins, part = row.users.shape[1], slice(start, start + window)
            length = len(row.users[part])
            paid[:length, number, :, :bins] = row.paid[part]
            users[:length, number, :bins] = row.users[part]
            due[:length, number], price[:length, number] = row.due[part], row.price[part]
            members[:length, number], newcomers[:length, number] = row.members[part], row.newcomers[part]
            here[:length, number] = 1
            if row.period:
                phase[:, number] = (start + np.arange(window)) % row.period
        yield {
            "paid": paid, "users": users, "due": due, "price": price, "members": members, "newcomers": newcomers,
            "here": here, "phase": phase, **fixed,
        }  # fmt: skip
