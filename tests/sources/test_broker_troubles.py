"""Brokers that misbehave, and messages that do: nothing of it changes what others' events count for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

import dpi
from broker_feeds import FEEDS, BrokerFeed, Kafka, Maria, Nats, Postgres, Rabbit, Redis, TableFeed, message
from dpi.testing import Follower

BROKERS = [feed for feed in FEEDS if not issubclass(feed, TableFeed)]
Made = TypeVar("Made", bound=BrokerFeed)
Make = Callable[[type[Made]], Made]


@pytest.fixture
def made() -> Iterator[Make[BrokerFeed]]:
    """Feeds, removed at the end."""
    feeds: list[BrokerFeed] = []

    def make(kind: Callable[[], BrokerFeed]) -> BrokerFeed:
        feeds.append(kind())
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def started(feed: BrokerFeed, done: dict[str, int] | None = None) -> Follower:
    """Whoever follows a feed."""
    follower = Follower(feed.follow, done)
    follower.input.start(threading.Event())
    return follower


@pytest.mark.parametrize("kind", BROKERS, ids=lambda feed: feed.__name__)
def test_a_broken_message_is_dropped_by_itself(kind: type[BrokerFeed], made: Make[BrokerFeed]) -> None:
    """Not JSON, too long, without fields, half a line: the messages beside it count, and each line of those."""
    feed = made(kind)
    feed.options = {"longest_line": 1000}
    follower = started(feed)
    poison = [b"\xff\xfe", b"", b'{"user": "half', b'"}', b"[1]", b'{"time": 1}', b'{"user": "%s"}' % (b"x" * 1000)]
    feed.send_messages([message("ada"), *poison, message("bob") + b"\n" + message("eve") + b"\r\n", message("joe")])
    read = [user for user in follower.new() if user is not None]  # a missing user is dropped by its row, later
    assert read == ["ada", "bob", "eve", "joe"]
    assert not follower.input.lost
    assert follower.new() == []
    follower.input.close()


@pytest.mark.parametrize("kind", [Kafka, Nats, Redis], ids=lambda feed: feed.__name__)
def test_what_a_broker_has_forgotten_unread_is_lost(kind: type[BrokerFeed], made: Make[BrokerFeed]) -> None:
    """Retention that has passed the stored position is told, and what is still there counts once."""
    feed = made(kind)
    follower = started(feed)
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    feed.send(["bob", "eve"])
    mark = follower.input.reached()
    if isinstance(feed, Kafka):
        feed.cluster.forget(feed.topic, 0, 2)
    elif isinstance(feed, Nats):
        feed.forget(3)
    elif isinstance(feed, Redis):
        feed.client.xtrim(feed.key, maxlen=1, approximate=False)
    assert follower.upto(mark) == ["eve"]
    assert follower.input.lost
    follower.input.close()


@pytest.mark.parametrize("kind", [Kafka, Nats, Redis], ids=lambda feed: feed.__name__)
def test_what_was_forgotten_after_it_was_read_is_not_lost(kind: type[BrokerFeed], made: Make[BrokerFeed]) -> None:
    """Retention may take what is stored."""
    feed = made(kind)
    follower = started(feed)
    feed.send(["ada", "bob"])
    assert follower.new() == ["ada", "bob"]
    if isinstance(feed, Kafka):
        feed.cluster.forget(feed.topic, 0, 2)
    elif isinstance(feed, Nats):
        feed.forget(3)
    elif isinstance(feed, Redis):
        feed.client.xtrim(feed.key, maxlen=1, approximate=False)
    feed.send(["eve"])
    assert follower.new() == ["eve"]
    assert not follower.input.lost
    follower.input.close()


@pytest.mark.parametrize("kind", [Kafka, Nats, Rabbit, Postgres, Maria], ids=lambda feed: feed.__name__)
def test_one_that_was_made_again_during_a_stop_is_read_from_its_start(
    kind: type[BrokerFeed], made: Make[BrokerFeed]
) -> None:
    """Fewer positions are given out than are stored: it is another one, under the next generation or another name."""
    feed = made(kind)
    follower = started(feed)
    if isinstance(feed, Kafka):  # a cluster in memory forgets nothing: more is stored than it has
        follower.done[f"{follower.input.name} 0 0"] = 1000
    else:
        feed.send(["ada", "bob"])
        follower.new()
        follower.input.close()
        feed.cut()
    feed.send(["eve"])
    follower = started(feed, follower.done)
    assert follower.new() == ["eve"]
    assert follower.new() == []
    assert not follower.input.lost
    follower.input.close()


def test_every_partition_of_a_topic_is_a_part(made: Make[BrokerFeed]) -> None:
    """A mark holds for each partition by itself, and each resumes by itself."""
    feed = made(lambda: Kafka(partitions=3))  # type: ignore[arg-type, return-value]
    assert isinstance(feed, Kafka)
    follower = started(feed)
    for partition in range(3):
        feed.send_messages([message(f"{partition}-{number}") for number in range(5)], partition)
    mark = follower.input.reached()
    feed.send_messages([message("later")], 1)
    assert len(mark) == 3
    assert sorted(follower.upto(mark)) == [f"{partition}-{number}" for partition in range(3) for number in range(5)]
    assert follower.new() == ["later"]
    follower.input.close()
    again = started(feed, follower.done)
    feed.send_messages([message("last")], 2)
    assert again.new() == ["last"]
    again.input.close()


def test_an_open_transaction_of_kafka_holds_no_mark_up(made: Make[BrokerFeed]) -> None:
    """A mark is the high watermark, asked for as such: the stable offset would stand still for everybody."""
    import confluent_kafka

    feed = made(Kafka)
    assert isinstance(feed, Kafka)
    follower = started(feed)
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
    follower.input.close()


def test_a_reader_waits_for_what_its_mark_has_and_the_broker_does_not_give_yet(made: Make[BrokerFeed]) -> None:
    """As while a transaction is open below the mark: what comes is read up to the mark, and nothing is lost."""
    feed = made(Kafka)
    assert isinstance(feed, Kafka)
    follower = started(feed)
    feed.send(["ada"])
    (reach,) = follower.input.reached()
    late = threading.Timer(1.0, lambda: feed.send(["bob", "eve"]))
    late.start()
    assert follower.upto((reach._replace(offset=2),)) == ["ada", "bob"]
    late.join()
    assert follower.new() == ["eve"]
    assert not follower.input.lost
    follower.input.close()


def test_a_look_at_rabbitmq_does_not_go_through_a_flood(made: Make[BrokerFeed]) -> None:
    """One user's messages are as many as they are: how far the stream has got is known without taking them."""
    feed = made(Rabbit)
    assert isinstance(feed, Rabbit)
    follower = started(feed)
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
    follower.input.close()


