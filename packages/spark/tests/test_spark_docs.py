"""What docs/engine.md says of Spark runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpi

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8").partition("\n## Spark\n")[2].partition("\n## ")[0]


def test_the_examples_run_as_written(running, tmp_path, monkeypatch, capsys):
    """The blocks of Python one after the other, in a folder of their own: two slots played, two followed."""
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("redis", reason="the page's example of Redis needs `pip install -e '.[redis]'`")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    exec(compile("\n".join(blocks), "docs/engine.md", "exec"), names)  # noqa: S102 - what the page says
    assert len(capsys.readouterr().out.splitlines()) == 4
    for name in ("stream", "live"):
        names[name].close()
    with dpi.open_store("visits.db") as store:
        assert len(list(store.releases(""))) == 2


@pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="starts a Spark of its own: `DPI_SLOW=1`")
def test_the_commands_run_as_written(tmp_path):
    """Events are made, submitted, and the store verifies; submitted again, nothing is left to do."""
    [block] = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    script = block.replace("$ ", "").replace("examples/", f"{ROOT}/examples/")
    again = next(line for line in script.splitlines() if line.startswith("spark-submit"))
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src")]),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
    }
    head = f'set -eu\ndpi() {{ {sys.executable} -m dpi.cli "$@"; }}\n'
    for part, hours in ((script, 24), (again, 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", head + part], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count(" visitors") == hours
