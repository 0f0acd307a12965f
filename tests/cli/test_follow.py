import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM, SECRETS, kept

GENEROUS = ["--epsilon", "1024", "--per-slot", "100"]
"""So much that a noisy count is half a user off with a probability below 10⁻²⁰."""


PIPED = ["-", "--config", "format=ndjson", "--follow", "--domain", "countries.txt", "--epsilon", "1", "--slot", "1d"]


def line(user, moment, country="DE"):
    """One event."""
    return json.dumps({"user": f"secret-user-{user}", "time": moment.isoformat(), "value": country}) + "\n"


def start(*more, epsilon=("--epsilon", "1"), source="log.ndjson", **options):
    """Follow log.ndjson."""
    words = [source, "--follow", "--domain", "countries.txt", *epsilon, "--store", "live.db", *more]
    return subprocess.Popen(
        [*PROGRAM, "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options
    )


def ended(process, code):
    """Wait for it; nothing private is printed."""
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    for secret in SECRETS:
        assert secret not in stdout + stderr
    return stdout, stderr


def totals():
    """Users that were counted in each slot."""
    with dpi.open_store("live.db", read_only=True) as store:
        return [round(sum(memoryview(paid.values).cast("q")) / 2**24) for paid in store.measurements("")]


def newest_mark():
    """The number of the last mark in the store; -1 before the first."""
    try:
        with dpi.open_store("live.db", read_only=True) as store:
            return max((number for number, _ in store.marks("")), default=-1)
    except (dpi.StateError, dpi.StoreError):
        return -1


def wait_until(happened):
    """Until something is so."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_kept(count):
    """Until the store has so many events; it never has more."""
    wait_until(lambda: kept() >= count)
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
    before = newest_mark()
    process = start(*clock)
    wait_until(lambda: newest_mark() > before)
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
    stdout, _ = ended(process, 0)
    assert json.loads(stdout)["released"] == 8
    slots = [json.loads(text)["slot"] for text in Path("live.ndjson").read_text().splitlines()]
    assert slots == list(range(slots[0], slots[0] + 8))
    assert kept() == 0
    cli("verify", "live.db", "--curator")


class Writer(threading.Thread):
    """Writes 50 users a tenth of a second, as they happen, from `begin` to `end`."""

    def __init__(self, begin, end):
        super().__init__()
        self.begin, self.end = begin, end

    def run(self):
        """Write each tenth of a second once it is over."""
        step = timedelta(seconds=0.1)
        moment = self.begin
        while moment < self.end:
            time.sleep(max((moment - datetime.now(UTC)).total_seconds(), 0))
            with Path("log.ndjson").open("a") as file:
                file.write("".join(line(f"{moment.timestamp():.1f}-{user}", moment) for user in range(50)))
            moment += step


def test_neither_a_backlog_nor_a_stop_nor_a_flood_displaces_anyone(cli):
    """What lay there, came while the program was stopped or killed, or after one user's flood, counts as it arrived."""
    Path("countries.txt").write_text("DE\nFR\n")
    Path("log.ndjson").write_text("")
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=3)
    end = begin + timedelta(seconds=16)
    clock = ["--slot", "1s", "--lateness", "1500ms", "--from", begin.isoformat(), "--to", end.isoformat()]
    writer = Writer(begin, end)
    writer.start()
    process = start(*clock, epsilon=GENEROUS)
    wait_until(lambda: newest_mark() >= 0)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.7)  # longer than a slot and its lateness
    process.send_signal(signal.SIGCONT)
    flood = line("flood", datetime.now(UTC))
    with Path("log.ndjson").open("a") as file:
        file.write(flood * 200_000)
    before = newest_mark()
    wait_until(lambda: newest_mark() > before)
    process.kill()
    ended(process, -9)
    time.sleep(2.7)
    process = start(*clock, epsilon=GENEROUS)
    ended(process, 0)
    writer.join()
    counted = totals()
    assert sum(counted) - 1 == 16 * 500  # the flood is one user in one slot
    assert sorted(counted) == [500] * 15 + [501]


def test_an_endless_line_stops_no_release(cli):
    """A line that never ends takes memory for one line and no time from the clock."""
    Path("countries.txt").write_text("DE\nFR\n")
    begin = datetime.now(UTC).replace(microsecond=0)
    end = begin + timedelta(seconds=4)
    outlet, inlet = os.pipe()
    words = ["--config", "format=ndjson", "--slot", "1s", "--from", begin.isoformat(), "--to", end.isoformat()]
    process = start(*words, epsilon=GENEROUS, source="-", stdin=outlet)
    os.close(outlet)
    done = threading.Event()

    def write():
        os.write(inlet, line(1, datetime.now(UTC)).encode())
        while not done.is_set():
            try:
                os.write(inlet, b"endless" * 1000)
            except BrokenPipeError:
                return
            done.wait(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        ended(process, 0)
    finally:
        process.kill()
        done.set()
        writer.join()
        os.close(inlet)
    assert sum(totals()) == 1
    assert len(totals()) == 4


def test_standard_input_is_followed_to_its_end(cli, warm):
    """Events of a pipe are kept; its end closes no slot, for it is data."""
    Path("countries.txt").write_text("DE\nFR\n")
    today = datetime.now(UTC).date().isoformat()
    done = subprocess.run(
        [*warm, "run", *PIPED, "--from", today, "--store", "live.db"],
        input=line(0, datetime.now(UTC)), capture_output=True, text=True, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    assert "0 slots released" in done.stdout
    assert kept() == 1


def test_a_change_while_following_begins_with_a_slot_that_has_not_begun(cli, warm):
    """Events that were kept before it are those of their own slot's domain; a slot to come has the new one."""
    now = datetime.now(UTC)
    words = [*PIPED, "--lateness", "1d", "--from", now.date().isoformat(), "--store", "live.db"]
    for countries, more in (("DE\nIT\n", []), ("IT\n", ["--change"])):
        Path("countries.txt").write_text(countries)
        subprocess.run(
            [*warm, "run", *words, *more],
            input=line(len(more), now, "IT"), capture_output=True, text=True, env=ENVIRONMENT, check=True,
        )  # fmt: skip
    with dpi.open_store("live.db") as store:
        (_, _), (first, _) = store.options("").entries
        slot = dpi.Slots("1d").number(now)
        assert first > slot
        assert store.events("", slot).bins.tolist() == [1, 1]


@pytest.mark.parametrize("files", [["a.csv.gz"], ["a.parquet"]])
def test_only_files_that_grow_are_followed(cli, visits, files):
    """Files that cannot grow are refused."""
    import gzip

    import polars as pl

    text = Path("visits.csv").read_bytes()
    Path("a.csv").write_bytes(text)
    Path("a.csv.gz").write_bytes(gzip.compress(text))
    pl.DataFrame({"user": ["u"], "at": ["2026-01-01"], "country": ["DE"]}).write_parquet("a.parquet")
    words = [*files, *visits[1:], "--follow", "--from", "2026-01-01", "--store", "live.db"]
    cli("run", *words, code=2)


def test_several_files_are_followed_together(cli):
    """A slot closes when all inputs were read up to its closing time."""
    Path("countries.txt").write_text("DE\nFR\n")
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=3)
    for name in ("a", "b"):
        Path(f"{name}.ndjson").write_text(line(name, begin) + line("both", begin))
    words = ["--slot", "1s", "--from", begin.isoformat(), "--to", (begin + timedelta(seconds=2)).isoformat()]
    ended(start("b.ndjson", *words, epsilon=GENEROUS, source="a.ndjson"), 0)
    assert totals() == [3, 0]
