"""The events of a broker, or of a table that grows: made by `broker`, for `dpi.follow`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from dpi.errors import OptionError, WeakPromise
from dpi.sources._source import FollowedEvents
from dpi.sources.brokers._address import Address, parse_address
from dpi.sources.live import Done, Known, LiveInput
from dpi.sources.textual import LONGEST_LINE

BROKERS = {
    "kafka": "_kafka.KafkaTopic",
    "mqtt": "_mqtt.MqttTopic",
    "nats": "_nats.JetStream",
    "rabbitmq": "_rabbitmq.RabbitStream",
    "redis": "_redis.RedisStream",
}
"""By what an address begins with, who reads it: a class in a module beside this one."""
TABLES = {"mariadb": "_mariadb.MariaTable", "mysql": "_mariadb.MariaTable", "postgresql": "_postgresql.PostgresTable"}
"""Of these a table is polled."""
FORGETFUL = ("mqtt",)
"""Of these the server delays or discards messages for a reader that is behind; *so* one user's flood can keep other
users' messages out of their slot, which the promise assumes not to happen. A reader cannot tell."""


@dataclass(frozen=True, repr=False, kw_only=True)
class BrokerEvents(FollowedEvents):
    """The events of a broker. Holds no event itself.

    >>> isinstance(broker("nats://localhost/visits"), BrokerEvents)     # nothing is asked of it yet
    True
    """

    address: Address
    table: str | None
    """What is polled of a database …"""
    id: str
    """… and by which column."""
    longest: int
    """Bytes of the longest line that is read."""

    def __repr__(self) -> str:
        return f"BrokerEvents({self.address.shown!r}, user={self.user!r}, time={self.time!r}, value={self.value!r})"

    def live(self, done: Done, known: Known) -> list[LiveInput]:
        """Return the broker as an input that grows."""
        module, _, name = (BROKERS | TABLES)[self.address.scheme].partition(".")
        make: Callable[..., LiveInput] = getattr(import_module(f"dpi.sources.brokers.{module}"), name)
        return [make(self, done, known)]


def broker(
    address: str,
    *,
    user: str = "user",
    time: str = "time",
    value: str | Mapping[str, str] = "value",
    arrived: str | None = None,
    unit: str | None = None,
    table: str | None = None,
    id: str = "id",
    password_file: str | os.PathLike[str] | None = None,
    longest_line: int = LONGEST_LINE,
) -> BrokerEvents:
    """Return events of a broker, for `dpi.follow`: Kafka, NATS JetStream, Redis or RabbitMQ streams, MQTT, or a table.

    A message is one JSON object, or several lines of them; `user`, `time`, `value`, `arrived` and `unit` are those of
    `dpi.read`. A `table` of PostgreSQL or MariaDB, named with its schema if need be, has a column for each, and is
    polled by the column `id`, which goes up. The password stands in `password_file`, in the environment variable
    `DPI_BROKER_PASSWORD`, or in the address; it is never shown. Of MQTT it warns, with `WeakPromise`: one user's
    flood can keep out messages of others.

    >>> broker("kafka://localhost:9092/visits", value="country")
    BrokerEvents('kafka://localhost:9092/visits', user='user', time='time', value='country')
    """
    if longest_line < 1:
        raise OptionError(f"`longest_line` must be a number of bytes above 0. Got {longest_line!r}.")
    where = parse_address(address, {*BROKERS, *TABLES}, password_file)
    if where.scheme in TABLES and table is None:
        raise OptionError(f"a {where.scheme}:// address is read by a table: name it by `table`.")
    if where.scheme in BROKERS and table is not None:
        raise OptionError(f"`table` is for databases; {where.shown!r} is none.")
    for option, name in (("table", "-" if table is None else table), ("id", id)):
        if not name or "\0" in name or name.startswith(".") or name.endswith("."):
            raise OptionError(f"`{option}` must be a name.")
    if where.scheme in FORGETFUL:
        warnings.warn(
            f"{where.shown!r} is an exception to the promise: one user's flood can delay or push out other users' "
            "messages, because MQTT has no positions. A broker that keeps messages has no such exception.",
            WeakPromise,
            stacklevel=2,
        )
    return BrokerEvents(user, time, value, unit, arrived, address=where, table=table, id=id, longest=longest_line)
