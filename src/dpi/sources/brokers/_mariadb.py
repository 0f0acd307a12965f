"""A table of MariaDB or MySQL: consistent snapshots, and the transactions in flight that the server lists.

**Why every transaction that may fill a hole is listed.** `information_schema.innodb_trx` has the transactions in
flight, those that were prepared (XA) included. The server makes it anew only if it was not read for a tenth of a
second, so what it says may be older than the snapshot. A list counts only if it shows this very query, by a name drawn
for it: then it was made after the snapshot. Otherwise it is not known who is in flight, and no hole is forgotten at
this look.

A transaction is known by its connection and the second it began in, and by its number once it has written. The number
stays when a prepared transaction outlives its connection: hence the second list of `dpi.sources.brokers._holes`. An
INSERT begins its transaction right after it draws its first id; a look that falls between the two finds the transaction
in the second list.

So that this holds, the table must be InnoDB's, ids must be given out by one server, one at a time (no
`auto_increment_increment`), and this reader must be allowed to see transactions (`GRANT PROCESS`). All three are looked
at.

A table that was removed and made again, or emptied by TRUNCATE, gives out small ids again, and begins anew.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, ClassVar

from dpi.errors import StateError
from dpi.sources.brokers._holes import Running
from dpi.sources.brokers._table import Made, Table

_NO_TABLE, _NO_COLUMN, _DENIED, _DENIED_COLUMN, _NO_PRIVILEGE = 1146, 1054, 1142, 1143, 1227
_STALE = 0.11
"""Seconds after which the server makes the list of transactions anew, if it was not read meanwhile."""
_TRIES = 3
_TABLE = """
SELECT t.engine, t.auto_increment, c.extra, @@global.auto_increment_increment, @@global.read_only,
       EXISTS (SELECT 1 FROM information_schema.processlist WHERE user = 'system user' AND command <> 'Daemon')
FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_schema = %s AND t.table_name = %s AND c.column_name = %s
"""


class MariaTable(Table):
    """One table of MariaDB."""

    quote: ClassVar[str] = "`"
    client: ClassVar[tuple[str, str]] = ("pymysql", "mariadb")
    options: ClassVar[tuple[str, ...]] = ("socket", "tls")

    def _connect(self, timeout: float) -> Any:
        host, port = self.address.host(3306)
        return self._library.connect(
            host=host,
            port=port,
            unix_socket=self.address.options.get("socket"),
            user=self.address.user,
            password=self.address.password or "",
            database=self.address.name,
            connect_timeout=2,
            read_timeout=timeout,
            write_timeout=timeout,
            autocommit=True,
            charset="utf8mb4",
            ssl={} if self.address.flag("tls") else None,
        )

    def _missing(self, error: BaseException) -> bool:
        return bool(error.args) and error.args[0] in (_NO_TABLE, _NO_COLUMN, _DENIED, _DENIED_COLUMN)

    def _begin(self, connection: Any) -> Made:
        self._execute(
            connection, "/*!80000 SET SESSION information_schema_stats_expiry = 0 */ "
        )  # MySQL keeps it a day
        self._execute(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._execute(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return self._made(connection)

    def _made(self, connection: Any) -> Made:
        schema = ".".join(self.path[:-1]) or self.address.name
        rows = self._rows(connection, _TABLE, schema, self.path[-1], self.source.id)
        if not rows:
            raise self._lacking()
        ((engine, following, extra, step, read_only, replica),) = rows
        if read_only or replica:
            raise StateError(f"{self.address.shown!r} is a replica: transactions in flight are seen by the primary.")
        if str(engine).lower() != "innodb":
            raise StateError(f"{self.table} must be a table of InnoDB: others have no snapshots.")
        if "auto_increment" not in str(extra).lower():
            raise StateError(f"{self.table}.{self.id} must be AUTO_INCREMENT: its ids must go up.")
        if int(step) > 1:
            raise StateError("ids must be given out by one server, one at a time: auto_increment_increment must be 1.")
        return Made("", int(following or 1) - 1)

    def _running(self, connection: Any) -> Running | None:
        for again in range(_TRIES):
            if again:
                time.sleep(_STALE)
            token = secrets.token_hex(8)
            query = (
                f"SELECT /* {token} */ trx_query, trx_mysql_thread_id, trx_started, trx_id + 0, connection_id() "  # noqa: S608
                "FROM information_schema.innodb_trx"
            )
            try:
                rows = self._rows(connection, query)
            except self._library.Error as error:
                if error.args and error.args[0] == _NO_PRIVILEGE:
                    raise StateError(
                        f"this reader of {self.address.shown!r} must be allowed to see transactions: GRANT PROCESS."
                    ) from None
                raise
            if any(token in (text or "") for text, *_ in rows):
                others = [row for row in rows if row[1] != row[4]]
                began = {f"{thread} {started}" for _, thread, started, _, _ in others}
                return frozenset(began | {f"#{int(number)}" for *_, number, _ in others if number})
        return None