def test_while_a_broker_is_away_the_last_mark_stands(made: Make[BrokerFeed]) -> None:
    """A look waits for no broker, and what was sent before and after counts once when it is back."""
    feed = made(Kafka)
    assert isinstance(feed, Kafka)
    follower = started(feed)
    feed.send(["ada"])
    mark = follower.input.reached()
    feed.cluster.down()
    before = time.monotonic()
    assert follower.input.reached() == mark
    assert time.monotonic() - before < 6
    assert follower.input.away
    feed.cluster.up()
    feed.send(["bob"])
    assert follower.upto(mark) == ["ada"]
    assert follower.new() == ["bob"]
    assert not follower.input.away
    follower.input.close()


def test_a_connection_that_is_cut_is_made_again(made: Make[BrokerFeed]) -> None:
    """Between two blocks as between two marks, nothing is lost and nothing repeated."""
    feed = made(Redis)
    assert isinstance(feed, Redis)
    follower = started(feed)
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
    follower.input.close()


def test_deleting_the_newest_rows_begins_nothing_anew(made: Make[BrokerFeed]) -> None:
    """The sequence tells a table that was emptied and begun again from one of which rows were erased."""
    feed = made(Postgres)
    assert isinstance(feed, Postgres)
    follower = started(feed)
    feed.send(["ada", "bob", "eve"])
    assert follower.new() == ["ada", "bob", "eve"]
    feed.execute(feed.connection, "DELETE FROM " + feed.table + " WHERE id = 3")  # noqa: S608
    assert follower.new() == []
    feed.send(["joe"])
    assert follower.new() == ["joe"]
    follower.input.close()


def test_a_sequence_that_gives_many_ids_at_a_time_is_refused(made: Make[BrokerFeed]) -> None:
    """Ids that a session keeps for later may appear at any time."""
    feed = made(Postgres)
    assert isinstance(feed, Postgres)
    feed.execute(feed.connection, f"ALTER TABLE {feed.table} ALTER COLUMN id SET CACHE 50")
    follower = started(feed)
    with pytest.raises(dpi.StateError, match="CACHE 1"):
        follower.new()
    follower.input.close()


@pytest.mark.parametrize("kind", [Postgres, Maria], ids=lambda feed: feed.__name__)
def test_a_table_that_lacks_something_is_refused(kind: type[TableFeed], made: Make[BrokerFeed]) -> None:
    """A table or a column that is not there: the error names columns, and no value."""
    feed = made(kind)
    feed.send(["ada"])
    for options in ({"table": "no_such_table"}, {"value": "nothing"}, {"id": "nothing"}):
        (live,) = dpi.broker(feed.address, **{**feed.options, **options}).live(lambda producer: -1, {})
        with pytest.raises(dpi.errors.SchemaError, match="must have a table"):
            list(live.read(live.reached()))
        live.close()


def test_a_nats_stream_that_is_not_there_is_named(made: Make[BrokerFeed]) -> None:
    """With how to create it; a server that is away is said to be away, also after that; a stream that comes is read."""
    feed = made(Nats)
    assert isinstance(feed, Nats)
    feed._do("close")
    with pytest.raises(
        dpi.StateError, match=f"has no stream '{feed.stream}': create it .`nats stream add {feed.stream}`"
    ):
        started(feed).input.reached()
    other = Nats.__new__(Nats)
    other.server, other.stream = "nats://127.0.0.1:1", feed.stream
    other.address = f"{other.server}/{other.stream}"
    with pytest.raises(dpi.StateError, match="cannot be reached"):
        started(other).input.reached()
    feed._do("make")
    feed.send_messages([message("ada")])
    follower = started(feed)
    assert follower.new() == ["ada"]
    follower.input.close()
