"""A process that serves one stream of seconds, as one replica of several.

python replica.py STORE KEY TOKENS WITNESS PORT START LEASE
"""

from __future__ import annotations

import sys
from pathlib import Path

import dpi
from dpi.service.config import Config
from dpi.service.running import serve
from dpi.settings.streams import StreamSettings


def main(store: str, key: str, tokens: str, witness: str, port: str, start: str, lease: str) -> None:
    """Serve until a signal comes."""
    stream = StreamSettings(
        name="visits", domain=dpi.Categories(["a", "b"]), epsilon="1", slot="1s", begin=start, per_slot="0.0625",
        lateness="5s",
    )  # fmt: skip
    serve(
        Config(
            store=store, key_file=Path(key), tokens=Path(tokens), witness=Path(witness), port=int(port), delay="200ms",
            lease=lease, streams={"visits": stream},
        )
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
