"""The page on engines runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8")


def test_the_page_runs_as_written(tmp_path, warm):
    """The commands in their order, on a small file of events, and the example in Python."""
    (tmp_path / "countries.txt").write_text("DE\nFR\n")
    rows = [f"user {n % 50},2026-01-01T{n % 24:02d}:10,{'DE' if n % 3 else 'FR'}" for n in range(400)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,time,value", *rows]) + "\n")
    script = "".join(re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)).replace("$ dpi ", "dpi ")
    assert script.count("dpi ") == 5
    head = f'set -eu\ndpi() {{ {" ".join(warm)} "$@"; }}\n'
    done = subprocess.run(
        ["/bin/sh", "-c", head + script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "24 slots released" in done.stdout
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    run = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "0\n"), run.stderr


@pytest.mark.parametrize(("page", "title"), [("engine", "## What can fail"), ("spark", "## What fails, and what then")])
def test_tests_of_the_failure_table_are_there(page, title):
    """A test that a row names, and was renamed, is noticed."""
    table = (ROOT / "docs" / f"{page}.md").read_text("utf-8").partition(title)[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    found = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 11
    assert named <= found
