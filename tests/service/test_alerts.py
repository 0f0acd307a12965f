"""Alerts: what analysts are told is public, what curators are told is not, and both arrive at least once."""

from __future__ import annotations

import hmac
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpi.apps import Alert
from dpi.cli.app import app
from dpi.errors import OptionError, StateError, StoreError
from dpi.service.alerts import _alert_threads
from dpi.service.alerts._delivery import MOST, Message, Outbox, Webhook, make_id, sign
from dpi.service.alerts._private import Conditions, PrivateAlert
from dpi.service.alerts._public import PublicAlert
from dpi.service.config import AlertConfig, WebhookAddress, read_alerts
from dpi.service.operations import Holders, Operations, StreamOperations
from service.conftest import free_port
from service.receivers import until, webhook
from serving import FIRST, MOMENT, SECOND, running, settings

SECRET = b"a secret of both"
WATCH = {"window": 2, "share": 1.0, "level": 0.0}
"""Every value of every slot is an alert, once enough is learnt."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Look often."""
    monkeypatch.setattr(_alert_threads, "EVERY", {"analysts": 0.02, "curators": 0.02})


@pytest.fixture
def hook(tmp_path):
    """The address of a webhook."""
    file = tmp_path / "hook.secret"
    file.write_bytes(SECRET + b"\n")
    file.chmod(0o600)
    return lambda url: WebhookAddress(url, file)


def a_message(number: int = 0) -> Message:
    """A message."""
    return Message(make_id(number), "lag", "visits", number, "a sentence", {"seconds": 1.5})


# Who is told what.


def test_audiences_take_their_own_kind():
    """Neither an analyst's nor a curator's hook takes an alert of the other kind, nor anything that looks like one."""
    put = []
    box = type("Box", (), {"put": lambda self, message: put.append(message)})()
    found = Alert(7, None, "home", 0.5, 0.1, 0.01, 3.0, 0.001, "extreme")
    public, secret = PublicAlert.of("visits", found), PrivateAlert.of("lag", "visits", 7, "late")
    analysts = _alert_threads.AlertThread("analysts", PublicAlert, list, [box])
    curators = _alert_threads.AlertThread("curators", PrivateAlert, list, [box])
    analysts.tell(public)
    curators.tell(secret)
    assert [message.kind for message in put] == ["anomaly", "lag"]
    for audience, alert in (
        (analysts, secret), (curators, public), (analysts, a_message()),
        (analysts, type("Sub", (PublicAlert,), {}).of("visits", found)),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="told"):
            audience.tell(alert)
    assert len(put) == 2


def test_anomalies_go_to_analysts_signed_and_once(tmp_path, hook):
    """Each alert of each release that is seen after the service began, and none again after a restart."""
    with webhook() as got:
        told = AlertConfig(analysts=(hook(got.url),), watch=WATCH)
        with running(tmp_path, alerts=told) as found:
            found.set(61)
            assert until(lambda: len(got.got) == 6)  # of three values in the two slots that have a window before them
            time.sleep(0.1)
        first = len(got.got)
        with running(tmp_path, now=MOMENT + 61 * SECOND, alerts=told) as found:
            time.sleep(0.2)
            assert len(got.got) == first
            found.set(71)
            assert until(lambda: len(got.got) == first + 3)
    slots = {message["slot"] for message in got.messages}
    assert min(slots) > FIRST
    assert max(slots) == FIRST + 6
    assert len({message["id"] for message in got.messages}) == len(got.got) == 3 * len(slots)
    for headers, body in got.got:
        assert hmac.compare_digest(headers["dpi-signature"], sign(SECRET, headers["dpi-timestamp"], body))
        message = json.loads(body)
        assert headers["dpi-alert"] == message["id"]
        assert message["kind"] == "anomaly"
        assert set(message["facts"]) == {"start", "value", "share", "before", "error", "score", "rarity", "severity"}


def test_only_releases_that_are_seen_are_alerts(tmp_path, hook):
    """A slot that is closed and whose tick is to come is not told."""
    with webhook() as got:
        told = AlertConfig(analysts=(hook(got.url),), watch=WATCH)
        with running(tmp_path, alerts=told, delay="5s") as found:
            for second in range(11, 62, 10):
                found.set(second)
            assert found.service.publication.upto("visits") == FIRST + 4
            assert until(lambda: got.got)
            time.sleep(0.2)
            assert max(message["slot"] for message in got.messages) == FIRST + 4


