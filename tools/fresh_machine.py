"""What somebody sees who has just cloned the project: the README's commands, in an empty folder with an empty home.

    python tools/fresh_machine.py            # every command of the README's first block
    python tools/fresh_machine.py --first    # the first of them alone

The clone has what is committed. Of the environment nothing is handed on but PATH. Commands run until one fails; each
has its wall time printed, which includes downloads. The exit code is the failing command's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands(readme: str) -> list[str]:
    """Return the lines of the first block, without their comments."""
    block = readme.partition("\n```\n")[2].partition("\n```\n")[0]
    return [command for line in block.splitlines() if (command := line.partition("#")[0].strip())]


def run(command: str, folder: Path, home: Path) -> tuple[int, float]:
    """Return the exit code and the seconds of a command that knows its PATH and an empty home."""
    began = time.monotonic()
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": str(home)}, check=False
    )
    return done.returncode, time.monotonic() - began


def main() -> int:
    """Clone, run, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", action="store_true", help="run the first command alone")
    first = parser.parse_args().first
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)  # noqa: S607 - that of PATH
        for command in commands((clone / "README.md").read_text("utf-8"))[: 1 if first else None]:
            print(f"$ {command}", flush=True)
            code, seconds = run(command, clone, home)
            print(f"{command}: {'success' if code == 0 else f'exit code {code}'} after {seconds:.0f} s", flush=True)
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
