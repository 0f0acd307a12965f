"""A process that drives a stream with a pool, to be killed.

    python driven.py STORE KEY SLOTS

Prints "slot N PID PID …" before it closes a slot, with its workers, and closes SLOTS of them.
"""

from __future__ import annotations

import sys

import numpy as np

import dpi
from dpi.noise import UnsafeSeededSource

DOMAIN = dpi.Categories([f"v{number}" for number in range(6)], other="else")
OPTIONS = {"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.3")}


def events(slot: int) -> tuple[list[str], list[str]]:
    """Users and values of a slot: enough that closing it takes a while."""
    rng = np.random.default_rng(slot)
    users = [f"user {number}" for number in rng.integers(0, 3000, 4000)]
    return users, [f"v{number}" for number in rng.integers(0, 7, 4000)]


def close(stream: dpi.Stream, slot: int) -> dpi.Release:
    """Release a slot with noise that is a function of its number."""
    stream.driver.source = UnsafeSeededSource(slot)
    return stream.release(*events(slot), slot=slot)


def main(path: str, key: str, slots: int) -> None:
    """Close slots, one after the other."""
    with dpi.engine.pool(1) as engine, dpi.open_store(path, key_file=key, wait=60) as store:
        stream = dpi.Stream(store=store, engine=engine, unsafe_source=UnsafeSeededSource(0), **OPTIONS)
        for slot in range(stream.next_slot, slots):
            print("slot", slot, *engine.executor.processes, flush=True)
            close(stream, slot)
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
