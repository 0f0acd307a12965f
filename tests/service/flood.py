"""A process that floods a service with the events of one user, in the ways that its arguments name.

    python flood.py URL TOKENS TIME MOMENT KIND ...

Begins at a moment of the clock. Says how many requests of each status were answered when its input ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

SLOW = bool(os.environ.get("DPI_SLOW"))
BATCHES, ROWS, TEXTS = 40, 131_072 if SLOW else 16_384, 8
STALLED, SILENT = 60, 900
KINDS = ("rows", "texts", "stalled", "silent")


def main(url: str, tokens: str, at: str, begins: str, *kinds: str) -> None:
    """Flood until the input ends."""
    place, answers = urlsplit(url), Counter[str]()
    address = (str(place.hostname), int(place.port or 0))
    held: list[socket.socket] = []

    def head(producer: str, size: int) -> bytes:
        token = tokens.split(",")[producer.startswith("stalled")]
        return (
            f"POST /v1/streams/visits/events?producer={producer}&sequence=0&unit=us HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {size}\r\n\r\n"
        ).encode()

    def line(user: str) -> bytes:
        return json.dumps({"user": user, "time": int(at), "value": "home"}).encode() + b"\n"

    def send(producer: str, body: bytes) -> None:
        with suppress(OSError), socket.create_connection(address, timeout=120) as connection:
            connection.sendall(head(producer, len(body)) + body)
            answers[connection.recv(1 << 16)[9:12].decode()] += 1

    def hold(said: bytes) -> None:
        with suppress(OSError):
            held.append(socket.create_connection(address, timeout=120))
            held[-1].sendall(said)

    bodies = [line("eve") * ROWS] * BATCHES if "rows" in kinds else []
    bodies += [line("eve " + "x" * 16_000) * 1000] * TEXTS if "texts" in kinds else []
    time.sleep(max(0.0, float(begins) - time.time()))
    for number in range(STALLED if "stalled" in kinds else 0):
        hold(head(f"stalled{number}", 1000) + b"{")
    for number, body in enumerate(bodies):
        threading.Thread(target=send, args=(f"eve{number}", body), daemon=True).start()
    for _ in range(SILENT if "silent" in kinds else 0):
        hold(b"")
    sys.stdin.read()
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
