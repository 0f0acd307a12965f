"""Brokers that misbehave, and messages that do: nothing of it changes what others' events count for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial

import pytest

import dpi
from broker_feeds import FEEDS, BrokerFeed, Kafka, Maria, Nats, Postgres, Rabbit, Redis, TableFeed, message, on
from dpi.sources.brokers import _redis, _table, log
from dpi.testing import Follower

BROKERS = [feed for feed in FEEDS if not issubclass(feed, TableFeed)]


def forget_two(feed: BrokerFeed) -> None:
    """Let retention take the first two messages, or all but the last."""
    if isinstance(feed, Kafka):
        feed.cluster.forget(feed.topic, 0, 2)
    elif isinstance(feed, Nats):
        feed.forget(3)
    elif isinstance(feed, Redis):
        feed.client.xtrim(feed.key, maxlen=1, approximate=False)


@on(*BROKERS)
def test_a_broken_message_is_dropped_by_itself(feed: BrokerFeed) -> None:
    """Not JSON, too long, without fields, half a line: the messages beside it count, and each line of those."""
    feed.options = {"longest_line": 1000}
    follower = Follower(feed.follow)
    follower.input.start(threading.Event())
    poison = [b"\xff\xfe", b"", b'{"user": "half', b'"}', b"[1]", b'{"time": 1}', b'{"user": "%s"}' % (b"x" * 1000)]
    feed.send_messages([message("ada"), *poison, message("bob") + b"\n" + message("eve") + b"\r\n", message("joe")])
    read = [user for user in follower.new() if user is not None]  # a missing user is dropped by its row, later
    assert read == ["ada", "bob", "eve", "joe"]
    assert not follower.input.lost
    assert follower.new() == []
    follower.input.close()


@on(Kafka, Nats, Redis)
def test_what_a_broker_has_forgotten_unread_is_lost(feed: BrokerFeed, follower: Follower) -> None:
    """Retention that has passed the stored position is told, and what is still there counts once."""
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    feed.send(["bob", "eve"])
    mark = follower.input.reached()
    forget_two(feed)
    assert follower.upto(mark) == ["eve"]
    assert follower.input.lost


@on(Kafka, Nats, Redis)
def test_what_was_forgotten_after_it_was_read_is_not_lost(feed: BrokerFeed, follower: Follower) -> None:
    """Retention may take what is stored."""
    feed.send(["ada", "bob"])
    assert follower.new() == ["ada", "bob"]
    forget_two(feed)
    feed.send(["eve"])
    assert follower.new() == ["eve"]
    assert not follower.input.lost


@on(Kafka, Nats, Rabbit, Postgres, Maria)
def test_one_that_was_made_again_during_a_stop_is_read_from_its_start(feed: BrokerFeed, follower: Follower) -> None:
    """Fewer positions are given out than are stored: it is another one, under the next generation or another name."""
    if isinstance(feed, Kafka):  # a cluster in memory forgets nothing: more is stored than it has
        follower.done[f"{follower.input.name} 0 0"] = 1000
    else:
        feed.send(["ada", "bob"])
        follower.new()
        follower.input.close()
        feed.cut()
    feed.send(["eve"])
    follower = Follower(feed.follow, follower.done)
    assert follower.new() == ["eve"]
    assert follower.new() == []
    assert not follower.input.lost
    follower.input.close()


@on(partial(Kafka, partitions=3))
def test_every_partition_of_a_topic_is_a_part(feed: Kafka, follower: Follower) -> None:
    """A mark holds for each partition by itself, and each resumes by itself."""
    for partition in range(3):
        feed.send_messages([message(f"{partition}-{number}") for number in range(5)], partition)
    mark = follower.input.reached()
    feed.send_messages([message("later")], 1)
    assert len(mark) == 3
    assert sorted(follower.upto(mark)) == [f"{partition}-{number}" for partition in range(3) for number in range(5)]
    assert follower.new() == ["later"]
    follower.input.close()
    again = Follower(feed.follow, follower.done)
    feed.send_messages([message("last")], 2)
    assert again.new() == ["last"]
    again.input.close()


@on(Kafka)
def test_an_open_transaction_of_kafka_holds_no_mark_up(feed: Kafka, follower: Follower) -> None:
    """A mark is the high watermark, asked for as such: the stable offset would stand still for everybody."""
    import confluent_kafka

    hosts = {"bootstrap.servers": feed.cluster.hosts, "log_level": 0}
    slow = confluent_kafka.Producer({**hosts, "transactional.id": "slow"})
    slow.init_transactions(10)
    slow.begin_transaction()
    slow.produce(feed.topic, message("slow"), partition=0)
    assert slow.flush(10) == 0
    feed.send(["bob"])
    asked: list[object] = []
    look = follower.input.reached()
    admin = follower.input._look  # type: ignore[attr-defined]
    told, admin.list_offsets = admin.list_offsets, lambda *each, **more: asked.append(more) or told(*each, **more)
    assert follower.input.reached() == look
    assert [each["isolation_level"] for each in asked] == [confluent_kafka.IsolationLevel.READ_UNCOMMITTED]  # type: ignore[index]
    assert look[0].offset == 2
    slow.commit_transaction(10)
    assert "bob" in follower.upto(look)


@on(Kafka)
def test_a_reader_waits_for_what_its_mark_has_and_the_broker_does_not_give_yet(feed: Kafka, follower: Follower) -> None:
    """As while a transaction is open below the mark: what comes is read up to the mark, and nothing is lost."""
    feed.send(["ada"])
    (reach,) = follower.input.reached()
    late = threading.Timer(1.0, lambda: feed.send(["bob", "eve"]))
    late.start()
    assert follower.upto((reach._replace(offset=2),)) == ["ada", "bob"]
    late.join()
    assert follower.new() == ["eve"]
    assert not follower.input.lost


@on(Rabbit)
def test_a_look_at_rabbitmq_does_not_go_through_a_flood(feed: Rabbit, follower: Follower) -> None:
    """One user's messages are as many as they are: how far the stream has got is known without taking them."""
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    before, count = follower.input._look._taken, 3_000  # type: ignore[attr-defined]
    with feed.amqp.Connection(feed.address.split("/")[2]) as connection:
        channel = connection.channel()
        for _ in range(count):
            channel.basic_publish(feed.amqp.Message(message("slow")), "", feed.stream)
        for _ in range(1000):
            if channel.queue_declare(feed.stream, passive=True).message_count > count:
                break
            time.sleep(0.01)
    feed.send(["bob"])
    (mark,) = follower.input.reached()
    assert mark.offset == count + 2
    assert follower.input._look._taken - before < count // 2  # type: ignore[attr-defined]
    assert follower.upto((mark,)) == ["slow"] * count + ["bob"]


