import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.cli._outfile import read_releases

LONG = ("--from", "2026-01-01", "--to", "2026-01-05")
SLOTS = 96
"""More than are released before the signal comes."""


def interrupted(visits, out, number):
    """Start a run, and end it with a signal after its first releases."""
    process = subprocess.Popen(
        [*PROGRAM, "run", *visits, *LONG, "--store", "visits.db", "--out", out],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _count():
        time.sleep(0.05)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def _count():
    try:
        with dpi.open_store("visits.db", read_only=True) as store:
            reached = store.reached("")
            return 0 if reached is None else reached[0]
    except (dpi.StateError, dpi.StoreError, OSError):
        return 0


def released():
    """What the store holds."""
    with dpi.open("visits.db") as stored:
        return list(stored)


@pytest.mark.parametrize(
    ("number", "code", "out"),
    [
        (signal.SIGINT, 130, "releases.parquet"),
        (signal.SIGTERM, 143, "releases.ndjson"),
        (signal.SIGKILL, -9, "releases.ndjson"),
    ],
)
def test_a_stopped_run_goes_on(cli, visits, number, code, out):
    """After Ctrl-C, SIGTERM or a kill the store is whole; the next run leaves every slot once, in store and file."""
    ended, stdout, stderr = interrupted(visits, out, number)
    assert ended == code
    assert stdout == ""
    before = released()
    assert 0 < len(before) < SLOTS
    if number != signal.SIGKILL:
        assert stderr == f"dpi: stopped after {len(before)} slots; the same command goes on where it stopped.\n"
        assert read_releases(Path(out), [before[0].domain]) == before
    cli("verify", "visits.db", "--curator")
    cli("run", *visits, *LONG, "--store", "visits.db", "--out", out)
    after = released()
    assert len(after) == SLOTS
    assert after[: len(before)] == before
    assert read_releases(Path(out), [before[0].domain]) == after
    cli("verify", "visits.db", "--curator")


def test_a_reader_that_leaves(cli, visits):
    """A closed pipe ends a command quietly."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-03", "--store", "visits.db")
    process = subprocess.Popen(
        [*PROGRAM, "query", "visits.db", "top", "4", "--from", "2026-01-01"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, preexec_fn=os.setpgrp,
    )  # fmt: skip
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)


PROCESS_ONE = """
import os, signal, sys
os.getpid = lambda: 1
class Loading:
    def find_spec(self, name, *_):
        if name == "dpi.cli.app":
            signal.raise_signal(signal.SIGTERM)
sys.meta_path.insert(0, Loading())
from dpi.cli import main
main()
"""


def test_process_one_is_ended_while_it_loads():
    """As in a container, where a signal without a handler has no effect: here is one from the first line on."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS_ONE, "--version"], capture_output=True, env=ENVIRONMENT, check=False
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"")
