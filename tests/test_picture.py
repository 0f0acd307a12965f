"""The picture of docs/design.md shows what modules import."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_picture_is_what_modules_import():
    """An import between two rooms, or a room, that came or went since the picture was made is noticed."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "rooms.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