def test_analysts_never_hear_what_is_private(tmp_path, hook, monkeypatch):
    """Accounts run dry, a slot is late, no batch comes, none can be closed: curators hear of each, analysts of none."""
    with webhook() as analysts, webhook() as curators:
        told = AlertConfig(
            analysts=(hook(analysts.url),), curators=(hook(curators.url),), watch=WATCH, lag=3.0, dry=0.5
        )
        with running(tmp_path, settings(per_slot="0.6"), alerts=told) as found:
            monkeypatch.setattr("dpi.service.operations.FRESH", 0.0)
            found.clock.now += SECOND
            assert found.send([("ada", 0.5, "home"), ("bob", 0.5, "home")], 0).status_code == 200
            found.set(61)
            assert until(lambda: "dry" in {message["kind"] for message in curators.messages})
            assert until(lambda: analysts.got)
            stream = found.service.closing.streams["visits"]
            broken = monkeypatch.context()
            with broken as patched:
                patched.setattr(
                    type(stream), "close_before", lambda *_: (_ for _ in ()).throw(StoreError("the disk is full."))
                )
                found.clock.now = MOMENT + 78 * SECOND
                assert until(lambda: {"stopped", "lag"} <= {each["kind"] for each in curators.messages})
                assert until(lambda: {"dry", "silence"} <= {each["kind"] for each in curators.messages})
            found.closed()
    assert {message["kind"] for message in analysts.messages} == {"anomaly"}
    assert {message["kind"] for message in curators.messages} == {"dry", "lag", "silence", "stopped"}
    (dry,) = [message for message in curators.messages if message["kind"] == "dry"]
    assert dry["facts"] == {"accounts": 2, "dry": 2}
    for headers, body in curators.got:
        assert hmac.compare_digest(headers["dpi-signature"], sign(SECRET, headers["dpi-timestamp"], body))


def operations(lag=0.0, held=None, failing=None):
    """How a service with one stream does."""
    accounts = None if held is None else Holders(*held)
    stream = StreamOperations(
        "visits", 3, 6, None, None, 7, None, None, lag, 1.0, 0.5, (), late=0, quiet=0, accounts=accounts
    )
    return Operations("now", failing, (stream,))


def test_a_condition_is_told_when_it_begins():
    """Once while it holds, again when it comes back; of the same slot with the same id."""
    conditions = Conditions(lag=60, dry=0.5)
    assert conditions.look(operations()) == []
    (late,) = conditions.look(operations(lag=61))
    assert conditions.look(operations(lag=90)) == []
    assert [each.kind for each in conditions.look(operations(lag=95, held=(4, 2)))] == ["dry"]
    assert conditions.look(operations(held=(4, 1))) == []
    (again,) = conditions.look(operations(lag=61))
    assert again.id == late.id
    assert [each.kind for each in conditions.look(operations(lag=61, failing="StoreError"))] == ["stopped"]
    assert Conditions(60, 0.5).look(operations(held=(0, 0))) == []


def test_a_stream_that_fails_by_itself_is_told_by_its_name():
    """The kind of error alone, and not the others beside it."""
    conditions = Conditions(lag=60, dry=0.5)
    (stream,) = operations().streams
    (alert,) = conditions.look(Operations("now", None, (replace(stream, failing="ArithmeticError"), stream)))
    assert (alert.kind, alert.stream, alert.slot) == ("stopped", "visits", 7)
    assert alert.sentence == "visits: slot 7 cannot be closed (ArithmeticError)."
    assert conditions.look(operations()) == []


# At least once.


def test_a_receiver_that_is_away_delays_nothing(tmp_path, hook):
    """Slots close and are seen, the service stops at once, and what waited arrives when the receiver is there."""
    port = free_port()
    told = AlertConfig(analysts=(hook(f"http://127.0.0.1:{port}/hook"),), watch=WATCH)
    with running(tmp_path, alerts=told) as found:
        found.set(61)
        assert found.client("analyst").get("/v1/streams/visits").json()["newest"] == FIRST + 5
        waiting = tmp_path / "alerts" / "analysts"
        assert until(lambda: len(list(waiting.glob("*/*.json"))) >= 4)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    kept = {path.name for path in waiting.glob("*/*.json")}
    assert all(path.stat().st_mode & 0o077 == 0 for path in waiting.glob("*/*.json"))
    with webhook(port=port) as got, running(tmp_path, now=MOMENT + 61 * SECOND, alerts=told):
        assert until(lambda: len(got.got) == len(kept))
        assert until(lambda: not list(waiting.glob("*/*.json")))
    assert {name.partition("-")[2] for name in kept} == {f"{message['id']}.json" for message in got.messages}


def test_what_was_refused_is_sent_again(tmp_path):
    """With the same id, until the receiver has said yes; in order."""
    with webhook(500, 302, 503) as got:
        box = Outbox(tmp_path / "box", Webhook(got.url, SECRET).send, "curators", first=0.02)
        box.put(a_message(1))
        box.put(a_message(1))
        box.put(a_message(2))
        box.start()
        assert until(lambda: len(got.got) == 5)
        assert until(lambda: not list(box.folder.iterdir()))
        box.stop()
    assert [message["slot"] for message in got.messages] == [1, 1, 1, 1, 2]
    assert len({message["id"] for message in got.messages}) == 2


def test_an_outbox_is_bounded_and_survives_damage(tmp_path, logged):
    """Too many are left out, and it is logged once; a file that is none of ours is set aside."""
    got = []
    box = Outbox(tmp_path / "box", got.append, "curators")
    for number in range(MOST):
        (box.folder / f"0-{number}.json").write_bytes(b"{")
    box.put(a_message(1))
    box.put(a_message(2))
    assert len(list(box.folder.glob("*.json"))) == MOST
    assert logged.getvalue().count("alerts are left out") == 1
    box.start()
    assert until(lambda: not list(box.folder.glob("*.json")))
    box.put(a_message(3))
    assert until(lambda: [message.slot for message in got] == [3])
    box.stop()
    assert len(list(box.folder.glob("*.damaged"))) == MOST


