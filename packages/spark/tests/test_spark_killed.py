"""Processes of Spark that are killed: Python workers, executors, drivers. Nothing counts twice, and nothing is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from random_streams import outcome

import dpi
import spark_child
from dpi.engine.executor import Local

HERE = Path(__file__).parent


@pytest.fixture
def expected(tmp_path, key_file):
    """Where the stream of these tests ends in one process."""
    stream = spark_child.opened(tmp_path, name="embedded")
    spark_child.close(stream, stream.replay)
    with stream.store as store:
        return outcome(store)


def home(folder: Path) -> Path:
    """Spark as it is installed, in a folder of our own: executors of a local cluster write their logs beside it."""
    import pyspark

    made = folder / "home"
    made.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (made / path.name).symlink_to(path)
    return made


def driven(master: str, folder: Path, kill: str) -> tuple[int, str]:
    """Status and all words of a process that drives the stream."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
        "SPARK_HOME": str(home(folder)),
        "PYTHONWARNINGS": "ignore",
    }
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(
        [sys.executable, HERE / "spark_child.py", master, folder, kill],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr


def test_workers_and_executors_that_are_killed_change_nothing(tmp_path, key_file, expected):
    """On a cluster of two executors: kill -9 of a Python and of an executor. No word of any process holds an id."""
    status, words = driven("local-cluster[2,1,1024]", tmp_path, "workers")
    assert status == 0, words[-3000:]
    assert (tmp_path / "once").exists()
    assert "refused: Spark gave up on a job" in words
    logs = [path.read_text(errors="replace") for path in (tmp_path / "home" / "work").rglob("std*")]
    assert len(logs) >= 4
    assert "failed with ValueError" in words + "".join(logs)  # so Spark has printed what the task said
    assert "POISON" not in words + "".join(logs)
    assert not any("POISON" in path.name for path in tmp_path.rglob("*"))
    with dpi.open_store(tmp_path / "store.db", key_file=key_file) as store:
        assert outcome(store) == expected


@pytest.mark.parametrize("kill", ["pay", "publish"] if os.environ.get("DPI_SLOW") else ["publish"])
def test_a_driver_that_is_killed_is_gone_on_with(kill, tmp_path, key_file, expected):
    """Before it pays, the slot is open and nothing was seen; after that, the release is made of what was measured."""
    status, words = driven("local[2,4]", tmp_path, kill)
    assert status == -signal.SIGKILL, words[-3000:]
    with dpi.open_store(tmp_path / "store.db", key_file=key_file, wait=60) as store:
        assert len(list(store.measurements(""))) == (1 if kill == "publish" else 0)
        assert len(list(store.releases(""))) == 0
    stream = spark_child.opened(tmp_path, dpi.engine.BucketEngine(Local()))
    assert stream.next_slot == stream.setting.start + (1 if kill == "publish" else 0)
    spark_child.close(stream, stream.replay)
    with stream.store as store:
        assert outcome(store) == expected
