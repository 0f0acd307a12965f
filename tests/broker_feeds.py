"""Brokers and tables as feeds for the checks of sources: real servers, and the cluster that Kafka's library brings."""

from __future__ import annotations

import ctypes
import glob
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dpi
from dpi.sources.live import Done, LiveInput, Reach
from dpi.testing import Feed

POSTGRES = os.environ.get("DPI_TEST_POSTGRES", "postgresql:///postgres")
MARIADB = os.environ.get("DPI_TEST_MARIADB", "mariadb://root@localhost/dpi_test?socket=/run/mysqld/mysqld.sock")


def needs(variable: str, port: int, what: str) -> tuple[str, int]:
    """The host and port of a server, or a skip that says how to have one."""
    host, _, said = os.environ.get(variable, f"127.0.0.1:{port}").rpartition(":")
    try:
        socket.create_connection((host, int(said)), 1).close()
    except OSError:
        pytest.skip(f"needs {what}: start one on port {port}, or name it by {variable}=host:port")
    return host, int(said)


def on(*kinds: Callable[[], BrokerFeed]) -> pytest.MarkDecorator:
    """Run a test on a `feed` of each of some kinds."""
    return pytest.mark.parametrize("feed", kinds, ids=lambda kind: getattr(kind, "__name__", None), indirect=True)


def message(user: str) -> bytes:
    """One event."""
    return b'{"user": "%s", "time": 1, "value": "x"}' % user.encode()


class BrokerFeed(Feed):
    """A broker: events come whole."""

    address: str
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it

    def follow(self, done: Done, known: tuple[Reach, ...]) -> LiveInput:
        """As `dpi.broker` does it."""
        events = dpi.broker(self.address, **self.options)
        (name,) = (each.name for each in events.live(done, {}))
        (live,) = events.live(done, {name: known})
        return live

    def send(self, users: Sequence[str]) -> None:
        """A message for each event."""
        self.send_messages([message(user) for user in users])

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """Messages as they are."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove it."""


