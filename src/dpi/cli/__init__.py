"""The command line `dpi`. It decides nothing about privacy: every command is a few calls of the package."""

import os
import signal
import sys


def main() -> None:
    """Run a command; `typer` and `rich` are loaded here, not by `import dpi`.

    Process 1, as in a container, is not ended by a signal that it has no handler for: one that came while libraries
    are loaded would be lost. There it has the effect that it has elsewhere.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    if sys.platform == "win32":  # whose output may be in an alphabet without ε
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "reconfigure")(encoding="utf-8")  # noqa: B009 - of no other kind of stream
    try:
        from dpi.cli.app import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app(prog_name="dpi")
