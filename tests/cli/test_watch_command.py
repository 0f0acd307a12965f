import json
import shutil
import signal
import subprocess

import numpy as np
import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.noise import UnsafeSeededSource

SHARES = [0.4, 0.3, 0.2, 0.1]
CROWDS = {25: [0.1, 0.1, 0.1, 0.7], 34: [0.02, 0.02, 0.94, 0.02]}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder with a store of 30 hours; in the 26th most visitors see the page "offer"."""
    folder = tmp_path_factory.mktemp("released")
    write(folder / "pages.db", range(30))
    return folder


@pytest.fixture
def store(cli, released):
    """That store, as the command finds it."""
    shutil.copytree(released, cli.folder, dirs_exist_ok=True)
    return "pages.db"


def write(path, hours):
    """Release some hours of a stream."""
    rng = np.random.default_rng(1)
    pages = ["home", "search", "help", "offer"]
    with dpi.Stream(
        domain=dpi.Categories(pages, other=None), epsilon=1, slot="1h", origin="2026-01-01", start="2026-01-01",
        budget=dpi.Ledger(per_slot=1), store=path, unsafe_source=UnsafeSeededSource(3),
    ) as stream:  # fmt: skip
        for hour in hours:
            values = rng.choice(pages, 2000, p=CROWDS.get(hour, SHARES))
            stream.release([f"secret-user-{hour}-{i}" for i in range(2000)], values)


def test_a_crowd_is_an_alert(cli, store):
    """The alert names slot, value and severity; the exit code is 1, in words as in JSON."""
    found = cli.json("query", "--alerts", store, code=1)
    assert found["slots"] == 30
    crowd = [alert for alert in found["alerts"] if alert["slot"] == 25]
    assert crowd[0]["value"] == "offer"
    assert crowd[0]["start"] == "2026-01-02T01:00:00+00:00"
    assert crowd[0]["share"] > 0.6 > 0.2 > crowd[0]["before"]
    said = cli("query", "--alerts", store, code=1)
    assert "offer" in said
    assert "severity" in said


def test_a_quiet_period_has_exit_code_0(cli, store):
    """`--from` leaves out earlier alerts, though their slots are learnt; a share that nothing reaches has none."""
    later = cli.json("query", "--alerts", store, "--from", "2026-01-02T04:00", "--config", "share=0.001")
    assert later["alerts"] == []
    assert "No alert in 16 slots." in cli("query", "--alerts", store, "--config", "share=0.0001")
    assert "the first 60 are only learned from" in cli("query", "--alerts", store, "--config", "window=30")


def test_the_isolation_forest_sees_it_too(cli, store):
    """The other detector raises the same alert."""
    pytest.importorskip("sklearn", reason="the isolation forest needs scikit-learn (the extra apps)")
    found = cli.json("query", "--alerts", store, "--config", "detector=forest", code=1)
    assert any(alert["slot"] == 25 and alert["value"] == "offer" for alert in found["alerts"])


def test_following_prints_alerts_as_slots_are_released(cli):
    """What is released later is seen by the same process, and Ctrl-C ends it with code 130."""
    write("pages.db", range(28))
    process = subprocess.Popen(
        [*PROGRAM, "query", "--alerts", "pages.db", "--follow", "--config", "poll=0.05", "--json", "--config",
        "share=0.02"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        slots = (json.loads(line)["slot"] for line in iter(process.stdout.readline, ""))
        assert 25 in slots  # it is at work
        write("pages.db", range(28, 36))
        assert 34 in slots
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "detector=magic"], "must be one of hbos, forest"),
        (["--config", "window=0"], "`window` must be a whole number of slots above 0"),
        (["--config", "share=2"], "`share` must be above 0 and at most 1"),
        (["--config", "level=1"], "`level` must be at least 0 and below 1"),
        (["--config", "poll=0"], "`poll` must be above 0"),
    ],
)
def test_wrong_options(cli, store, words, said):
    """Each is refused with what is expected."""
    assert said in cli("query", "--alerts", store, *words, code=2)
