"""A table of PostgreSQL: rows below the ids that transactions in flight may still commit.

**Rule.** A look reads `c`, the largest id that is visible, and *then* the transactions that hold a lock on the table in
a mode that inserts (`pg_locks`; the table's partitions included). The rows up to `c` are final at the first look at
which none of those transactions is in flight any more; the mark is the largest such `c`, plus one.

**Why nothing is passed that appears later.** Let a row have an id `i <= c` that its INSERT drew from a sequence that
gives one id at a time. `c` was not drawn before `i`, and was visible when the look read it, so `i` was drawn before
then. An INSERT locks the table (ROW EXCLUSIVE) before it draws an id, and the lock is held until its transaction ends.
So when the locks are listed, the transaction has ended or is in the list. When all that are in the list have ended, it
has ended in either case: its row is visible from then on, or never. The rows of a mark are read after the mark is made.
A transaction that was rolled back leaves a gap, for which nobody waits.

So that this holds, the id's default must be the sequence (`GENERATED … AS IDENTITY`, `serial`) with `CACHE 1`, which is
looked at; nobody may write ids that were drawn before (`SELECT nextval …`); and the address must be that of the primary
server, where the locks are.

A table that was removed and made again has another number, which names the part; one whose sequence was set back
(`TRUNCATE … RESTART IDENTITY`) begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpi.errors import StateError
from dpi.sources.brokers.address import Address
from dpi.sources.brokers.log import LOOK, Columns, End
from dpi.sources.brokers.table import Table, TableName
from dpi.sources.live import Done, Known

_TABLE = """
SELECT c.oid::bigint, s.seqcache, pg_is_in_recovery(),
       CASE WHEN has_sequence_privilege(s.seqrelid, 'SELECT') THEN coalesce(pg_sequence_last_value(s.seqrelid), 0) END
FROM pg_class c LEFT JOIN pg_sequence s ON s.seqrelid = pg_get_serial_sequence(%s, %s)::regclass
WHERE c.oid = %s::regclass
"""
_INSERTING = """
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = ANY(SELECT %s::oid UNION SELECT relid::oid FROM pg_partition_tree(%s::oid::regclass))
  AND pid IS DISTINCT FROM pg_backend_pid()
  AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


class PostgresTable(Table):
    """One table of PostgreSQL."""

    quote: ClassVar[str] = '"'
    library: ClassVar[tuple[str, str]] = ("psycopg", "postgres")

    def __init__(self, address: Address, name: TableName, columns: Columns, done: Done, known: Known) -> None:
        super().__init__(address, name, columns, done, known)
        self._column = name.id
        self._waiting: list[tuple[int, frozenset[str]]] = []
        """Ids that were visible, the oldest first, and the transactions that may still commit smaller ones."""
        self._final: dict[str, int] = {}

    def _connect(self, timeout: float) -> Any:
        where: dict[str, Any] = dict(self.address.options)
        if self.address.hosts:
            where["host"], where["port"] = self.address.host(5432)
        return self._library.connect(
            **where,
            dbname=self.address.name,
            user=self.address.user,
            password=self.address.password,
            connect_timeout=2,
            autocommit=True,
            application_name="dpi",
            options=f"-c statement_timeout={int(timeout * 1000)}",
        )

    def _missing(self, error: BaseException) -> bool:
        return isinstance(
            error,
            self._library.errors.UndefinedTable
            | self._library.errors.UndefinedColumn
            | self._library.errors.InsufficientPrivilege,
        )

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        if self._look is None:
            self._look = self._connect(LOOK)
        ((oid, cache, standby, drawn),) = self._rows(self._look, _TABLE, self.table, self._column, self.table)
        if standby:
            raise StateError(f"{self.address.shown!r} is a standby: transactions in flight are seen by the primary.")
        if cache is not None and cache > 1:
            raise StateError(
                f"the sequence of {self.table}.{self.id} must give one id at a time: ALTER SEQUENCE … CACHE 1."
            )
        newest = f"SELECT coalesce(max({self.id}), 0) FROM {self.table}"  # noqa: S608 - names are quoted
        ((visible,),) = self._rows(self._look, newest)
        part, before = str(oid), last.get(str(oid), self.start_at)
        anew = (visible if drawn is None else max(drawn, visible)) + 1 < before
        if anew or part not in self._final:
            self._waiting, self._final = [], {part: self.start_at if anew else before}
        inserting = frozenset(str(row[0]) for row in self._rows(self._look, _INSERTING, oid, oid))
        self._waiting.append((int(visible) + 1, inserting))
        self._settle(part, inserting)
        return {part: End(self._final[part], anew)}

    def _settle(self, part: str, inserting: frozenset[str]) -> None:
        """Pass the ids below which no transaction is in flight any more."""
        self._waiting = [(end, those & inserting) for end, those in self._waiting]
        final = [end for end, those in self._waiting if not those]
        self._final[part] = max([self._final[part], *final])
        self._waiting = [(end, those) for end, those in self._waiting if those]