class MockCluster:
    """The cluster in librdkafka: real brokers of Kafka's protocol in this process, in memory."""

    def __init__(self, brokers: int = 1) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="needs pip install -e '.[kafka]'")
        beside = Path(kafka.__file__).parent.parent / "confluent_kafka.libs"
        found = glob.glob(f"{beside}/librdkafka*")
        if not found:
            pytest.skip("needs the library that comes with confluent-kafka: install its wheel")
        self.library = lib = ctypes.CDLL(found[0])
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        for name, result, *arguments in (
            ("conf_new", pointer),
            ("conf_set", number, pointer, text, text, text, ctypes.c_size_t),
            ("new", pointer, number, pointer, text, ctypes.c_size_t),
            ("destroy", None, pointer),
            ("mock_cluster_new", pointer, pointer, number),
            ("mock_cluster_destroy", None, pointer),
            ("mock_cluster_bootstraps", text, pointer),
            ("mock_topic_create", number, pointer, text, number, number),
            ("mock_partition_delete_records", number, pointer, text, ctypes.c_int32, ctypes.c_int64),
            ("mock_broker_set_down", number, pointer, ctypes.c_int32),
            ("mock_broker_set_up", number, pointer, ctypes.c_int32),
        ):
            function = getattr(lib, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
        config = lib.rd_kafka_conf_new()
        lib.rd_kafka_conf_set(config, b"log_level", b"0", None, 0)
        self.handle = lib.rd_kafka_new(0, config, None, 0)
        self.cluster = lib.rd_kafka_mock_cluster_new(self.handle, brokers)
        self.hosts = lib.rd_kafka_mock_cluster_bootstraps(self.cluster).decode()
        self.brokers = brokers

    def topic(self, name: str, partitions: int) -> None:
        """Make one."""
        assert self.library.rd_kafka_mock_topic_create(self.cluster, name.encode(), partitions, self.brokers) == 0

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Let retention take what lies before an offset."""
        lib = self.library
        assert lib.rd_kafka_mock_partition_delete_records(self.cluster, topic.encode(), partition, before) == 0

    def down(self, broker: int = 1) -> None:
        """Stop a broker."""
        assert self.library.rd_kafka_mock_broker_set_down(self.cluster, broker) == 0

    def up(self, broker: int = 1) -> None:
        """Start it again."""
        assert self.library.rd_kafka_mock_broker_set_up(self.cluster, broker) == 0

    def close(self) -> None:
        """Let go of it."""
        self.library.rd_kafka_mock_cluster_destroy(self.cluster)
        self.library.rd_kafka_destroy(self.handle)


class Kafka(BrokerFeed):
    """A topic with one partition, so that there is one order; or with more."""

    def __init__(self, partitions: int = 1) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="needs pip install -e '.[kafka]'")
        self.cluster = MockCluster()
        self.topic = f"visits-{secrets.token_hex(4)}"
        self.cluster.topic(self.topic, partitions)
        self.producer = kafka.Producer({"bootstrap.servers": self.cluster.hosts, "log_level": 0})
        self.address = f"kafka://{self.cluster.hosts}/{self.topic}"

    def send_messages(self, messages: Sequence[bytes], partition: int = 0) -> None:
        """To one partition."""
        for each in messages:
            self.producer.produce(self.topic, each, partition=partition)
            self.producer.poll(0)
        assert self.producer.flush(10) == 0

    def close(self) -> None:
        """Remove it."""
        self.cluster.close()


class Nats(BrokerFeed):
    """A stream, sent to by the library of NATS."""

    def __init__(self) -> None:
        pytest.importorskip("nats", reason="needs pip install nats-py")
        host, port = needs("DPI_NATS", 4222, "NATS with JetStream (nats-server -js)")
        self.server = f"nats://{host}:{port}"
        self.stream = f"dpi-{secrets.token_hex(4)}"
        self.address = f"{self.server}/{self.stream}"
        self._do("make")

    def _do(self, what: str, messages: Sequence[bytes] = (), upto: int = 0) -> None:
        import asyncio

        import nats

        async def work() -> None:
            connection = await nats.connect(self.server)
            streams = connection.jetstream()
            if what == "send":
                for each in messages:
                    await streams.publish(self.stream, each)
            if what in ("cut", "close"):
                await streams.delete_stream(self.stream)
            if what in ("make", "cut"):
                await streams.add_stream(name=self.stream, subjects=[self.stream])
            if what == "forget":
                await streams.purge_stream(self.stream, seq=upto)
            if what == "delete":
                await streams.delete_msg(self.stream, upto)
            await connection.close()

        with ThreadPoolExecutor(1) as apart:  # a browser's tests leave a loop behind in the thread of a test
            apart.submit(lambda: asyncio.run(work())).result()

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """One after the other, each acknowledged."""
        self._do("send", messages)

    def forget(self, before: int) -> None:
        """Remove what lies before a sequence."""
        self._do("forget", upto=before)

    def delete(self, sequence: int) -> None:
        """Remove one message."""
        self._do("delete", upto=sequence)

    def cut(self) -> bool:
        """Remove the stream, and make it again."""
        self._do("cut")
        return True

    def close(self) -> None:
        """Remove it."""
        self._do("close")


class Redis(BrokerFeed):
    """A Redis stream."""

    def __init__(self) -> None:
        redis = pytest.importorskip("redis", reason="needs pip install -e '.[redis]'")
        host, port = needs("DPI_REDIS", 6379, "Redis")
        self.key = f"dpi-{secrets.token_hex(4)}"
        self.client = redis.Redis(host=host, port=port)
        self.address = f"redis://{host}:{port}/{self.key}"

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """Entries."""
        for each in messages:
            self.client.xadd(self.key, {"event": each})

    def cut_connections(self) -> None:
        """Let the server close those of whoever follows."""
        for each in self.client.client_list():
            if each["name"] == "dpi":
                self.client.client_kill_filter(_id=each["id"])

    def cut(self) -> bool:
        """Remove the key."""
        self.client.delete(self.key)
        return True

    def close(self) -> None:
        """Remove it."""
        self.client.delete(self.key)
        self.client.close()


class Rabbit(BrokerFeed):
    """A RabbitMQ stream."""

    def __init__(self) -> None:
        self.amqp = pytest.importorskip("amqp", reason="needs pip install -e '.[rabbitmq]'")
        host, port = needs("DPI_RABBITMQ", 5672, "RabbitMQ")
        self.stream = f"dpi-{secrets.token_hex(4)}"
        self.address = f"rabbitmq://{host}:{port}/{self.stream}"
        self.connection = self.amqp.Connection(f"{host}:{port}", confirm_publish=True)
        self.connection.connect()
        self.channel = self.connection.channel()
        self._make()

    def _make(self) -> None:
        arguments = {"x-queue-type": "stream"}
        self.channel.queue_declare(self.stream, durable=True, auto_delete=False, arguments=arguments)

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """Each confirmed."""
        for each in messages:
            self.channel.basic_publish_confirm(self.amqp.Message(each), "", self.stream)

    def cut(self) -> bool:
        """Remove the stream, and make it again."""
        self.channel.queue_delete(self.stream)
        self._make()
        return True

    def close(self) -> None:
        """Remove it."""
        self.channel.queue_delete(self.stream)
        self.connection.close()


class Mqtt(BrokerFeed):
    """A topic: it has no position from which it could be read again."""

    resumes = False

    def __init__(self) -> None:
        mqtt = pytest.importorskip("paho.mqtt.client", reason="needs pip install -e '.[mqtt]'")
        host, port = needs("DPI_MQTT", 1883, "Mosquitto, or another server of MQTT")
        self.topic = f"dpi-{secrets.token_hex(4)}"
        self.address = f"mqtt://{host}:{port}/{self.topic}"
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.connect(host, port)
        self.client.loop_start()
        self.input: LiveInput | None = None

    def follow(self, done: Done, known: tuple[Reach, ...]) -> LiveInput:
        """As `dpi.broker` does it."""
        self.input = super().follow(done, known)
        return self.input

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """An event has arrived when whoever follows has it."""
        before = self.input.reached()[0].offset if self.input else 0
        for each in messages:
            self.client.publish(self.topic, each, qos=1).wait_for_publish(10)
        for _ in range(500):
            if self.input is None or self.input.reached()[0].offset >= before + sum(len(m) + 1 for m in messages):
                return
            time.sleep(0.01)

    def close(self) -> None:
        """Go."""
        self.client.disconnect()
        self.client.loop_stop()


class TableFeed(BrokerFeed):
    """A table with an id of its own."""

    def __init__(self) -> None:
        self.table = f"dpi_{secrets.token_hex(4)}"
        self.options = {"table": self.table}
        self.others: list[Any] = []
        self.connection = self.connect()
        self.execute(self.connection, f"CREATE TABLE {self.table} ({self.columns})")

    def connect(self) -> Any:
        """A connection that commits by itself."""
        raise NotImplementedError

    def other(self) -> Any:
        """Another one, in the midst of a transaction."""
        self.others.append(self.connect())
        self.execute(self.others[-1], "BEGIN")
        return self.others[-1]

    columns: str
    quoted: str
    """The column of users, as the database wants it."""

    def execute(self, connection: Any, statement: str, *values: object) -> None:
        """One statement."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)

    def insert(self, connection: Any, user: str, second: int = 1) -> None:
        """One row."""
        into = f"INSERT INTO {self.table} ({self.quoted}, time, value) "
        self.execute(connection, into + "VALUES (%s, %s, 'x')", user, second)

    def begin(self, user: str) -> Callable[[bool], None]:
        """A row in an open transaction, in one of its savepoints."""
        slow = self.other()
        self.execute(slow, "SAVEPOINT one")
        self.insert(slow, user)
        return lambda kept: self.execute(slow, "COMMIT" if kept else "ROLLBACK")

    def send(self, users: Sequence[str]) -> None:
        """A row for each."""
        for user in users:
            self.insert(self.connection, user)

    def close(self) -> None:
        """Remove it, whatever others are in the midst of."""
        for each in self.others:
            each.close()
        self.execute(self.connection, f"DROP TABLE {self.table}")
        self.connection.close()


class Postgres(TableFeed):
    """A table of PostgreSQL."""

    columns = 'id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "user" text, time int, value text'
    quoted = '"user"'
    address = POSTGRES

    def connect(self) -> Any:
        """By the address of the tests."""
        psycopg = pytest.importorskip("psycopg", reason="needs pip install -e '.[postgres]'")
        try:
            return psycopg.connect(POSTGRES, autocommit=True)
        except psycopg.OperationalError:
            pytest.skip("needs PostgreSQL: name it by DPI_TEST_POSTGRES=postgresql://…")

    def cut(self) -> bool:
        """Empty it, and begin with the first id again."""
        self.execute(self.connection, f"TRUNCATE {self.table} RESTART IDENTITY")
        return True


class Maria(TableFeed):
    """A table of MariaDB."""

    columns = "id bigint AUTO_INCREMENT PRIMARY KEY, user text, time int, value text"
    quoted = "user"
    address = MARIADB

    def connect(self) -> Any:
        """By the address of the tests, whose database is made if need be."""
        pymysql = pytest.importorskip("pymysql", reason="needs pip install -e '.[mariadb]'")
        from dpi.sources.brokers._address import parse_address

        where = parse_address(MARIADB, ["mariadb"])
        host, port = where.host(3306)
        try:
            connection = pymysql.connect(
                host=host,
                port=port,
                user=where.user,
                password=where.password or "",
                unix_socket=where.options.get("socket"),
                autocommit=True,
            )
        except pymysql.MySQLError:
            pytest.skip("needs MariaDB: name it by DPI_TEST_MARIADB=mariadb://…")
        self.execute(connection, f"CREATE DATABASE IF NOT EXISTS {where.name}")
        connection.select_db(where.name)
        return connection

    def cut(self) -> bool:
        """Empty it: the first id comes again."""
        self.execute(self.connection, f"TRUNCATE {self.table}")
        return True


FEEDS = (Kafka, Nats, Redis, Rabbit, Mqtt, Postgres, Maria)
