import json
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM, SECRETS
from dpi.cli.following import Place
from dpi.sources import Position


def line(user, moment, country="DE"):
    """One event."""
    return json.dumps({"user": f"secret-user-{user}", "time": moment.isoformat(), "value": country}) + "\n"


def start(*more):
    """Follow log.ndjson."""
    words = ["log.ndjson", "--follow", "--domain", "countries.txt", "--epsilon", "1", "--store", "live.db", *more]
    return subprocess.Popen(
        [*PROGRAM, "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def ended(process, code):
    """Wait for it; nothing private is printed."""
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    for secret in SECRETS:
        assert secret not in stdout + stderr
    return stdout, stderr


def kept():
    """How many events the store keeps for open slots."""
    try:
        with dpi.open_store("live.db", read_only=True) as store:
            return sum(number for (number,) in store.engine.rows("SELECT number FROM events"))
    except (dpi.StateError, dpi.StoreError):
        return 0


def wait_until_kept(count):
    """Until the store has so many events."""
    deadline = time.monotonic() + 60
    while kept() < count and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.3)
    assert kept() == count


def test_a_restart_neither_loses_nor_doubles_a_line(cli):
    """Lines are kept once each, over SIGTERM, SIGKILL, half a line, and a file that is replaced."""
    Path("countries.txt").write_text("DE\nFR\n")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    clock = ["--slot", "1d", "--from", today.date().isoformat(), "--lateness", "1d"]
    log = Path("log.ndjson")
    log.write_text("".join(line(user, today) for user in range(3)) + line(3, today)[:20])
    process = start(*clock)
    wait_until_kept(3)
    process.terminate()
    _, stderr = ended(process, 143)
    assert "goes on where it stopped" in stderr
    with log.open("a") as file:
        file.write(line(3, today)[20:] + "".join(line(user, today) for user in range(4, 6)))
    process = start(*clock)
    wait_until_kept(6)
    process.kill()
    ended(process, -9)
    process = start(*clock)
    time.sleep(1.5)
    Path("next.ndjson").write_text(line(6, today) + line(7, today))
    Path("next.ndjson").replace(log)
    wait_until_kept(8)
    process.terminate()
    ended(process, 143)


def test_the_clock_closes_slots(cli):
    """Every slot up to `--to` is released by the system's clock, empty ones too, and the run ends by itself."""
    Path("countries.txt").write_text("DE\nFR\n")
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2)
    log = Path("log.ndjson")
    log.write_text(line(0, begin + timedelta(seconds=3600)))  # from the future: dropped
    end = begin + timedelta(seconds=8)
    process = start(
        "--slot", "1s", "--from", begin.isoformat(), "--to", end.isoformat(), "--out", "live.ndjson", "--json"
    )
    for user in range(4):
        time.sleep(0.5)
        with log.open("a") as file:
            file.write(line(user, datetime.now(UTC)))
    stdout, _ = ended(process, 0)
    assert json.loads(stdout)["released"] == 8
    slots = [json.loads(text)["slot"] for text in Path("live.ndjson").read_text().splitlines()]
    assert slots == list(range(slots[0], slots[0] + 8))
    assert kept() == 0
    cli("verify", "live.db", "--curator")


def test_standard_input_is_followed_to_its_end(cli):
    """Events of a pipe are kept; its end closes no slot, for it is data."""
    Path("countries.txt").write_text("DE\nFR\n")
    today = datetime.now(UTC).date().isoformat()
    words = ["-", "--format", "ndjson", "--follow", "--domain", "countries.txt", "--epsilon", "1", "--slot", "1d"]
    done = subprocess.run(
        [*PROGRAM, "run", *words, "--from", today, "--store", "live.db"],
        input=line(0, datetime.now(UTC)), capture_output=True, text=True, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    assert "0 slots released" in done.stdout
    assert kept() == 1


def test_a_file_that_was_cut_has_sequences_of_its_own(tmp_path):
    """A cut file, or a number that is used again, is another producer; going on in the same file is not."""
    path = tmp_path / "log.ndjson"
    path.write_text("")
    store = dpi.MemoryStore()
    dpi.Stream(domain=dpi.Categories(["DE"]), epsilon=1, store=store)
    nothing = dpi.store.base.OpenEvents.none()
    place = Place(store, "", str(path))
    assert place.start == ()
    seen = []
    for identity, offset in ((place.identity, 10), (place.identity, 30), (place.identity, 20), ("0:0", 5)):
        seen.append(place.producer_of(Position(str(path), identity, offset)))
        assert store.append("", nothing, seen[-1], offset)
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3
    assert Place(store, "", str(path)).start == (Position(str(path), place_identity(path), 20),)


def place_identity(path):
    """Device and number."""
    state = path.stat()
    return f"{state.st_dev}:{state.st_ino}"


@pytest.mark.parametrize("files", [["a.csv", "b.csv"], ["a.csv.gz"], ["a.parquet"]])
def test_only_one_growing_file_is_followed(cli, visits, files):
    """Several files, or files that cannot grow, are refused."""
    import gzip

    import polars as pl

    text = Path("visits.csv").read_bytes()
    for name in ("a.csv", "b.csv"):
        Path(name).write_bytes(text)
    Path("a.csv.gz").write_bytes(gzip.compress(text))
    pl.DataFrame({"user": ["u"], "at": ["2026-01-01"], "country": ["DE"]}).write_parquet("a.parquet")
    cli("run", *files, *visits[1:], "--follow", "--from", "2026-01-01", "--store", "live.db", code=2)