@on(Kafka)
def test_while_a_broker_is_away_no_mark_is_made(
    feed: Kafka, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots wait, not for ever; what was sent before and after counts once when it is back."""
    feed.send(["ada"])
    mark = follower.input.reached()
    feed.cluster.down()
    before = time.monotonic()
    look = follower.input.look()
    assert time.monotonic() - before < 30
    assert follower.input.away
    assert look() is None
    assert follower.input.reached() == mark  # for the reader, who waits for the same parts
    with monkeypatch.context() as patch:
        patch.setattr(log, "AWAY", -1.0)
        with pytest.raises(dpi.StateError, match="cannot be reached"):
            look()
    feed.cluster.up()
    feed.send(["bob"])
    assert follower.upto(mark) == ["ada"]
    assert follower.new() == ["bob"]
    again = follower.input.look()()
    assert again == follower.input.reached()
    assert not follower.input.away
    assert follower.input._failing is None  # type: ignore[attr-defined]


@on(Redis)
def test_a_connection_that_is_cut_is_made_again(feed: Redis, follower: Follower) -> None:
    """Between two blocks as between two marks, nothing is lost and nothing repeated."""
    users = [f"user-{number}" for number in range(20_000)]
    pipe = feed.client.pipeline(transaction=False)
    for user in users:
        pipe.xadd(feed.key, {"event": message(user)})
    pipe.execute()
    read: list[str] = []
    for block in follower.input.read(follower.input.reached()):
        feed.cut_connections()
        follower.done[block.producer] = block.sequence
        read.extend(block.events["user"])
    assert read == users
    feed.send(["ada"])
    feed.cut_connections()
    assert follower.new() == ["ada"]
    assert not follower.input.lost


@on(Nats)
def test_a_message_of_nats_that_was_deleted_lets_no_later_one_into_the_mark(feed: Nats, follower: Follower) -> None:
    """As many messages are asked for as there are positions: those beyond the mark wait for their own."""
    feed.send(["ada", "bob", "eve"])
    mark = follower.input.reached()
    feed.delete(2)
    feed.send(["joe"])
    assert follower.upto(mark) == ["ada", "eve"]
    assert follower.new() == ["joe"]


@on(Redis)
def test_a_mark_of_redis_ends_within_a_millisecond(feed: Redis, follower: Follower) -> None:
    """The entry with the very next id belongs to the next mark; what is gone before it was read is lost."""
    for number, user in enumerate(["ada", "bob"]):
        feed.client.xadd(feed.key, {"event": message(user)}, id=f"5-{number}")
    mark = follower.input.reached()
    feed.client.xadd(feed.key, {"event": message("eve")}, id="5-2")
    assert follower.upto(mark) == ["ada", "bob"]
    assert not follower.input.lost
    mark = follower.input.reached()
    feed.client.xdel(feed.key, "5-2")
    assert follower.upto(mark) == []
    assert follower.input.lost


@on(Redis, Postgres)
def test_an_error_in_the_midst_of_reading_repeats_nothing(
    feed: BrokerFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading goes on after the last block that was handed on."""
    for module in (_redis, _table):
        monkeypatch.setattr(module, "MESSAGES", 2)
    monkeypatch.setattr(log, "AGAIN", 0.01)
    pieces, errors = follower.input._pieces, [OSError, OSError]  # type: ignore[attr-defined]

    def break_off(spans: Mapping[str, log.Span]) -> Iterator[log.Piece]:
        for piece in pieces(spans):
            yield piece
            if errors:
                raise errors.pop()

    monkeypatch.setattr(follower.input, "_pieces", break_off)
    users = [f"user-{number}" for number in range(5)]
    feed.send(users)
    read = [user for block in follower.input.read(follower.input.reached()) for user in block.events["user"]]
    assert read == users
    assert not follower.input.lost


@on(Postgres)
def test_deleting_the_newest_rows_begins_nothing_anew(feed: Postgres, follower: Follower) -> None:
    """The sequence tells a table that was emptied and begun again from one of which rows were erased."""
    feed.send(["ada", "bob", "eve"])
    assert follower.new() == ["ada", "bob", "eve"]
    feed.execute(feed.connection, "DELETE FROM " + feed.table + " WHERE id = 3")  # noqa: S608
    assert follower.new() == []
    feed.send(["joe"])
    assert follower.new() == ["joe"]


@on(Postgres, Maria)
def test_a_table_that_lacks_something_is_refused(feed: BrokerFeed) -> None:
    """A table or a column that is not there: the error names columns, and no value."""
    feed.send(["ada"])
    for options in ({"table": "no_such_table"}, {"value": "nothing"}, {"id": "nothing"}):
        (live,) = dpi.broker(feed.address, **{**feed.options, **options}).live(lambda producer: -1, {})
        with pytest.raises(dpi.errors.SchemaError, match="must have a table"):
            list(live.read(live.reached()))
        live.close()


@on(Nats)
def test_a_nats_stream_that_is_not_there_is_named(feed: Nats) -> None:
    """With how to create it; a server that is away is said to be away, also after that; a stream that comes is read."""
    feed._do("close")
    with pytest.raises(
        dpi.StateError, match=f"has no stream '{feed.stream}': create it .`nats stream add {feed.stream}`"
    ):
        Follower(feed.follow).input.reached()
    other = Nats.__new__(Nats)
    other.server, other.stream = "nats://127.0.0.1:1", feed.stream
    other.address = f"{other.server}/{other.stream}"
    with pytest.raises(dpi.StateError, match="cannot be reached"):
        Follower(other.follow).input.reached()
    feed._do("make")
    feed.send_messages([message("ada")])
    follower = Follower(feed.follow)
    assert follower.new() == ["ada"]
    follower.input.close()
