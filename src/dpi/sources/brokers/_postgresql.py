"""A table of PostgreSQL: snapshots by REPEATABLE READ, transactions in flight by their locks.

**Why every transaction that may fill a hole is listed.** Let a snapshot show `c` and not show a smaller id `i`, which
an INSERT drew from a sequence that gives one id at a time. `c` was not drawn before `i`, so `i` was drawn before the
snapshot. An INSERT locks the table (ROW EXCLUSIVE) before it draws an id, and holds the lock until its transaction
ends; what a savepoint took back has no row. So when the locks (`pg_locks`; the table's partitions included) are listed
after the snapshot, the transaction is in the list or has ended. Transactions without an `xid` yet are listed too, which
their `xmin` would not tell. One that was prepared for a commit in two phases holds its locks under another name,
`-1/xid`: hence the second list of `dpi.sources.brokers._holes`.

So that this holds, the table must be written itself (no view, no parent by INHERITS, no copy by replication), the id's
default must be its sequence (`GENERATED … AS IDENTITY`, `serial`) with `CACHE 1`, and the address must be that of the
primary server, where the locks are; these are looked at. Ids that were drawn before (`SELECT nextval …`) must not be
written, and a partition must be attached before rows are written to it.

A table that was removed and made again has another number, which names the part; one whose sequence was set back
(`TRUNCATE … RESTART IDENTITY`) begins anew.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dpi.errors import StateError
from dpi.sources.brokers._holes import Holes, Running
from dpi.sources.brokers._table import Made, Table

_TABLE = """
SELECT c.oid::bigint, pg_is_in_recovery(),
       c.relkind IN ('r', 'p') AND NOT (c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid))
         AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = c.oid),
       s.seqcache = 1 AND s.seqincrement = 1 AND NOT s.seqcycle,
       CASE WHEN has_sequence_privilege(s.seqrelid, 'SELECT') THEN coalesce(pg_sequence_last_value(s.seqrelid), 0) END
FROM pg_class c LEFT JOIN pg_sequence s ON s.seqrelid = CASE WHEN c.relkind IN ('r', 'p') THEN
       pg_get_serial_sequence(%s, %s)::regclass END
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

    client: ClassVar[tuple[str, str]] = ("psycopg", "postgres")
    options: ClassVar[None] = None

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
            options=f"-c statement_timeout={int(timeout * 1000)} -c idle_in_transaction_session_timeout=0 -c jit=off",
        )

    def _missing(self, error: BaseException) -> bool:
        return isinstance(
            error,
            self._library.errors.UndefinedTable
            | self._library.errors.UndefinedColumn
            | self._library.errors.InsufficientPrivilege,
        )

    def _begin(self, connection: Any) -> Made:
        self._execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return self._made(connection)  # the first query takes the snapshot

    def _made(self, connection: Any) -> Made:
        ((oid, standby, plain, dense, drawn),) = self._rows(connection, _TABLE, self.table, self.source.id, self.table)
        if standby:
            raise StateError(f"{self.address.shown!r} is a standby: transactions in flight are seen by the primary.")
        if not plain:
            raise StateError(
                f"{self.table} must be the table that is written to, or a partitioned one: no view, no parent by "
                "INHERITS, no copy by replication."
            )
        if not dense:
            raise StateError(
                f"{self.table}.{self.id} must have a sequence that gives one id at a time: GENERATED … AS IDENTITY, or "
                "ALTER SEQUENCE … OWNED BY this column, with CACHE 1 INCREMENT 1 NO CYCLE."
            )
        if drawn is None:
            raise StateError(
                f"this reader must see the sequence of {self.table}.{self.id}: GRANT SELECT ON SEQUENCE …."
            )
        return Made(str(oid), int(drawn))

    def _among(self, holes: Holes) -> str:
        """Look each range up in the index: without OFFSET 0 the planner may hold all rows against all ranges."""
        ranges = ", ".join(["(%s::bigint, %s::bigint)"] * len(holes))
        rows = f"SELECT * FROM {self.table} WHERE {self.id} >= dpi_first AND {self.id} < dpi_end OFFSET 0"  # noqa: S608
        return f"FROM (VALUES {ranges}) AS dpi_hole (dpi_first, dpi_end) CROSS JOIN LATERAL ({rows}) AS dpi_row"

    def _running(self, connection: Any) -> Running:
        oid = int(self._made(connection).part)
        return frozenset(str(row[0]) for row in self._rows(connection, _INSERTING, oid, oid))
