"""The example of the package's README is whole: it runs as it is written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_as_written(tmp_path: Path) -> None:
    """Two files, and a page with a table."""
    pytest.importorskip("markdown_it")
    text = README.read_text("utf-8").partition("\n## Add an experiment\n")[2]
    experiment, script = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "noise.py").write_text(experiment)
    (tmp_path / "play.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "play.py"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "out/index.html\n"
    text = (tmp_path / "out" / "report.md").read_text()
    assert "2 values of ε." in text
    assert "| 0.1 | 14.1" in text  # a Laplace noise of scale 1/ε
    assert len(list((tmp_path / "out" / "results" / "noise").iterdir())) == 2
