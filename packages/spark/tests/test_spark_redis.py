"""Redis Streams as a source of Spark's, on a real server: positions, arrivals, and what was removed."""

from __future__ import annotations

import os
import secrets

import pytest
from random_streams import opened, outcome

import dpi
from dpi.errors import OptionError, StateError
from dpi.sources import Columns
from dpi_spark.following import Follower
from spark_feeding import on_spark

HOST, PORT = os.environ.get("DPI_REDIS", "127.0.0.1:6379").split(":")


@pytest.fixture
def server():
    """A server, or a sentence that says how to have one."""
    redis = pytest.importorskip("redis", reason="this test needs `pip install -e '.[redis]'`")
    client = redis.Redis(HOST, int(PORT), socket_timeout=5)
    try:
        client.ping()
    except redis.RedisError:
        pytest.skip("this test needs a Redis server: `redis-server`, or its address in DPI_REDIS")
    with client:
        yield client


@pytest.fixture
def key(server):
    """A stream of Redis's of our own."""
    name = f"dpi-test-{secrets.token_hex(8)}"
    yield name
    server.delete(name)


def source(key: str, **options: str):
    """The source as Spark makes it."""
    from dpi_spark.redis import RedisStreams

    return RedisStreams({"keys": key, "host": HOST, "port": PORT, **options})


def test_positions_are_two_numbers():
    """As texts, 10-0 would come before 9-0, and its entries be left out."""
    from dpi_spark.redis import numbers

    assert numbers("10-0") > numbers("9-0") == numbers("9") == (9, 0)
    assert numbers("9-10") > numbers("9-9")


def test_what_is_read_is_what_came_since_a_position(server, key):
    """Exactly the new entries, with their arrivals; a field that is no text is missing by itself."""
    first = server.xadd(key, {"user": "ada", "time": "t", "value": "v"})
    reader = source(key).streamReader(None)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, None)
    second = server.xadd(key, {"user": b"\xff", "value": "w"})
    reader.prepareForTriggerAvailableNow()
    server.xadd(key, {"user": "late"})
    end = reader.latestOffset(middle, None)
    read = [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["user"], row["time"], row["value"]) for row in read] == [("ada", "t", "v"), (None, None, "w")]
    moments = [int(row["arrived"].timestamp() * 1000) for row in read]
    assert moments == [int(position.partition(b"-")[0]) for position in (first, second)]
    again = [batch for part in reader.partitions(middle, end) for batch in reader.read(part)]
    assert [batch.num_rows for batch in again] == [1]
    assert reader.partitions(end, end) == []


@pytest.mark.parametrize("how", ["trimmed", "deleted", "all gone"])
def test_entries_that_were_removed_unread_are_refused(how, server, key):
    """Unless it is said that they may be left out; what was read may go."""
    positions = [server.xadd(key, {"user": str(number)}) for number in range(6)]
    reader = source(key).streamReader(None)
    half = {key: {"id": positions[2].decode(), "added": 3}}
    end = reader.latestOffset(half, None)
    server.xtrim(key, maxlen=3, approximate=False)
    assert len(reader.partitions(half, end)) == 1
    if how == "trimmed":
        server.xtrim(key, maxlen=2, approximate=False)
    elif how == "deleted":
        server.xdel(key, positions[4])
    else:
        server.delete(key)
    with pytest.raises(StateError, match="failOnDataLoss=false"):
        reader.partitions(half, end)
    lenient = source(key, failOnDataLoss="false").streamReader(None)
    assert len(lenient.partitions(half, end)) == 1


def test_options_that_name_nothing_are_refused():
    """In a sentence, before a query begins."""
    from dpi_spark.redis import RedisStreams

    with pytest.raises(OptionError, match="`keys`"):
        RedisStreams({})
    with pytest.raises(OptionError, match="`fields`"):
        RedisStreams({"keys": "a", "fields": "user,arrived"})


def test_a_stream_of_redis_is_followed_over_a_restart(server, key, running, tmp_path, key_file):
    """Each entry once: read, stopped, more came, read again by a new follower; as one process counts them."""
    from dpi_spark.redis import FORMAT, RedisStreams

    running.dataSource.register(RedisStreams)
    instant = dpi.Slots("1h").instant
    day = "2026-01-01T"
    kept: list[tuple[str, str, str]] = []

    def come(slot: int, users: range) -> None:
        """Entries of an hour, at a time of our own: what the server would have said then."""
        for number, user in enumerate(users):
            at = instant(f"{day}{slot:02d}:20", "at") // 1000
            kept.append((f"user {user}", f"{day}{slot:02d}:{user % 40:02d}", f"v{user % 5}"))
            server.xadd(key, dict(zip(("user", "time", "value"), kept[-1], strict=True)), id=f"{at}-{number}")

    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened("default", 1, store, engine=on_spark(running))
        for slot in range(2):
            come(slot, range(slot, 30 + slot))
            frame = running.readStream.format(FORMAT).options(keys=key, host=HOST, port=PORT).load()
            at = instant(f"{day}{slot + 1:02d}:12", "at")
            columns = Columns(arrived="arrived")
            follower = Follower(stream, frame, columns, str(tmp_path / "checkpoint"), clock=lambda at=at: at)
            assert len(list(follower.reach(at))) == 1
        result = outcome(store)
    with dpi.open_store(tmp_path / "embedded.db", key_file=key_file) as store:
        stream = opened("default", 1, store)
        for slot in range(2):
            rows = kept[30 * slot : 30 * slot + 30]
            stream.append(*zip(*rows, strict=True), now=f"{day}{slot:02d}:20", producer="p", sequence=slot)
            list(stream.advance(now=f"{day}{slot + 1:02d}:12"))
        assert outcome(store) == result
