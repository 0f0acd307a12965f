from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker_feeds import BrokerFeed, Kafka, Nats, Redis
from cli_files import ENVIRONMENT, PROGRAM, kept

KILLS = 20 if os.environ.get("DPI_SLOW") else 2
SENT = 200


@pytest.fixture(params=[Kafka, Nats, Redis] if os.environ.get("DPI_SLOW") else [Kafka], ids=lambda feed: feed.__name__)
def feed(request: pytest.FixtureRequest) -> Iterator[BrokerFeed]:
    """A broker, empty."""
    feed = request.param()
    yield feed
    feed.close()


def run(*words: str) -> subprocess.Popen[str]:
    """The program, as a process of its own."""
    more = ["--domain", "countries.txt", "--epsilon", "1", "--store", "live.db", "--slot", "1d"]
    return subprocess.Popen(
        [*PROGRAM, "run", *words, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def event(number: int) -> bytes:
    """One event of now."""
    now = datetime.now(UTC).isoformat()
    return json.dumps({"user": f"secret-user-{number}", "time": now, "value": "DE"}).encode()


def test_every_event_counts_once_over_kills(feed: BrokerFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is killed again and again while events come: each is stored with its position, and counts once."""
    monkeypatch.chdir(tmp_path)
    Path("countries.txt").write_text("DE\nFR\n")
    chance, sent, over = random.Random(1), [0], threading.Event()

    def send() -> None:
        while not over.is_set():
            feed.send_messages([event(sent[0] + number) for number in range(SENT)])
            sent[0] += SENT
            time.sleep(0.2)

    today = datetime.now(UTC).date().isoformat()
    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(KILLS):
            before, process = kept(), run(feed.address, "--from", today)
            deadline = time.monotonic() + 60
            while kept() == before and time.monotonic() < deadline:  # until it stores something: then, any time
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            time.sleep(chance.random())
            process.kill()
            process.communicate()
            assert kept() <= sent[0] + SENT
    finally:
        over.set()
        sender.join()
    process, deadline = run(feed.address, "--from", today), time.monotonic() + 60
    while kept() < sent[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.5)  # a mark more: nothing is repeated
    found = kept()
    process.kill()
    out, err = process.communicate()
    assert found == sent[0]
    assert "secret-user" not in out + err


LIBRARIES = {
    "kafka": "confluent_kafka", "mariadb": "pymysql", "mqtt": "paho.mqtt", "nats": "dpi", "postgresql": "psycopg",
    "rabbitmq": "amqp", "redis": "redis",
}  # fmt: skip
"""What each kind of address needs; NATS nothing."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--follow"], "name the files of events, or the address of a broker"),
        (["log.ndjson", "redis://localhost/key"], "leave out the others"),
        (["cassandra://localhost/visits"], "must begin with one of kafka://"),
        (["redis://ada:hunter2@localhost/"], "must name the key"),
        (["redis://ada:hunter2@localhost/key?colour=red"], "is no option of a redis:// address"),
        (["redis://ada:hunter2@localhost:1/key"], "'redis://localhost:1/key' cannot be reached"),
        (["nats://ada:hunter2@localhost:1/visits"], "'nats://localhost:1/visits' cannot be reached"),
        (["kafka://localhost:1/visits"], "'kafka://localhost:1/visits' cannot be reached"),
        (["rabbitmq://ada:hunter2@localhost:1/visits"], "cannot be reached"),
        (["mqtt://ada:hunter2@localhost:1/visits"], "cannot be reached"),
        (["mqtt://localhost/visits?qos=1"], "names the client"),
        (["postgresql://localhost/shop"], "name it by `table`"),
        (["redis://localhost/key", "--config", "table=orders"], "`table` is for databases"),
        (["postgresql://ada:hunter2@localhost:1/shop", "--config", "table=orders"], "cannot be reached"),
        (["mariadb://ada:hunter2@127.0.0.1:1/shop", "--config", "table=orders"], "cannot be reached"),
        (["log.ndjson", "--follow", "--config", "table=orders"], "are for a broker"),
        (["redis://localhost/key", "--config", "password-file=none.txt"], "'none.txt' cannot be read"),
        (["redis://localhost/key", "--dry-run"], "a broker is followed"),
        (["redis://localhost/key", "--config", "format=csv"], "messages are JSON"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    cli: object, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a password is in none of them."""
    if "cannot be reached" in said:
        library = LIBRARIES[words[0].partition(":")[0]]
        pytest.importorskip(library, reason="needs pip install -e '.[brokers]'")
        if library == "redis":  # tries again ten times, later and later
            monkeypatch.setattr("redis.retry.sleep", lambda _: None)
    Path("countries.txt").write_text("DE\nFR\n")
    Path("log.ndjson").write_text("")
    more = ["--domain", "countries.txt", "--epsilon", "1", "--store", "x.db", "--slot", "1d", "--from", "2026-01-01"]
    found = cli("run", *words, *more, code=3 if "cannot be reached" in said else 2)  # type: ignore[operator]
    assert said in " ".join(str(found).split())
    assert "hunter2" not in str(found)
    assert "Traceback" not in str(found)


def test_mqtt_is_called_an_exception_to_the_promise(cli: object) -> None:
    """One line before anything is read, once; of a broker that keeps messages, none."""
    pytest.importorskip("paho.mqtt", reason="needs pip install -e '.[brokers]'")
    Path("countries.txt").write_text("DE\nFR\n")
    more = ["--domain", "countries.txt", "--epsilon", "1", "--store", "x.db", "--slot", "1d", "--from", "2026-01-01"]
    found = cli("run", "mqtt://ada:hunter2@localhost:1/visits", *more, code=3)  # type: ignore[operator]
    assert str(found).count("dpi: warning: 'mqtt://localhost:1/visits' is an exception to the promise") == 1
    assert "hunter2" not in str(found)
    found = cli("run", "nats://localhost:1/visits", *more, code=3)  # type: ignore[operator]
    assert "warning" not in str(found)
