"""docs/discovery.md: its commands run as written, and its numbers of users are those of the mechanism."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import dpi
from cli_files import ENVIRONMENT
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.mechanism.sparse import SparseHistogram

PAGE = (Path(__file__).parents[2] / "docs" / "discovery.md").read_text("utf-8")


def test_the_page_runs_as_written(tmp_path, warm):
    """The commands in their order on a small file of events, and then the example in Python."""
    pages = ["/home", "/shop", "/help", "/home"]
    rows = [f"user {n},2026-01-{5 + n % 7:02d}T10:00,{pages[n % 4]}" for n in range(2000)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,time,page", *rows]) + "\n")
    script = "".join(re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)).replace("$ dpi ", "dpi ")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    read = 'import polars\nevents = polars.read_csv("visits.csv")\n'
    (tmp_path / "example.py").write_text(read + example + "print(pages.values)\n")
    head = f'set -eu\ndpi() {{ {" ".join(warm)} "$@"; }}\n'
    done = subprocess.run(
        ["/bin/sh", "-c", f"{head}{script}\n{sys.executable} example.py"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "7 slots released" in done.stdout
    assert "The chain is whole." in done.stdout
    assert done.stdout.splitlines()[-1] == "['/help', '/home', '/shop']"


def test_the_table_of_users_is_that_of_the_mechanism():
    """How many users a value needs, by its length and ε."""
    rows = re.findall(r"^\| (\d+) bytes[^|]*\| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 4
    for length, cells in rows:
        found = [int(re.sub(r"\D", "", cell)) for cell in cells.split("|")]
        amounts = [Epsilon.at_most(epsilon) for epsilon in ("0.1", "0.2", "0.5", "1")]
        needed = [SparseHistogram().thresholds(dpi.Texts(32), amount)[int(length)] / GRAINS for amount in amounts]
        assert found == [round(users) for users in needed]
