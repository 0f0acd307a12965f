"""The events of a broker, or of a table that grows: made by `broker`, for `dpi.follow`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpi.errors import OptionError
from dpi.sources.brokers.address import Address, parsed
from dpi.sources.brokers.kafka import KafkaTopic
from dpi.sources.brokers.log import Columns
from dpi.sources.brokers.mariadb import MariaTable
from dpi.sources.brokers.mqtt import MqttTopic
from dpi.sources.brokers.nats import JetStream
from dpi.sources.brokers.postgresql import PostgresTable
from dpi.sources.brokers.rabbitmq import RabbitStream
from dpi.sources.brokers.redis import RedisStream
from dpi.sources.brokers.table import TableName
from dpi.sources.followed import FollowedEvents, check_unit
from dpi.sources.lines import LONGEST_LINE
from dpi.sources.live import Done, Known, LiveInput

BROKERS: Mapping[str, Callable[[Address, Columns, Done, Known], LiveInput]] = {
    "kafka": KafkaTopic,
    "mqtt": lambda address, columns, done, known: MqttTopic(address, columns, done),
    "nats": JetStream,
    "rabbitmq": RabbitStream,
    "redis": RedisStream,
}
"""By what an address begins with."""
TABLES: Mapping[str, Callable[[Address, TableName, Columns, Done, Known], LiveInput]] = {
    "mariadb": MariaTable,
    "mysql": MariaTable,
    "postgresql": PostgresTable,
}
"""Of these a table is polled."""


@dataclass(frozen=True, repr=False)
class BrokerEvents(FollowedEvents):
    """The events of a broker. Holds no event itself.

    >>> import dpi
    >>> isinstance(dpi.broker("nats://localhost/visits"), BrokerEvents)     # nothing is asked of it yet
    True
    """

    address: Address
    user: str
    time: str
    value: str | Mapping[str, str]
    unit: str | None = None
    arrived: str | None = None
    table: TableName | None = None
    longest: int = field(default=LONGEST_LINE)

    def __repr__(self) -> str:
        return f"BrokerEvents({self.address.shown!r}, user={self.user!r}, time={self.time!r}, value={self.value!r})"

    def live(self, done: Done, known: Known) -> list[LiveInput]:
        """The broker as an input that grows."""
        columns = Columns(self.user, self._names, self.longest)
        if self.table is None:
            return [BROKERS[self.address.scheme](self.address, columns, done, known)]
        return [TABLES[self.address.scheme](self.address, self.table, columns, done, known)]


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
    """Events of a broker, for `dpi.follow`: Kafka, NATS JetStream, Redis or RabbitMQ streams, MQTT, or rows of a table.

    A message is one JSON object, or several lines of them; `user`, `time`, `value`, `arrived` and `unit` are those of
    `dpi.read`. A `table` of PostgreSQL or MariaDB, named with its schema if need be, has a column for each, and is
    polled by the column `id`, which goes up. The password stands in `password_file`, in the environment variable
    `DPI_BROKER_PASSWORD`, or in the address; it is never shown.

    >>> broker("kafka://localhost:9092/visits", value="country")
    BrokerEvents('kafka://localhost:9092/visits', user='user', time='time', value='country')
    """
    check_unit(unit)
    if longest_line < 1:
        raise OptionError(f"`longest_line` must be a number of bytes above 0. Got {longest_line!r}.")
    where = parsed(address, {*BROKERS, *TABLES}, password_file)
    if where.scheme in TABLES and table is None:
        raise OptionError(f"a {where.scheme}:// address is read by a table: name it by `table`.")
    if where.scheme in BROKERS and table is not None:
        raise OptionError(f"`table` is for databases; {where.shown!r} is none.")
    named = None if table is None else TableName(table, id)
    return BrokerEvents(where, user, time, value, unit, arrived, named, longest_line)