def test_a_folder_that_cannot_be_made(tmp_path):
    """Said when the service starts."""
    (tmp_path / "box").write_text("a file")
    with pytest.raises(StoreError, match=r"the folder of alerts .* cannot be made"):
        Outbox(tmp_path / "box" / "in", print, "curators")


def test_logs_say_that_and_not_what(tmp_path, hook, logged):
    """A receiver that is away is logged, without its address, the secret or the alert."""
    port = free_port()
    told = AlertConfig(curators=(hook(f"http://127.0.0.1:{port}/path-7f3a"),), lag=1.0)
    with running(tmp_path, alerts=told, now=MOMENT) as found:
        found.service.closing.streams["visits"].close_before = lambda *_: iter(())
        found.clock.now = MOMENT + 17 * SECOND
        assert until(lambda: "an alert is not delivered" in logged.getvalue())
    text = logged.getvalue()
    assert '"role": "curators"' in text
    for secret in ("7f3a", str(port), SECRET.decode(), "should have been closed", "hook"):
        assert secret not in text


# The configuration.

GOOD = """
[alerts]
lag = "2m"
dry = 0.25
window = 5
folder = "waiting"

[[alerts.analysts]]
webhook = "https://hooks.example/dpi"
secret-file = "hook.secret"

[[alerts.curators]]
webhook = "http://127.0.0.1:9093/dpi"
secret-file = "own.secret"
"""


def written(folder: Path, text: str) -> Path:
    """A configuration."""
    (folder / "dpi.toml").write_text(text)
    return folder / "dpi.toml"


def test_the_configuration(tmp_path):
    """Read as it is meant; files lie beside it; without the table nobody is told."""
    found = read_alerts(written(tmp_path, GOOD))
    assert found == AlertConfig(
        analysts=(WebhookAddress("https://hooks.example/dpi", tmp_path / "hook.secret"),),
        curators=(WebhookAddress("http://127.0.0.1:9093/dpi", tmp_path / "own.secret"),),
        folder=tmp_path / "waiting",
        lag=120.0,
        dry=0.25,
        watch={"window": 5},
    )
    assert read_alerts(written(tmp_path, "[serve]\n")) is None


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("[[alerts.analysts]]", "[[alerts.analyst]]", "unknown key `analyst`: did you mean `analysts`?"),
        ("webhook =", "slack =", "unknown hook `slack`; known are webhook, secret-file."),
        ("webhook =", "webhok =", "unknown hook `webhok`: did you mean `webhook`?"),
        ("https://hooks", "http://hooks", "`webhook` must be an address of https"),
        ("https://hooks", "ftp://hooks", "`webhook` must be an address of https"),
        ('secret-file = "hook.secret"', "", "needs a `secret-file`"),
        ('webhook = "https://hooks.example/dpi"', "", "`webhook` must be an address of https"),
        ('webhook = "https://hooks.example/dpi"', "webhook = 5", "`webhook` must be a text in quotes."),
        ("dry = 0.25", "dry = 0", "`dry` must be a number above 0"),
        ('lag = "2m"', 'lag = "soon"', "lag"),
        ("window = 5", "share = 2", "`share` must be above 0 and at most 1."),
        ("window = 5", 'detector = "magic"', "`detector` must be one of hbos, forest."),
    ],
)
def test_what_is_wrong_with_a_configuration(tmp_path, before, after, sentence):
    """One sentence, which names the table and what was meant."""
    assert before in GOOD
    with pytest.raises(OptionError) as error:
        read_alerts(written(tmp_path, GOOD.replace(before, after)))
    assert sentence in str(error.value)
    assert str(error.value).startswith("[alerts] of ")


def test_the_command_refuses_it_in_one_line(tmp_path):
    """Before a store is made."""
    text = f'[serve]\nstore = "{tmp_path}/s.db"\ntokens = "{tmp_path}/tokens.json"\n' + GOOD.replace("webhook", "slack")
    done = CliRunner().invoke(app, ["serve", "--config", str(written(tmp_path, text))])
    assert done.exit_code == 2
    assert "unknown hook `slack`" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "s.db").exists()


def test_secrets_that_cannot_be_used(tmp_path):
    """Missing, empty, or open to others: the service does not start, and the sentence holds no secret."""
    file = tmp_path / "hook.secret"
    told = AlertConfig(curators=(WebhookAddress("https://hooks.example/dpi", file),))
    for content, mode, kind, sentence in (
        (None, 0, OptionError, "cannot be read: No such file"),
        (b"\n", 0o600, StateError, "is empty"),
        (SECRET, 0o644, StateError, "may be read by others"),
    ):
        if content is not None:
            file.write_bytes(content)
            file.chmod(mode)
        with pytest.raises(kind, match=sentence), running(tmp_path, alerts=told):
            pass
    assert SECRET.decode() not in repr(Webhook("https://x", SECRET))
