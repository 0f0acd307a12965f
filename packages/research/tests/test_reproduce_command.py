"""`dpi reproduce`, on experiments that take seconds."""

import json
import os
import signal
import subprocess
import time
from fractions import Fraction
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT, PROGRAM
from dpi_audit import Finding
from dpi_research.experiments import NAMES, accounting, experiment

pytest.importorskip("matplotlib")
pytest.importorskip("markdown_it")

SHORT, LONG = "expressiveness", "accounting"
"""Two seconds in many cases; and some more, most of them in the last case, so that nobody stops it too late."""
OPTIONS = ("--quick", "--processes", "1", "--folder", "out")


def kept(name):
    """Results in the folder, with their times."""
    return {file.name: file.stat().st_mtime_ns for file in Path("out/results", name).glob("*.json")}


def test_a_program_can_read_the_list(cli):
    """All experiments as JSON."""
    cli("reproduce", "--json")
    assert [each["name"] for each in json.loads(cli.stdout)["experiments"]] == list(NAMES)


def test_without_a_name_all_are_listed(cli):
    """In the order of the report, each with its title; nothing is computed."""
    cli("reproduce")
    lines = cli.stdout.splitlines()
    listed = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in NAMES]
    assert listed == list(NAMES)
    assert experiment("accounting").title in cli.stdout
    assert not (cli.folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["acounting"], "there is no experiment 'acounting': did you mean `accounting`?"),
        (["accounting", "--processes", "0"], "--processes"),
    ],
)
def test_wrong_words_are_refused(cli, words, text):
    """Exit code 2, and what was meant."""
    assert text in " ".join(cli("reproduce", *words, code=2).split())


def test_an_experiment_writes_a_page(cli):
    """Page, text, figures and data; the second time, as JSON, nothing is computed again."""
    cli("reproduce", SHORT, *OPTIONS)
    assert "Look at out/index.html." in cli.stdout
    out = cli.folder / "out"
    names = {file.name for file in out.iterdir()}
    assert {"index.html", "report.md", f"{SHORT}.csv", f"{SHORT}-nearest.svg", "results"} <= names
    text = (out / "report.md").read_text()
    assert "quick form" in text
    assert experiment(SHORT).published in text
    before = kept(SHORT)
    assert len(before) == len(experiment(SHORT).cases(True))
    cli("reproduce", SHORT, *OPTIONS, "--json")
    assert kept(SHORT) == before
    found = json.loads(cli.stdout)
    assert found["page"] == "out/index.html"
    [computed] = found["experiments"]
    assert computed["cases"] == len(before)
    assert computed["missing"] == []


def test_what_is_missing_is_said(cli, monkeypatch):
    """Data sets that are not under DPI_DATA are left out; the rest is there."""
    monkeypatch.setenv("DPI_DATA", str(cli.folder))
    cli("reproduce", "datasets", "--processes", "1", "--folder", "out")
    assert "left out: covid19, honeypot" in cli.stderr
    text = (cli.folder / "out" / "report.md").read_text()
    assert "Not computed: the data set `retail`" in text
    assert "zipf with drift" in text


@pytest.mark.parametrize("processes", [1, 2] if os.environ.get("DPI_SLOW") else [1])
def test_a_stopped_run_goes_on(cli, monkeypatch, processes):
    """Ctrl-C, which a terminal sends to all processes, keeps what was finished; the same command computes the rest."""
    words = [LONG, *OPTIONS, "--processes", str(processes)]
    process = subprocess.Popen(
        [*PROGRAM, "reproduce", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not kept(LONG) and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stdout == ""
    assert "what is computed is kept in out" in stderr
    if processes == 1:  # a worker that is stopped while it starts says so itself
        assert "Traceback" not in stderr
    assert not Path("out/index.html").exists()
    before = kept(LONG)
    assert 0 < len(before) < len(experiment(LONG).cases(True))
    if not os.environ.get("DPI_SLOW"):  # the case that takes long, but for its searches, which have tests of their own
        monkeypatch.setattr(accounting, "loss_on", lambda *_: Finding(Fraction(1), Fraction(1), "not looked for"))
    cli("reproduce", LONG, *OPTIONS)
    after = kept(LONG)
    assert len(after) == len(experiment(LONG).cases(True))
    assert before.items() <= after.items()
