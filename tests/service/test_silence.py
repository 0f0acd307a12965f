"""Silence is told to those who may know it: slots without a batch are a state and an alert, and of no public thing."""

import pytest

from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.service._receipts import SILENT, Silence
from dpi.service.alerts import _alert_threads
from dpi.service.alerts._private import Conditions
from dpi.service.config import AlertConfig, WebhookAddress, read_alerts
from service.receivers import until, webhook
from serving import FIRST, MOMENT, SECOND, SetClock, running, settings


def test_whole_slots_without_a_batch_are_counted():
    """The slot of the last batch is not one of them; a stream that has not begun is not silent; a change goes on."""
    clock, slots = SetClock(), Slots("10s")
    silence = Silence(clock)
    silence.begin("visits", slots, FIRST)
    silence.begin("later", slots, FIRST + 5)
    for seconds, quiet, later in ((9, 0, 0), (19, 0, 0), (20, 1, 0), (39, 2, 0), (40, 3, 0), (59, 4, 0), (71, 6, 2)):
        clock.now = MOMENT + seconds * SECOND
        assert (silence.quiet("visits"), silence.quiet("later")) == (quiet, later)
        assert silence.silent("visits") == (quiet >= SILENT)
    silence.begin("visits", slots, FIRST)
    assert silence.quiet("visits") == 6
    silence.note("visits")
    assert silence.quiet("visits") == 0
    clock.now += 20 * SECOND
    assert silence.quiet("visits") == 1


def quiet(found):
    """What a curator sees of silence: in operations, and in metrics."""
    (stream,) = found.client("curator").get("/v1/operations").json()["streams"]
    said = found.client("admin").get("/v1/metrics").text
    assert f'dpi_quiet_slots{{stream="visits"}} {stream["quiet"]:.1f}\n' in said
    assert f'dpi_silent{{stream="visits"}} {stream["silent"]:.1f}\n' in said
    return stream["quiet"], stream["silent"]


def test_a_service_says_that_no_batch_comes(tmp_path):
    """A state from the third whole slot on; a batch ends it, also one without an event."""
    with running(tmp_path) as found:
        assert quiet(found) == (0, False)
        found.set(39)
        assert quiet(found) == (2, False)
        found.set(41)
        assert quiet(found) == (3, True)
        assert found.send([], 0).status_code == 200
        assert quiet(found) == (0, False)
        found.set(61)
        assert found.send([("ada", 60.5, "home")], 1).status_code == 200
        found.set(75)
        assert quiet(found) == (0, False)


def test_silence_is_an_alert_for_curators(tmp_path, monkeypatch):
    """Told once while it lasts, signed as others are, and again when it comes back."""
    monkeypatch.setattr(_alert_threads, "EVERY", {"analysts": 0.02, "curators": 0.02})
    looks, look = [], Conditions.look
    monkeypatch.setattr(Conditions, "look", lambda self, now: looks.append(now.streams[0].silent) or look(self, now))
    secret = tmp_path / "hook.secret"
    secret.write_bytes(b"a secret of both\n")
    secret.chmod(0o600)
    with webhook() as got:
        told = AlertConfig(curators=(WebhookAddress(got.url, secret),), silence=2)
        with running(tmp_path, alerts=told) as found:
            found.set(31)
            assert until(lambda: len(got.got) == 1)
            found.set(41)
            assert found.send([("ada", 40.5, "home")], 0).status_code == 200
            assert until(lambda: not looks[-1])
            found.set(71)
            assert until(lambda: len(got.got) == 2)
    assert [(each["kind"], each["stream"], each["facts"]) for each in got.messages] == [
        ("silence", "visits", {"slots": 2})
    ] * 2
    assert got.messages[0]["sentence"] == "visits: no batch has come for 2 slots."
    assert all("dpi-signature" in headers for headers, _ in got.got)


def test_only_curators_can_tell_silence(tmp_path):
    """What analysts, auditors and anybody can ask is the same byte for byte with one user's batch and with none."""

    def said(folder, rows):
        folder.mkdir()
        with running(folder, settings(epsilon="0.000001")) as found:
            if rows:
                found.set(15)
                assert found.send(rows, 0).status_code == 200
            found.set(61)
            heard = [found.client().get(path) for path in ("/v1/health", "/v1/ready")]
            paths = ("/v1/metrics", "/v1/operations", "/v1/streams", "/v1/streams/visits")
            heard += [found.client(role).get(path) for role in ("analyst", "auditor") for path in paths]
            assert quiet(found) == ((4, True) if rows else (5, True))
            return [(answer.status_code, answer.text) for answer in heard]

    one, none = said(tmp_path / "one", [("ada", 14.0, "home")]), said(tmp_path / "none", [])
    assert one == none
    assert [status for status, _ in one] == [200, 200, 403, 403, 200, 200, 403, 403, 200, 200]
    assert not any("quiet" in text or "silent" in text for _, text in one)


def test_how_many_slots_is_stated_in_the_file(tmp_path):
    """`[alerts] silence` is a whole number of slots above 0."""
    file = tmp_path / "dpi.toml"
    for text, number in (("", SILENT), ("silence = 24\n", 24)):
        file.write_text(f"[alerts]\n{text}")
        assert read_alerts(file).silence == number
    for text in ("0", "-1", "1.5", "true", '"3"'):
        file.write_text(f"[alerts]\nsilence = {text}\n")
        with pytest.raises(OptionError, match="whole number of slots"):
            read_alerts(file)
