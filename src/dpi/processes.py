"""Processes that work for this one: started anew, each with one thread, and gone when this one is, however it ends."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import connection, get_context, parent_process

NICE = 5
"""By so much processes that give way are behind this one, where there are not enough cores for all."""


def start_pool(workers: int, *modules: str, gives_way: bool = False) -> ProcessPoolExecutor:
    """Return a pool of processes that have imported some modules; none is a fork, whose locks threads may hold.

    Processes that give way run when this one does not, and leave an interruption from the keyboard to it.
    """
    begin = (modules, gives_way)
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=begin)


def _begin(modules: tuple[str, ...], gives_way: bool) -> None:
    """In a new process: one thread for polars, what it will need, and an end with the process that started this one."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # before polars is imported
    if gives_way:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if hasattr(os, "nice"):
            os.nice(NICE)
    for name in modules:
        import_module(name)
    starter = parent_process()
    assert starter is not None  # noqa: S101 - somebody has started this process
    sentinel = starter.sentinel

    def follow() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=follow, name="dpi follow", daemon=True).start()
