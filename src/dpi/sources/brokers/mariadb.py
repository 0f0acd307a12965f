"""A table of MariaDB or MySQL: gaps among its ids are waited for, up to a time that is declared.

**Rule.** An id that is not there while a larger one is, is a gap: its transaction is in flight, or was rolled back. A
mark does not pass a gap before the gap is filled, or has been seen for `GAP` seconds (or as long as the address says:
`?gap=10`). So a row counts if its transaction ends within that time after a larger id was committed; a later one is
lost without a word, for nothing tells it from a row that never comes. After a restart gaps are waited for anew.

Where transactions are rolled back often, or ids are given out in steps (`auto_increment_increment`), marks lie so far
behind what is visible: choose a lateness above it.

A table that was removed and made again, or emptied by TRUNCATE, gives out small ids again, and begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from dpi.errors import OptionError
from dpi.sources.brokers.address import Address
from dpi.sources.brokers.log import LOOK, Columns, End
from dpi.sources.brokers.table import Table, TableName
from dpi.sources.live import Done, Known

GAP = 5.0
"""Seconds for which a gap is waited for, unless the address says otherwise."""
_NO_TABLE, _NO_COLUMN, _DENIED, _DENIED_COLUMN = 1146, 1054, 1142, 1143


class MariaTable(Table):
    """One table of MariaDB."""

    quote: ClassVar[str] = "`"
    library: ClassVar[tuple[str, str]] = ("pymysql", "mariadb")

    def __init__(self, address: Address, name: TableName, columns: Columns, done: Done, known: Known) -> None:
        address.check("gap", "socket", "tls", named="database")
        super().__init__(address, name, columns, done, known)
        try:
            self.gap = float(address.options.get("gap", GAP))
        except ValueError:
            raise OptionError("`gap` of an address must be a number of seconds.") from None
        self._names = name.table.rpartition(".")
        self._gaps: dict[int, float] = {}
        """The first id of each gap, and when it was seen first."""
        self._at: int | None = None

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

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        if self._look is None:
            self._look = self._connect(LOOK)
        schema, _, table = self._names
        drawn = self._rows(
            self._look,
            "SELECT auto_increment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            schema or self.address.name,
            table,
        )
        newest = f"SELECT coalesce(max({self.id}), 0) FROM {self.table}"  # noqa: S608 - names are quoted
        ((visible,),) = self._rows(self._look, newest)
        before = last.get("", self.start_at)
        anew = max(int(drawn[0][0] or 0) if drawn else 0, int(visible) + 1) < before
        if anew or self._at is None:
            self._gaps, self._at = {}, self.start_at if anew else before
        self._at = self._upto(self._at)
        return {"": End(self._at, anew)}

    def _upto(self, at: int) -> int:
        """The first id that may still appear, or the one after the last that is there."""
        query = f"SELECT min({self.id}), max({self.id}), count(*) FROM {self.table} WHERE {self.id} >= %s"  # noqa: S608
        ((first, newest, count),) = self._rows(self._look, query, at)
        if not count:
            return at
        if first == at and newest - first + 1 == count:
            self._gaps = {}
            return int(newest) + 1
        # Each row with the id after which it comes: where that is not the one before, there is a gap.
        between = (
            f"SELECT gap FROM (SELECT {self.id} AS id, "  # noqa: S608
            f"coalesce(lag({self.id}) OVER (ORDER BY {self.id}), %s) + 1 AS gap "
            f"FROM {self.table} WHERE {self.id} >= %s) t "
            f"WHERE id > gap AND id <= %s ORDER BY gap"
        )
        now = time.monotonic()
        found = [int(row[0]) for row in self._rows(self._look, between, at - 1, at, newest)]
        self._gaps = {gap: self._gaps.get(gap, now) for gap in found}
        return next((gap for gap in found if now - self._gaps[gap] < self.gap), int(newest) + 1)
