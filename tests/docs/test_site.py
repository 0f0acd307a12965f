"""The site builds without a warning, and has what readers without a server need."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_builds_strictly(tmp_path):
    """Links between pages and within them, notebooks, the reference; a search index and lists for programs."""
    pytest.importorskip("sphinx", reason="the site needs Sphinx: `make docs`")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", tmp_path / "site"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.name for path in (tmp_path / "site").iterdir()}
    assert {"index.html", "promise.html", "searchindex.js", "llms.txt", "llms-full.txt"} <= pages
