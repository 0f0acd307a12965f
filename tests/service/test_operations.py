"""What an operator looks at: `/v1/operations`, and `dpi top` on a service and on a store."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from typer.testing import CliRunner

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.cli.app import app
from dpi.cli.commands.top import HEADINGS, picture
from dpi.errors import OptionError, StoreError
from dpi.verification import verify
from service.conftest import free_port
from serving import FIRST, MOMENT, SECOND, running, settings


def test_what_is_told(tmp_path):
    """Batches by kept and refused, accounts and those that cannot pay, the next closing, what is late, the budget."""
    with running(tmp_path, settings(per_slot="0.4"), settings(name="often", slot="5s")) as found:
        found.clock.now += SECOND
        assert found.send([("ada", 0.5, "home"), ("bob", 0.5, "home"), ("ada", 0.6, "search")], 0).status_code == 200
        assert found.send([("ada", 0.5, "home")], 7).status_code == 409
        for second in (11, 21, 31):
            found.set(second)
        told = found.client("curator").get("/v1/operations").json()
        assert (told["at"], told["failing"]) == ("2026-01-01T00:00:31+00:00", None)
        assert [each["stream"] for each in told["streams"]] == ["often", "visits"]
        visits = told["streams"][1]
        assert (visits["releases"], visits["newest"], visits["next"]) == (3, FIRST + 2, FIRST + 3)
        assert (visits["closes"], visits["lag"]) == ("2026-01-01T00:00:40+00:00", 0.0)
        assert visits["arrivals"]["kept"] == 1
        assert visits["arrivals"]["refused"] == 1
        assert visits["accounts"] == {"number": 2, "dry": 0}
        assert visits["epsilon"] == 1.0
        assert any("per user" in sentence for sentence in visits["budget"])
        found.service.closing.streams["visits"].close_before = lambda *_: iter(())
        found.clock.now = MOMENT + 47 * SECOND
        late = found.client("curator").get("/v1/operations").json()["streams"][1]
        assert late["lag"] == 7.0


def test_accounts_that_cannot_pay(tmp_path, monkeypatch):
    """Two who have paid 0.4 twice have 0.2 left: both are dry; a newcomer who has paid once is not."""
    monkeypatch.setattr("dpi.service.operations.FRESH", 0.0)
    with running(tmp_path, settings(per_slot="0.4")) as found:
        for number, users in enumerate((["ada", "bob"], ["ada", "bob", "eve"])):
            found.clock.now = MOMENT + (10 * number + 2) * SECOND
            assert found.send([(user, 10 * number + 1, "home") for user in users], number).status_code == 200
            found.set(10 * number + 11)
        with found.connect("curator") as connection:
            told = connection.operations()["streams"][0]
        assert told["accounts"] == {"number": 3, "dry": 2}
    with dpi.open_store(tmp_path / "visits.db", read_only=True, curator=True) as store:
        from dpi.service.operations import store_operations

        (alone,) = store_operations(store, ("visits",), MOMENT + 21 * SECOND, accounts=True).streams
        assert (alone.accounts.number, alone.accounts.dry) == (3, 2)
        assert alone.arrivals is None


def test_it_says_that_slots_cannot_be_closed(tmp_path, monkeypatch):
    """By the kind of error alone."""
    with running(tmp_path) as found:
        stream = found.service.closing.streams["visits"]
        with monkeypatch.context() as patched:
            patched.setattr(type(stream), "close_before", lambda *_: (_ for _ in ()).throw(StoreError("poison")))
            found.clock.now = MOMENT + 11 * SECOND
            deadline = time.monotonic() + 60
            while not found.service.closing.failing and time.monotonic() < deadline:
                time.sleep(0.01)
            answer = found.client("curator").get("/v1/operations")
            assert answer.json()["failing"] == "StoreError"
            assert "poison" not in answer.text
        found.closed()


def test_only_a_curator(tmp_path):
    """No other role sees it, by the route or by the command; a wrong token and no token are told in one sentence."""
    run = CliRunner()
    with running(tmp_path) as found:
        for role in ("admin", "analyst", "auditor"):
            with found.connect(role) as connection, pytest.raises(OptionError, match="another role"):
                connection.operations()
        file = tmp_path / "token"
        for content, mode, code, sentence in (
            (found.tokens["analyst"], 0o600, 2, "this token has another role."),
            ("dpi_wrong", 0o600, 2, "a valid token is needed."),
            (found.tokens["curator"], 0o644, 3, "may be read by others"),
            ("ünlesbar", 0o600, 2, "holds no token"),
        ):
            file.write_text(content)
            file.chmod(mode)
            done = run.invoke(app, ["serve", "top", found.url, "--token-file", str(file), "--json"])
            assert (done.exit_code, done.stderr.count("\n")) == (code, 1), done.stderr
            assert sentence in done.stderr
            assert found.tokens["curator"] not in done.output
        missing = run.invoke(app, ["serve", "top", found.url, "--token-file", str(tmp_path / "none")])
        assert "cannot be read: No such file" in missing.stderr
        nothing = run.invoke(app, ["serve", "top", found.url], env={"DPI_TOKEN": None})
        assert nothing.exit_code == 2
        assert "give `--token-file`, or set DPI_TOKEN" in nothing.stderr
        good = run.invoke(app, ["serve", "top", found.url, "--json"], env={"DPI_TOKEN": found.tokens["curator"]})
        assert json.loads(good.stdout)["streams"][0]["stream"] == "visits"


def test_nobody_is_there(monkeypatch):
    """A service that cannot be reached, a store that is not there, a pause that is none."""
    run = CliRunner()
    monkeypatch.setattr("dpi.cli.commands.top.PATIENCE", 0.2)
    away = run.invoke(app, ["serve", "top", f"http://127.0.0.1:{free_port()}"], env={"DPI_TOKEN": "dpi_x_y"})
    assert away.exit_code == 3
    assert "cannot be reached" in away.stderr
    assert "there is no store at none.db" in run.invoke(app, ["serve", "top", "none.db"]).stderr
    assert "`--every` must be 0 or above" in run.invoke(app, ["serve", "top", "none.db", "--every", "-1"]).stderr


@pytest.fixture
def store(tmp_path):
    """A store with two streams, of which one has no clock."""
    path = tmp_path / "s.db"
    with dpi.open_store(path) as made:
        words, ledger = dpi.Categories(["a", "b"]), dpi.Ledger(per_slot="0.6")
        one = dpi.Stream(
            domain=words, epsilon=1, slot="1h", start="2026-01-01", budget=ledger, store=made, name="hours"
        )
        two = dpi.Stream(domain=words, epsilon=1, budget=ledger, store=made, name="counted")
        one.release(["ada", "bob"], ["a", "b"])
        two.release(["ada"], ["a"])
        dpi.Stream(domain=words, epsilon=1, budget=ledger, store=made, name="empty")
    return path


def test_a_store_alone(store):
    """What is known there: no arrivals; accounts with the key alone; a stream without a clock has no lag."""
    run = CliRunner()
    told = json.loads(run.invoke(app, ["serve", "top", str(store), "--json"]).stdout)
    by_name = {each["stream"]: each for each in told["streams"]}
    assert by_name["hours"]["next"] is not None
    assert by_name["hours"]["lag"] > 0
    assert by_name["counted"]["lag"] is None
    assert by_name["empty"]["newest"] is None
    assert all(each["arrivals"] is each["accounts"] is None for each in told["streams"])
    held = json.loads(run.invoke(app, ["serve", "top", str(store), "--key-file", f"{store}.key", "--json"]).stdout)
    assert next(each for each in held["streams"] if each["stream"] == "hours")["accounts"] == {"number": 2, "dry": 2}
    said = run.invoke(app, ["serve", "top", str(store), "--every", "0"], env={"COLUMNS": "160"}).stdout
    assert "hours" in said
    assert "due" in said
    assert "ε = 1 per user" in said


def test_a_picture_of_nothing_and_of_trouble():
    """No stream yet; and a service that cannot close slots says so first."""
    from rich.console import Console

    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(picture({"at": "2026-01-01T00:00:00+00:00", "failing": "StoreError", "streams": []}))
    console.file.close()
    assert "Slots cannot be closed at the moment (StoreError)." in console.export_text()


def a_stream(name="visits", **changes):
    """How a stream does, with numbers as large as they come."""
    return {
        "stream": name, "releases": 123_456, "newest": 176_722_560, "measured": "2025-12-31T21:00:00+00:00",
        "next": 176_722_561, "closes": "2026-01-01T00:10:00+00:00", "lag": 93_000.0, "late": 120, "quiet": 12,
        "silent": True, "arrivals": {"kept": 1_234_567, "refused": 12, "bytes": 10**12},
        "accounts": {"number": 12_345_678, "dry": 6_000_000}, "epsilon": 1.0, "spent_at_most": 0.98765,
        "budget": ["ε = 1 per user, for ever.", "The next slots cost at most " + "0.0123, " * 20],
    } | changes  # fmt: skip


@pytest.mark.parametrize("width", [132, 100, 80, 60, 40, 24])
def test_no_line_is_wider_than_the_terminal(width):
    """At 80 columns and below everything is there, and no number is cut or folded."""
    from rich.console import Console

    streams = [a_stream(), a_stream("clicks", measured=None, quiet=None, silent=False, accounts=None, arrivals=None)]
    streams.append(a_stream("a-name-of-a-stream-that-is-longer-than-others", silent=False))
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        console.print(picture({"at": "2026-01-01T00:00:00+00:00", "failing": None, "streams": streams}))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for word in ("3.0 h ago", "in 10.0 min", "1.1 d", "120", "12", "176722560", "176722561", "123456", "1234567",
                 "12345678", "49%", "0.988 of 1"):  # fmt: skip
        assert all(part in words for part in word.split()), word
    for heading in HEADINGS:
        assert heading in words
    assert "visits is silent: no batch has come for 12 slots." in " ".join(" ".join(lines).split())
    assert words.index("measured") < words.index("newest") < words.index("spent")


def test_the_age_of_the_measurement_is_told(store, tmp_path):
    """Of a stream whose newest slot carried its picture on, `measured` is the end of the slot that it is from."""
    with dpi.open_store(tmp_path / "m.db") as made:
        stream = dpi.Stream(domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1h", start="2026-01-01", store=made)
        for _ in range(12):
            release = stream.release([str(each) for each in range(500)], ["a", "b"] * 250)
    ago = round(release.measured_ago)
    assert ago > 0
    told = json.loads(CliRunner().invoke(app, ["serve", "top", str(tmp_path / "m.db"), "--json"]).stdout)["streams"][0]
    assert told["measured"] == f"2026-01-01T{12 - ago:02}:00:00+00:00"
    assert (told["quiet"], told["silent"]) == (None, False)
    said = (
        CliRunner().invoke(app, ["serve", "top", str(tmp_path / "m.db"), "--every", "0"], env={"COLUMNS": "160"}).stdout
    )
    assert re.search(r"stream +measured ", said)
    assert re.search(r"d ago", said)


def test_it_lives_in_a_terminal(store):
    """On a terminal it is drawn again and again, until Ctrl-C, and leaves the screen as it was."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "serve", "top", str(store), "--every", "0.05"], stdin=slave, stdout=slave, stderr=slave,
        env=ENVIRONMENT | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 60
    while shown.count(b"hours") < 3 and time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([master], [], [], 0.05)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
    assert process.wait(10) == 130
    os.close(master)
    assert shown.count(b"hours") >= 3
    assert b"\x1b[?1049l" in shown


def test_a_service_thins_its_store(tmp_path):
    """After a slot whose number is a multiple of a hundred, measurements of all but the last slots are gone."""
    with running(tmp_path, keep_measurements=5) as found:
        found.set(41 * 10 + 1)
        newest = found.service.publication.upto("visits")
        with found.service.reading.store() as store:
            kept = [paid.slot for paid in store.measurements("visits")]
            assert store.thinned() == {"visits": FIRST + 40 - 4}
    assert FIRST % 100 == 60
    assert kept == [*range(FIRST + 36, FIRST + 41)]
    assert newest is None or newest <= FIRST + 40
    with dpi.open_store(tmp_path / "visits.db", read_only=True) as store:
        assert verify(store).intact
    with (
        pytest.raises(OptionError, match="`keep_measurements` must be at least 1 slot"),
        running(tmp_path, keep_measurements=0),
    ):
        pass
