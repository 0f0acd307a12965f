"""The core does without pyarrow; what needs it says how to get it, whatever is in a file."""

from __future__ import annotations

import re
import subprocess
import sys

import polars as pl
import pytest

import dpi
from dpi.cli._table_files import write_delta
from dpi.cli.commands.serve import serve
from dpi.errors import OptionError

HOW = re.escape("pip install 'pyarrow>=17'")


@pytest.fixture
def without(monkeypatch):
    """No pyarrow is installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.parametrize("content", ["events", "others", "nothing"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_file_of_events_is_refused_before_it_is_looked_at(without, tmp_path, content, suffix):
    """One sentence for all files: neither a row nor damage decides what is said."""
    path = tmp_path / f"visits.{suffix}"
    if content == "nothing":
        path.write_bytes(b"")
    else:
        frame = pl.DataFrame({"user": [content], "time": ["2026-01-01"], "value": ["DE"]})
        (frame.write_parquet if suffix == "parquet" else frame.write_ipc)(path)
    with pytest.raises(OptionError, match=rf"^events in Parquet and Arrow files need pyarrow: {HOW}\.$"):
        dpi.read(str(path), user="user", time="time", value="value")


def test_tables_of_pyarrow_and_pandas_say_what_they_need(without):
    """A frame of polars needs neither."""
    store = dpi.MemoryStore()
    options = {"domain": dpi.Categories(["DE"]), "epsilon": 1, "slot": "1h", "start": "2026-01-01", "store": store}
    dpi.Stream(**options).release(["ada"], ["DE"])
    found = dpi.open(store)
    assert found.to_polars().height == found.table().filter(pl.col("value") == "DE").height == 1
    with pytest.raises(OptionError, match=rf"needs pyarrow: {HOW}; or use `to_polars`"):
        found.to_arrow()
    with pytest.raises(OptionError, match="needs pandas and pyarrow: install them"):
        found.to_pandas()


def test_a_delta_table_and_a_service_say_what_they_need(without):
    """Both extras bring it."""
    with pytest.raises(OptionError, match=r"a Delta table needs deltalake and pyarrow: pip install .*'pyarrow>=17'"):
        write_delta(None, "table")
    with pytest.raises(OptionError, match=r"a service needs pyarrow: pip install .*'pyarrow>=17'"):
        serve(None)


def test_everything_else_runs(tmp_path):
    """From events in CSV to a table in Parquet, in a process that has none."""
    (tmp_path / "visits.csv").write_text("user,time,value\nada,2026-01-01T10:00,DE\nbob,2026-01-01T11:00,FR\n")
    (tmp_path / "lands.txt").write_text("DE\nFR\n")
    said = ""
    for words in (
        "run visits.csv --domain lands.txt --slot 1d --from 2026-01-01 --to 2026-01-02 --epsilon 1 --store visits.db "
        "--out releases.parquet",
        "query visits.db top 1",
        "report visits.db",
        "export visits.db table --as parquet",
        "verify visits.db",
        "demo --days 1 --folder shop",
    ):
        program = (
            f"import sys; sys.modules['pyarrow'] = None; sys.argv[1:] = {words.split()!r}; import dpi.cli.__main__"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        said += done.stdout
    assert "The chain is whole." in said
    assert (tmp_path / "shop" / "report.html").exists()
