"""The check of the container says what it lacks; asked for, it builds the image and holds."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "container.py"))


def test_what_is_missing_is_told_with_how_to_get_it(monkeypatch):
    """Root, then packages; never half a build."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert TOOL["missing"]() == "debootstrap needs root."
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "`apt-get install podman runc debootstrap openssl git`" in TOOL["missing"]()


def test_its_user_is_that_of_the_container():
    """The number whose files it looks for is the one that the image has."""
    assert f"\nUSER {TOOL['USER']}\n" in (ROOT / "deploy" / "Containerfile").read_text("utf-8")


@pytest.mark.skipif(
    not os.environ.get("DPI_SLOW"), reason="fetches a Debian and builds the image: `DPI_SLOW=1`, and root"
)
def test_the_container_is_built_and_serves():
    """As committed: built, healthy in the clear and with TLS, private files, a clean end."""
    if sentence := TOOL["missing"]():
        pytest.skip(sentence)
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "container.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
