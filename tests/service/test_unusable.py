"""Who sends rows that are mostly unusable is told to curators: an alert, a state, a number; and to nobody else."""

from dpi.service._unusable import BROKER, LEAST, MOST, SPAN, Unusable
from dpi.service.alerts import _alert_threads
from dpi.service.alerts._private import Conditions
from dpi.service.config import AlertConfig, WebhookAddress
from dpi.sources import Understood
from service.receivers import until, webhook
from serving import MOMENT, SECOND, SetClock, running, settings


def rows(number, usable):
    """What is understood of so many rows."""
    return Understood(number, usable, (), number, usable)


def test_most_of_one_producer_is_enough():
    """Others of the same token, and other tokens, hide nothing; a few rows, and half of them, are no alarm."""
    unusable = Unusable(SetClock())
    unusable.note("visits", "token a", "good", rows(10_000, 10_000))
    unusable.note("visits", "token b", "half", rows(2 * LEAST, LEAST))
    unusable.note("visits", "token c", "small", rows(LEAST - 1, 0))
    assert unusable.senders("visits") == ()
    unusable.note("visits", "token a", "wrong", rows(LEAST, LEAST // 2 - 1))
    unusable.note("clicks", BROKER, "0", rows(LEAST, 0))
    assert unusable.senders("visits") == ("token a",)
    assert unusable.senders("clicks") == (BROKER,)
    unusable.note("visits", "token c", "another", rows(1, 0))  # all rows of a token are looked at, too
    assert unusable.senders("visits") == ("token a", "token c")
    assert unusable.senders("nothing") == ()


def test_rows_of_long_ago_are_left_out():
    """Who sends rightly again, or nothing, is no alarm after twenty minutes, and before after enough good rows."""
    clock = SetClock()
    unusable = Unusable(clock)
    unusable.note("visits", "token a", "gate", rows(100, 0))
    clock.now += SPAN
    assert unusable.senders("visits") == ("token a",)
    unusable.note("visits", "token a", "gate", rows(100, 100))
    assert unusable.senders("visits") == ()
    clock.now += SPAN
    unusable.note("visits", "token a", "gate", rows(100, 0))
    assert unusable.senders("visits") == ()
    clock.now += 2 * SPAN
    assert unusable.senders("visits") == ()
    assert unusable._spans["visits"][1].all == {}


def test_memory_has_a_bound():
    """Of more producers than are told apart, rows count for their token."""
    unusable = Unusable(SetClock())
    for number in range(2 * MOST):
        unusable.note("visits", "token a", str(number), rows(1, 0))
    assert len(unusable._spans["visits"][1].all) <= MOST + 1
    assert unusable.senders("visits") == ("token a",)


def test_curators_are_alarmed_and_nobody_else(tmp_path, monkeypatch):
    """A webhook, operations and metrics tell the token, and neither producer nor rows; analysts see no difference."""
    monkeypatch.setattr(_alert_threads, "EVERY", {"analysts": 0.02, "curators": 0.02})
    looks, look = [], Conditions.look
    monkeypatch.setattr(Conditions, "look", lambda self, now: looks.append(now.streams[0].unusable) or look(self, now))
    secret = tmp_path / "hook.secret"
    secret.write_bytes(b"a secret of both\n")
    secret.chmod(0o600)

    def public(found):
        paths = ("/v1/metrics", "/v1/operations", "/v1/streams", "/v1/streams/visits")
        return [found.client(role).get(path).text for role in ("analyst", "auditor") for path in paths]

    with webhook() as got, webhook() as analysts:
        hooks = [(WebhookAddress(each.url, secret),) for each in (got, analysts)]
        alerts = AlertConfig(curators=hooks[0], analysts=hooks[1])
        with running(tmp_path, settings(lateness="10s"), alerts=alerts, now=MOMENT + 5 * SECOND) as found:
            before = public(found)
            assert found.send([("ada", 0.0, "home")] * 20, 0, "gate").status_code == 200
            stranger = [("eve", -999.0, "home")] * LEAST
            assert found.send(stranger, 0, "door").json()["in_time"] == "none"
            assert until(lambda: got.got)
            (stream,) = found.client("curator").get("/v1/operations").json()["streams"]
            token = found.tokens["curator"].split("_")[1]
            assert stream["unusable"] == [f"token {token}"]
            assert 'dpi_unusable_senders{stream="visits"} 1.0' in found.client("admin").get("/v1/metrics").text
            assert public(found) == before
            found.clock.now += 2 * SPAN
            assert until(lambda: not looks[-1])
    (alert,) = [each for each in got.messages if each["kind"] == "unusable"]
    assert alert["facts"] == {"sender": f"token {token}"}
    assert (
        alert["sentence"] == f"visits: most rows that token {token} has sent of late lack a column, or are not in time."
    )
    assert not any(word in str(got.messages) for word in ("gate", "door", "eve"))
    assert not any(each["kind"] == "unusable" for each in analysts.messages)
