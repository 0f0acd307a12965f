"""A process that serves one stream by the system's clock, and prints the rows of each slot as it closes, before noise.

    python recorded.py FOLDER KEY BEGIN SLOT TOKENS

One line has the address and so many tokens of curators. Ends when its input does.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from dpi.stream.slot_closer import SlotCloser
from serving import running, settings


def main(folder: str, key: str, begin: str, slot: str, tokens: str) -> None:
    """Serve until the input ends."""
    close, lock = SlotCloser.close, threading.Lock()

    def say(**told: object) -> None:
        with lock:
            print(json.dumps(told), flush=True)

    def tell(self: SlotCloser, number: int, rows: object) -> object:
        names = [f"{one:016x}{other:016x}" for one, other in rows.names.tolist()]  # type: ignore[attr-defined]
        held = sorted(zip(names, rows.bins.tolist(), rows.counts.tolist(), strict=True))  # type: ignore[attr-defined]
        say(slot=number, rows=held)
        return close(self, number, rows)  # type: ignore[arg-type]

    SlotCloser.close = tell  # type: ignore[method-assign, assignment]
    with running(Path(folder), settings(slot=slot, begin=begin), now=None, key_file=Path(key)) as found:
        given = [found.service.tokens.create("curator") for _ in range(int(tokens))]
        say(url=found.url, tokens=given)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
