"""A table of a database to which rows are only added, as an input: rows are read in the order of an id that goes up.

Ids are given out when rows are written and are seen when they are committed, so a smaller id may appear after a larger
one.

**Rule.** A look opens one transaction that sees one snapshot of the table. Its mark is `(c, H)`: `c` is the largest
visible id, and `H` holds the ids up to `c` that the snapshot does not show. Both are counted inside that transaction,
in steps of `STEP` rows, and are stored before anything is read. A row belongs to the first mark that contains it: its
id is at most `c` and not in `H`. Ids leave `H` when a later snapshot shows them, or when no transaction is left that
could still fill them (`dpi.sources.brokers._holes`).

**Guarantee.** A row belongs to the first closing look whose snapshot shows it (`dpi.stream.input_positions`). Adding or
removing one user's own transactions therefore moves no row of another user.

*Why.* By induction the marks up to a look contain the rows that its snapshot shows, and no others. A row that the
snapshot shows has an id up to `c` that is not in `H`. A row that it does not show is in `H`, or above `c`, or was
forgotten; what was forgotten never appears. Whether a snapshot shows another user's row depends on when that row's
transaction committed and when the look was made: the first does not depend on this user by assumption, the second is
the public clock's. The user's rows shift ids of others and add holes, but neither is in the statement. The reader
leaves out what lies in `H`, so a row that commits between a look and its reading waits for its own mark. There the
window of that mark decides: the row counts if its slot was still open at the mark before, else this row alone is late.
Looks that close no slot decide nothing, so that they may be left out while looks wait to be counted.

*When a look is made* is the clock's because it waits for nothing that users decide: not for counting or reading, which
have connections and threads of their own, and not for a handshake, since a connection is opened beforehand. What it
waits for is one answer of the database about its catalogue.

**Assumptions.** The database answers a look at once, whatever is written to it. Rows are only inserted, and stay until
they are read. An id is drawn by its own INSERT, from a counter that gives one id at a time. A transaction that holds
rows of several users commits when its writer says: that none of them decides about the others is the writer's
responsibility.

**Where they fail** slots are held, late and said to be. A look without a snapshot, or whose counting fails, makes no
mark: nobody can tell whether the database is gone or slow with one user's rows. The next look takes its place; it has
every row that had come by the closing time, and also what came until it was made. No older mark stands for it.

`LOOKS` looks may wait to be counted at a time. More, or more than `HOLES` holes, stop the input with an error. When the
program, or a service by itself, begins again, what had arrived until then belongs to the slots that had no look. So a
flood that takes longer to count than `LOOKS` slots last may let rows of others count that would have been late; it
drops none. Where that matters a recorded arrival (`arrived`) decides instead of looks.

If the last row that was read is gone when more is read, rows after it may be gone too, and are called lost; so is the
last row of a mark that the reader does not find.

Sees rows on their way; keeps none.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dpi.errors import SchemaError, StateError
from dpi.sources.brokers._events import BrokerEvents
from dpi.sources.brokers._holes import Hole, Holes, Pending, Running, contains, difference, intersection, ranks, width
from dpi.sources.brokers.log import MESSAGES, End, Log, Piece, Span
from dpi.sources.live import Block, Done, Known, Look, Reach
from dpi.sources.textual import texts

if TYPE_CHECKING:
    import polars as pl

STEP = 1 << 15
"""Rows that are counted at a time: few enough that what a query gives is taken in, with the interpreter's lock, in some
hundredths of a second. It costs no time: two million rows take as long as with four times as many."""
PATIENCE = 60.0
"""Seconds that one step of counting, or one block of rows, may take."""
LOOKS = 8
"""Looks that may wait to be counted: each one holds a connection."""
HOLES = 1 << 20
"""Holes of one mark, at most."""
_RANGES = 500
"""Holes that one query asks about."""
_LATE = " late"
"""Behind the name of a part: rows that had been in a hole, in the order of marks and ids."""


class Made(NamedTuple):
    """Which table it is."""

    part: str
    """Its name among tables that were removed and made again."""
    drawn: int
    """How many ids were given out, as far as the database tells."""


class Snapshot(NamedTuple):
    """A connection in the midst of a transaction that sees one state of the table."""

    connection: Any
    made: Made
    opened: float


class Table(Log):
    """Rows of one table by an id that goes up."""

    start_at: ClassVar[int] = 1
    named: ClassVar[str] = "database"
    quote: ClassVar[str] = '"'
    failures: ClassVar[tuple[str, ...]] = ("OperationalError", "InterfaceError", "InternalError")

    def __init__(self, source: BrokerEvents, done: Done, known: Known) -> None:
        super().__init__(source, done, known)
        self.path = str(source.table).split(".")
        self.table, self.id = ".".join(map(self._quoted, self.path)), self._quoted(source.id)
        self._idle: list[Any] = []
        """Connections for looks to come, the next one first."""
        self._snapshots: list[Any] = []
        """Connections of looks that wait to be counted."""
        self._spare: threading.Thread | None = None
        self._pending = Pending()
        self._read: dict[str, Reach] = {}
        """Of each part, the mark that was read last."""
        self._holes: dict[str, Holes] = {}
        """Of what is read now: ids that belong to a later mark or, of late rows, the holes that they filled."""

    def _quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    # What each database says for itself.

    @abstractmethod
    def _connect(self, timeout: float) -> Any:
        """Return a connection of the database's library, which commits by itself."""

    @abstractmethod
    def _begin(self, connection: Any) -> Made:
        """Begin a transaction that sees one snapshot, and tell which table it sees."""

    @abstractmethod
    def _made(self, connection: Any) -> Made:
        """Tell which table it is now."""

    @abstractmethod
    def _running(self, connection: Any) -> Running | None:
        """List the transactions in flight that may have drawn ids of the table; None if that is not known now."""

    @abstractmethod
    def _missing(self, error: BaseException) -> bool:
        """Return whether an error says that there is no such table, or column."""

    # The timer's side.

    def look(self) -> Look:
        """Open a snapshot; what is returned counts in it."""
        if len(self._snapshots) >= LOOKS:
            raise StateError(
                f"the rows of {self.table} cannot be counted as fast as slots close: {LOOKS} looks wait. Choose longer "
                "slots, or let the database have more room; the same command goes on where it stopped."
            )
        tries = len(self._idle) + 1  # a connection that was idle may have been closed since
        snapshot = next(filter(None, (self._snapshot() for _ in range(tries))), None)
        self._prepare()
        return self._miss if snapshot is None else lambda: self._count(snapshot)

    @property
    def busy(self) -> bool:
        """Whether looks still wait to be counted."""
        return len(self._snapshots) > 1

    def reached(self) -> tuple[Reach, ...]:
        """Return how far the table has got or, while the database is away, had got."""
        while (reached := self.look()()) is None:
            pass
        return reached

    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        return {reach.identity: End(reach.offset) for reach in self.reached()}

    def _snapshot(self) -> Snapshot | None:
        connection = None
        try:
            connection = self._idle.pop(0) if self._idle else self._connect(PATIENCE)
            self._snapshots.append(connection)
            opened = time.monotonic()
            return Snapshot(connection, self._begin(connection), opened)
        except BaseException as error:
            self._drop(connection)
            if isinstance(error, self.errors):
                return None
            raise

    def _prepare(self) -> None:
        """Open a connection for the next look, which then waits for no handshake with a database that is busy."""

        def connect() -> None:
            with suppress(*self.errors):  # the look tries it itself
                self._idle.append(self._connect(PATIENCE))

        if not self._idle and (self._spare is None or not self._spare.is_alive()):
            self._spare = threading.Thread(target=connect, name="dpi connection", daemon=True)
            self._spare.start()

    def _miss(self) -> None:
        """Drop a look that found no database; at the start, say so."""
        if not self._reaches:
            raise self.unreachable()
        self._fail()

    def _fail(self) -> None:
        """Drop a look, and give up after a while in which none was counted. Doubts begin anew with the last mark."""
        self._pending = Pending(tuple(hole for reach in self._reaches.values() for hole in reach.holes))
        self._hold()

    def _count(self, snapshot: Snapshot) -> tuple[Reach, ...] | None:
        """Count inside a snapshot; None if that failed."""
        try:
            with self._turn:
                reach = self._counted(snapshot)
                self._execute(snapshot.connection, "ROLLBACK")
                self._reaches = {reach.identity: reach}
        except BaseException as error:
            self._drop(snapshot.connection)
            if not isinstance(error, self.errors):
                raise
            self._fail()
            return None
        self._snapshots.remove(snapshot.connection)
        self._idle.append(snapshot.connection)
        self.away, self._failing = False, None
        return (reach,)

    def _counted(self, snapshot: Snapshot) -> Reach:
        connection, (part, drawn), opened = snapshot
        visible, last = self._visible(connection), self._last(part)
        anew = max(drawn, visible) + 1 < last.offset
        reach = self._reach(part, End(max(visible + 1, self.start_at if anew else last.offset), anew))
        if reach[:2] != last[:2]:
            last = Reach(*reach[:2], self.start_at)
        if part not in self._reaches or anew:
            self._pending = Pending(last.holes)
        late = last.late + self._pending.advance(
            opened,
            lambda holes: self._unfilled(connection, holes),
            self._gaps(connection, last.offset, reach.offset),
        )
        holes = self._pending.holes
        if len(holes) > HOLES:
            raise StateError(
                f"{self.table} has more than {HOLES:,} gaps among its ids, which is more than a mark holds. End "
                "transactions that have been open for long, or read a table whose older rows are elsewhere."
            )
        # The first look asks in any case: whether this reader may see transactions does not depend on rows.
        running = self._running(connection) if holes or not self._reaches else frozenset()
        if running is not None:
            self._pending.settle(running, time.monotonic())
        return reach._replace(holes=holes, late=late)

    def _visible(self, connection: Any) -> int:
        """Return the largest id that is visible."""
        query = f"SELECT coalesce(max({self.id}), 0) FROM {self.table}"  # noqa: S608 - names are quoted
        return int(self._rows(connection, query)[0][0])

    def _gaps(self, connection: Any, at: int, end: int) -> Iterator[Hole]:
        """Return the ids from `at` up to before `end` that are not visible, found in steps."""
        page = f"FROM {self.table} WHERE {self.id} >= %s AND {self.id} < %s"
        apart = (
            "SELECT earlier, id FROM "  # noqa: S608 - names are quoted
            f"(SELECT {self.id} AS id, coalesce(lag({self.id}) OVER (ORDER BY {self.id}), %s) AS earlier {page}) w "
            "WHERE id > earlier + 1 ORDER BY id"
        )
        while at < end:
            upto = min(at + STEP, end)
            ((last, count),) = self._rows(
                connection, f"SELECT coalesce(max({self.id}), %s), count(*) {page}", at - 1, at, upto
            )
            if last - at + 1 > count:
                for earlier, after in self._rows(connection, apart, at - 1, at, upto):
                    yield int(earlier) + 1, int(after)
            at = int(last) + 1
            if at < upto:
                following = self._following(connection, upto, end)
                yield at, following
                at = following

    def _following(self, connection: Any, at: int, end: int) -> int:
        """Return the first visible id from `at` on, or `end`."""
        query = f"SELECT coalesce(min({self.id}), %s) FROM {self.table} WHERE {self.id} >= %s AND {self.id} < %s"  # noqa: S608
        return int(self._rows(connection, query, end, at, end)[0][0])

    def _unfilled(self, connection: Any, holes: Holes) -> Iterator[Hole]:
        """Return what is left of holes in a snapshot: near ones by going through what lies between, others alone."""
        for near in _group(holes, lambda some, hole: hole[1] - some[0][0] > STEP):
            if len(near) > _RANGES or near[-1][1] - near[0][0] > STEP:
                yield from intersection(near, tuple(self._gaps(connection, near[0][0], near[-1][1])))
            else:
                query = f"SELECT {self.id} {self._among(near)} ORDER BY {self.id}"
                visible = [int(row[0]) for row in self._rows(connection, query, *chain(*near))]
                yield from difference(near, [(number, number + 1) for number in visible])

    def _among(self, holes: Holes) -> str:
        """Return where the rows come from whose ids lie in holes, whose ends are its values."""
        return f"FROM {self.table} WHERE " + " OR ".join([f"({self.id} >= %s AND {self.id} < %s)"] * len(holes))

    # The reader's side.

    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """Return the rows of a mark that are not stored yet."""
        yield from super().read(upto)
        self._read = {reach.identity: reach for reach in upto}

    def _spans(self, reach: Reach) -> dict[str, Span]:
        spans, self._holes[reach.identity] = super()._spans(reach), reach.holes
        before, late = self._read.get(reach.identity), reach.identity + _LATE
        if before is not None and before[:2] == reach[:2]:
            at = max(self._stored(late, reach.generation), before.late)
            if at < reach.late:
                spans[late] = Span(at, reach.late)
                self._holes[late] = tuple(difference(before.holes, reach.holes))
        return spans

    def _present(self) -> set[tuple[str, int]]:
        try:
            if self._reader is None:
                self._reader = self._connect(PATIENCE)
            part, drawn = self._made(self._reader)
            last = self._last(part)
            return {last[:2]} if max(drawn, self._visible(self._reader)) + 1 >= last.offset else set()
        except self.errors:  # the reader waits for a database that is away
            self._hang_up()
            return {reach[:2] for reach in self._reaches.values()}

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        if self._reader is None:
            self._reader = self._connect(PATIENCE)
        for part, span in spans.items():
            yield from self._late_rows(part, span) if part.endswith(_LATE) else self._new_rows(part, span)

    def _new_rows(self, part: str, span: Span) -> Iterator[Piece]:
        """Return the rows above the mark before; those that committed after the mark was made wait for theirs."""
        at, end = span
        there = f"SELECT 1 FROM {self.table} WHERE {self.id} = %s"  # noqa: S608 - names are quoted
        if at > self.start_at and not self._rows(self._reader, there, at - 1):
            self.lost = True
        for rows in filter(None, self._pages(((at, end),))):
            at = int(rows[-1][0]) + 1
            yield Piece(part, self._frame([row for row in rows if not contains(self._holes[part], int(row[0]))]), at)
        self.lost = self.lost or at < end

    def _late_rows(self, part: str, span: Span) -> Iterator[Piece]:
        """Return the rows that had been in holes of the mark before.

        Positions number the ids that have left holes, so that they do not depend on which rows are still there.
        """
        left, before = self._holes[part], self._read[part.removesuffix(_LATE)].late
        for rows in self._pages(left):
            numbers = [before + number + 1 for number in ranks(left, [int(row[0]) for row in rows])]
            fresh = [row for row, number in zip(rows, numbers, strict=True) if number > span.at]
            if fresh:
                yield Piece(part, self._frame(fresh), numbers[-1])

    def _pages(self, holes: Holes) -> Iterator[Sequence[Sequence[Any]]]:
        """Return the rows whose ids lie in some ranges, in the order of their ids, some at a time."""

        def is_full(some: list[Hole], hole: Hole) -> bool:
            return len(some) == _RANGES or width(some) + width([hole]) > MESSAGES

        for some in _group(holes, is_full):
            at, end = some[0][0], some[-1][1]
            if width(some) <= MESSAGES:
                yield self._page(some)
                continue
            while (at := self._following(self._reader, at, end)) < end:  # one range, perhaps with few rows
                yield self._page(((at, min(at + MESSAGES, end)),))
                at += MESSAGES

    def _page(self, holes: Holes) -> Sequence[Sequence[Any]]:
        names = ", ".join(map(self._quoted, self.source.names))
        query = f"SELECT {self.id}, {names} {self._among(holes)} ORDER BY {self.id}"
        return self._rows(self._reader, query, *chain(*holes))

    def _frame(self, rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
        """Return canonical texts of the columns, as those of lines are."""
        import polars as pl

        columns = list(zip(*rows, strict=True))[1:] or [()] * len(self.source.names)
        return pl.DataFrame({
            name: texts(list(map(_plain, column)), name, exact=name == self.source.names[0])
            for name, column in zip(self.source.names, columns, strict=True)
        })  # fmt: skip

    # Both sides.

    def _rows(self, connection: Any, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """Return what a query gives."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                rows: Sequence[Sequence[Any]] = cursor.fetchall()
                return rows
        except self._library.Error as error:
            if self._missing(error):
                raise self._lacking() from None
            raise

    def _lacking(self) -> SchemaError:
        return SchemaError(
            f"{self.address.shown!r} must have a table {self.table} with the columns {self.id} and "
            f"{', '.join(map(self._quoted, self.source.names))}, for this reader to read."
        )

    def _execute(self, connection: Any, statement: str) -> None:
        """Run a statement that gives no rows."""
        with connection.cursor() as cursor:
            cursor.execute(statement)

    def _hang_up(self) -> None:
        self._drop(self._reader)
        self._reader = None

    def _hang_up_look(self) -> None:
        if self._spare is not None:
            self._spare.join()
        for connection in (*self._idle, *self._snapshots):
            self._drop(connection)
        self._idle.clear()

    def _drop(self, connection: Any) -> None:
        if connection is not None:
            with suppress(ValueError):  # it is idle, or the reader's
                self._snapshots.remove(connection)
            with suppress(self._library.Error, OSError):  # it was lost before
                connection.close()


def _group(holes: Holes, is_full: Callable[[list[Hole], Hole], bool]) -> Iterator[Holes]:
    """Return holes in groups: a group ends before a hole with which it would be too large."""
    some: list[Hole] = []
    for hole in holes:
        if some and is_full(some, hole):
            yield tuple(some)
            some = []
        some.append(hole)
    if some:
        yield tuple(some)


def _plain(value: object) -> object:
    """Return a decimal number by its text; anything else is for `dpi.events.columns` to read."""
    return str(value) if isinstance(value, Decimal) else value
