"""Events a second out of brokers: `dpi.broker` up to a block of columns, beside the bare loop of the broker's library.

    python benchmarks/brokers.py [--events 200000] [--rounds 3] [kafka nats redis rabbitmq postgres mariadb]

One event a message, 67 bytes each. Rounds of the two are interleaved in one run. Printed are medians and the best, by
the clock on the wall and by the processor time of this process, with the load of the machine: where others work on it,
the second tells what the first would be. Kafka is the cluster in memory that comes with its library, in this process;
the others are servers on their usual ports.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from broker_feeds import (  # type: ignore[import-not-found]
    BrokerFeed,
    Kafka,
    Maria,
    Nats,
    Postgres,
    Rabbit,
    Redis,
)
from measure import Cell, record

MESSAGE = b'{"user": "user-%04d", "time": "2026-01-01T00:00:00", "value": "DE"}'


def read(feed: BrokerFeed) -> int:
    """Through the adapter, from the start."""
    live = feed.follow(lambda producer: -1, ())
    events: int = sum(block.events.height for block in live.read(live.reached()))
    live.close()
    return events


def send(feed: BrokerFeed, count: int) -> Callable[[], int]:
    """Send events, and give the bare loop that takes their bytes."""
    messages = [MESSAGE % (number % 5000) for number in range(count)]
    if isinstance(feed, Kafka):
        return _kafka(feed, messages)
    if isinstance(feed, Nats):
        return _nats(feed, messages)
    if isinstance(feed, Redis):
        return _redis(feed, messages)
    if isinstance(feed, Rabbit):
        return _rabbit(feed, messages)
    assert isinstance(feed, Postgres | Maria)
    return _table(feed, len(messages))


def _kafka(feed: Kafka, messages: list[bytes]) -> Callable[[], int]:
    import confluent_kafka as kafka

    for number, each in enumerate(messages):
        feed.producer.produce(feed.topic, each, partition=number % 4)
        feed.producer.poll(0)
    feed.producer.flush(60)

    def bare() -> int:
        consumer = kafka.Consumer({
            "bootstrap.servers": feed.cluster.hosts, "group.id": "bare", "enable.auto.commit": False, "log_level": 0,
            "fetch.queue.backoff.ms": 5,
        })  # fmt: skip
        consumer.assign([kafka.TopicPartition(feed.topic, part, 0) for part in range(4)])
        values: list[bytes] = []
        while len(values) < len(messages):
            values += [each.value() or b"" for each in consumer.consume(1 << 14, 0.2) if each.error() is None]
        consumer.close()
        return len(values)

    return bare


def _nats(feed: Nats, messages: list[bytes]) -> Callable[[], int]:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    async def fill() -> None:
        connection = await nats.connect(feed.server)
        for number, each in enumerate(messages):
            await connection.publish(feed.stream, each)
            if number % 5000 == 0:
                await connection.flush()
        await connection.flush()
        streams = connection.jetstream()
        while (await streams.stream_info(feed.stream)).state.messages < len(messages):
            await asyncio.sleep(0.1)
        await connection.close()

    async def loop(count: int) -> int:
        connection = await nats.connect(feed.server)
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE)
        pull = await connection.jetstream().pull_subscribe(feed.stream, config=config)
        number = 0
        while number < count:
            number += len(await pull.fetch(min(5000, count - number), timeout=10))
        await connection.close()
        return number

    asyncio.run(fill())
    return lambda: asyncio.run(loop(len(messages)))


def _redis(feed: Redis, messages: list[bytes]) -> Callable[[], int]:
    pipe = feed.client.pipeline(transaction=False)
    for each in messages:
        pipe.xadd(feed.key, {"event": each})
    pipe.execute()

    def bare() -> int:
        number, after = 0, b"-"
        while page := feed.client.xrange(feed.key, after, "+", count=1 << 14):
            number += len(page)
            after = b"(" + page[-1][0]
        return number

    return bare


def _rabbit(feed: Rabbit, messages: list[bytes]) -> Callable[[], int]:
    sender = feed.amqp.Connection(feed.address.split("/")[2])  # one that waits for no confirmation
    sender.connect()
    outlet = sender.channel()
    for each in messages:
        outlet.basic_publish(feed.amqp.Message(each), "", feed.stream)
    sender.close()
    time.sleep(1)

    def bare() -> int:
        connection = feed.amqp.Connection(feed.address.split("/")[2])
        connection.connect()
        channel = connection.channel()
        channel.basic_qos(0, 1 << 14, False)
        number = 0

        def take(message: object) -> None:
            nonlocal number
            number += 1
            if number % 256 == 0:
                channel.basic_ack(message.delivery_tag, multiple=True)  # type: ignore[attr-defined]

        channel.basic_consume(feed.stream, callback=take, arguments={"x-stream-offset": "first"})
        while number < len(messages):
            connection.drain_events(timeout=10)
        connection.collect()
        return number

    return bare


def _table(feed: Postgres | Maria, count: int) -> Callable[[], int]:
    numbers = "generate_series(0, %s)" if isinstance(feed, Postgres) else "seq_0_to_" + str(count - 1)
    name = "generate_series" if isinstance(feed, Postgres) else "seq"
    into = (
        f"INSERT INTO {feed.table} ({feed.quoted}, time, value) SELECT concat('user-', {name} % 5000), 1767225600, 'DE'"
    )
    rows = f"{into.replace('%', '%%')} FROM {numbers}"
    feed.execute(feed.connection, rows, *([count - 1] if isinstance(feed, Postgres) else []))

    def bare() -> int:
        number, after = 0, 0
        with feed.connection.cursor() as cursor:
            query = f"SELECT id, {feed.quoted}, time, value FROM {feed.table} WHERE id > %s ORDER BY id LIMIT 16384"
            while cursor.execute(query, (after,)) is not None and (page := cursor.fetchall()):
                number += len(page)
                after = page[-1][0]
        return number

    return bare


FEEDS: dict[str, Callable[[], BrokerFeed]] = {
    "kafka": lambda: Kafka(partitions=4),
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": Rabbit,
    "postgres": Postgres,
    "mariadb": Maria,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(FEEDS), help="of brokers")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = list[list[Cell]]()
    for name in given.names:
        feed = FEEDS[name]()
        ways: dict[str, Callable[[], int]] = {"library": send(feed, given.events), "dpi": lambda feed=feed: read(feed)}  # type: ignore[misc]
        speeds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way, work in ways.items():
                began, used = time.perf_counter(), time.process_time()
                number = work()
                assert number == given.events, (name, way, number)
                speeds[way].append((number / (time.perf_counter() - began), number / (time.process_time() - used)))
        medians = [[statistics.median(each) for each in zip(*pairs, strict=True)] for pairs in speeds.values()]
        rows.append([name, *(round(way[clock]) for clock in (0, 1) for way in medians)])
        print(*rows[-1], flush=True)
        feed.close()
    record(
        "brokers",
        parts=("events", "sources"),
        columns=["events a second", "library", "dpi", "library, of a processor", "dpi, of a processor"],
        rows=rows,
        about=f"{given.events:,} events, one a message, medians of {given.rounds} rounds.",
    )


if __name__ == "__main__":
    main()
