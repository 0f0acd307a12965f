"""Tables that are written to while they are read: no transaction of one user moves a row of another."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import dpi
from broker_feeds import MARIADB, Maria, Postgres, TableFeed, on
from dpi.events.slots import Window
from dpi.sources.brokers import _table as table
from dpi.sources.brokers import log
from dpi.sources.brokers._table import Table
from dpi.stream import Stream
from dpi.stream.input_positions import Timer
from dpi.stream.live import Follower as Following
from dpi.testing import Follower

BOTH = on(Postgres, Maria)


def forgotten(follower: Follower) -> None:
    """Look until there is no hole; MariaDB's list of transactions is of all its users, and may be a stale one."""
    deadline = time.monotonic() + 60
    while follower.input.reached()[0].holes:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@BOTH
def test_an_open_transaction_holds_no_other_row_up(feed: TableFeed, follower: Follower) -> None:
    """Rows of others that had committed are in the mark, though a smaller id has not; that row alone comes later."""
    slow = feed.other()
    feed.insert(slow, "slow")
    others = [f"user-{number}" for number in range(100)]
    feed.send(others)
    mark = follower.input.reached()
    feed.execute(slow, "COMMIT")
    assert follower.upto(mark) == others
    assert follower.new() == ["slow"]
    feed.send(["eve"])
    assert follower.new() == ["eve"]
    assert not follower.input.lost


@BOTH
def test_what_is_rolled_back_holds_no_row_up_and_is_forgotten(feed: TableFeed, follower: Follower) -> None:
    """A hole stays in marks while its transaction may still commit, and leaves them when none can."""
    slow = feed.other()
    feed.insert(slow, "never")
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    for _ in range(4):
        assert follower.input.reached()[0].holes == ((1, 2),)
    feed.execute(slow, "ROLLBACK")
    forgotten(follower)
    assert follower.new() == []
    assert not follower.input.lost


@BOTH
def test_savepoints_and_two_writers_count_once_each(feed: TableFeed, follower: Follower) -> None:
    """What a savepoint took back is not there; the rest of its transaction comes when it is committed."""
    one, two = feed.other(), feed.other()
    feed.insert(one, "one-1")
    feed.execute(one, "SAVEPOINT inner_one")
    feed.insert(two, "two-1")
    feed.insert(one, "never")
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    feed.execute(one, "ROLLBACK TO SAVEPOINT inner_one")
    feed.insert(one, "one-2")
    feed.execute(two, "COMMIT")
    assert follower.new() == ["two-1"]
    feed.send(["eve"])
    assert follower.new() == ["eve"]
    feed.execute(one, "COMMIT")
    assert follower.new() == ["one-1", "one-2"]
    assert not follower.input.lost


@BOTH
def test_a_stop_among_late_rows_neither_loses_nor_repeats_one(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes stand in the marks; which of them were filled and read is stored with the rows."""
    monkeypatch.setattr(table, "MESSAGES", 2)
    writers = [feed.other() for _ in range(5)]
    for number, writer in enumerate(writers):
        feed.insert(writer, f"slow-{number}")
        feed.send([f"user-{number}"])
    first = follower.input.reached()
    assert follower.upto(first, blocks=1) == ["user-0"]
    for writer in writers:
        feed.execute(writer, "COMMIT")
    follower.input.close()
    follower = Follower(feed.follow, follower.done, first)
    assert follower.upto(first) == [f"user-{number}" for number in range(1, 5)]
    second = follower.input.reached()
    read = follower.upto(second, blocks=1)
    assert len(read) == 2
    follower.input.close()
    follower = Follower(feed.follow, follower.done, second)
    assert follower.upto(first) == []
    read += follower.upto(second)
    assert read == [f"slow-{number}" for number in range(5)]
    assert not follower.input.lost
    assert follower.new() == []
    follower.input.close()


@BOTH
@pytest.mark.parametrize("messages", [1, 1000])
def test_a_row_that_commits_after_a_look_waits_for_its_own_mark(
    feed: TableFeed, follower: Follower, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading may be long after the look: what the snapshot did not show is left out."""
    monkeypatch.setattr(table, "MESSAGES", messages)
    slow = feed.other()
    feed.insert(slow, "slow")
    feed.send(["bob"])
    look = follower.input.look()
    feed.send(["eve"])
    feed.execute(slow, "COMMIT")
    counted = look()
    assert counted is not None
    assert follower.upto(counted) == ["bob"]
    assert sorted(follower.new()) == ["eve", "slow"]


@BOTH
def test_a_backlog_is_counted_in_steps(feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows came between two looks, no query of the table returns more than a step of them.

    What MariaDB says of running transactions is left out: it has those of all who use the server.
    """
    monkeypatch.setattr(table, "STEP", 10)
    monkeypatch.setattr(table, "_RANGES", 3)
    slow = [feed.other() for _ in range(7)]
    sent = []
    for number in range(7):
        feed.insert(slow[number], f"slow-{number}")
        sent += [f"user-{number}-{row}" for row in range(7)]
        feed.send(sent[-7:])
    queries: list[int] = []
    rows, name = follower.input._rows, follower.input.table  # type: ignore[attr-defined]

    def counted(connection: Any, query: str, *values: object) -> Any:
        answer = rows(connection, query, *values)
        if name in query:
            queries.append(len(answer))
        return answer

    monkeypatch.setattr(follower.input, "_rows", counted)
    mark = follower.input.reached()
    assert max(queries) <= 10
    assert len(mark[0].holes) == 7
    monkeypatch.setattr(follower.input, "_rows", rows)
    for writer in slow:
        feed.insert(writer, "more")
        feed.execute(writer, "COMMIT")
    assert follower.upto(mark) == sent
    again = follower.new()
    assert sorted(again) == sorted([f"slow-{number}" for number in range(7)] + ["more"] * 7)


@BOTH
def test_too_many_holes_stop_the_input_with_a_sentence(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is dropped to get on."""
    monkeypatch.setattr(table, "HOLES", 3)
    for number in range(4):
        feed.insert(feed.other(), "slow")
        feed.send([f"user-{number}"])
    with pytest.raises(dpi.StateError, match="more than 3 gaps"):
        follower.new()


@BOTH
def test_a_look_that_fails_is_dropped_and_the_next_one_counts(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is cut while it counts makes no mark, and no older mark stands for it; not for ever."""
    feed.send(["ada"])
    look = follower.input.look()
    assert isinstance(follower.input, Table)
    follower.input._snapshots[0].close()
    assert look() is None
    assert follower.new() == ["ada"]
    monkeypatch.setattr(log, "AWAY", -1.0)  # for as long as nothing may be counted
    look = follower.input.look()
    follower.input._snapshots[0].close()
    with pytest.raises(dpi.StateError, match="cannot be reached"):
        look()


@BOTH
def test_a_look_that_fails_in_the_midst_of_counting_forgets_no_hole(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had found is found again: late rows are read once, and holes stand in the marks once."""
    slow = [feed.other() for _ in range(2)]
    feed.insert(slow[0], "slow-0")
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    feed.execute(slow[0], "COMMIT")
    feed.insert(slow[1], "slow-1")
    feed.send(["bob"])

    def fail(connection: Any) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(follower.input, "_running", fail)
        assert follower.input.look()() is None
    mark = follower.input.reached()
    assert (mark[0].holes, mark[0].late) == (((3, 4),), 1)
    assert sorted(follower.upto(mark)) == ["bob", "slow-0"]
    feed.execute(slow[1], "COMMIT")
    assert follower.new() == ["slow-1"]
    assert not follower.input.lost


@BOTH
def test_no_older_mark_stands_for_a_look_that_was_made(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database goes away between a look and its counting: the look after it waits too, until one is counted."""
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    feed.send(["bob"])
    assert isinstance(follower.input, Table)
    first = follower.input.look()
    follower.input._snapshots[0].close()
    with monkeypatch.context() as patch:
        patch.setattr(follower.input, "_snapshot", lambda: None)
        second = follower.input.look()
        assert first() is None
        assert second() is None
    assert follower.new() == ["bob"]


@BOTH
def test_a_reader_whose_connection_was_closed_makes_another(feed: TableFeed, follower: Follower) -> None:
    """Between two marks, and in the midst of one."""
    feed.send(["ada"])
    assert follower.new() == ["ada"]
    assert isinstance(follower.input, Table)
    follower.input._reader.close()
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    assert not follower.input.lost


@BOTH
def test_a_look_is_made_though_connections_were_closed_meanwhile(feed: TableFeed, follower: Follower) -> None:
    """However many: it does not leave its slot to the next look."""
    assert isinstance(follower.input, Table)
    looks = [follower.input.look() for _ in range(3)]
    feed.send(["ada"])
    assert all(look() is not None for look in looks)
    assert len(follower.input._idle) >= 3
    for connection in follower.input._idle:
        connection.close()
    mark = follower.input.look()()
    assert mark is not None
    assert follower.upto(mark) == ["ada"]


@BOTH
def test_rows_that_were_removed_unread_are_lost(feed: TableFeed, follower: Follower) -> None:
    """The last row of a mark is missing, or the last one that was read, after which others may be."""
    remove = "DELETE FROM " + feed.table + " WHERE id = %s"  # noqa: S608
    feed.send(["ada", "bob", "eve"])
    mark = follower.input.reached()
    feed.execute(feed.connection, remove, 3)
    assert follower.upto(mark) == ["ada", "bob"]
    assert follower.input.lost
    feed.send(["joe"])
    follower.new()
    follower.input.lost = False
    feed.send(["max"])
    assert follower.new() == ["max"]
    assert not follower.input.lost
    feed.execute(feed.connection, remove, 5)
    feed.send(["ann"])
    assert follower.new() == ["ann"]
    assert follower.input.lost


@BOTH
def test_names_are_quoted_for_the_database(feed: TableFeed, follower: Follower) -> None:
    """A quote in a name ends no name."""
    assert isinstance(follower.input, Table)
    quote = follower.input.quote
    assert follower.input._quoted(f"a{quote}b") == f"{quote}a{quote}{quote}b{quote}"


@BOTH
def test_a_database_that_is_away_from_the_start_is_said_to_be(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no mark yet that could stand."""
    monkeypatch.setattr(follower.input, "_snapshot", lambda: None)
    with pytest.raises(dpi.StateError, match="cannot be reached"):
        follower.input.reached()


@BOTH
def test_looks_that_pile_up_stop_the_input_and_are_not_left_out(feed: TableFeed, follower: Follower) -> None:
    """A look that closes a slot is made when its time comes, or an error says that it cannot be."""
    looks = []
    for number in range(table.LOOKS):
        assert follower.input.busy == (number > 1)
        looks.append(follower.input.look())
        feed.send([f"user-{number}"])
    with pytest.raises(dpi.StateError, match="cannot be counted as fast"):
        follower.input.look()
    marks = [look() for look in looks]
    assert [mark[0].offset for mark in marks if mark is not None] == list(range(1, table.LOOKS + 1))


@BOTH
def test_a_late_row_that_is_erased_after_it_was_read_takes_no_other_with_it(
    feed: TableFeed, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions of late rows do not depend on which rows are still there."""
    monkeypatch.setattr(table, "MESSAGES", 1)
    slow = [feed.other() for _ in range(4)]
    for number, writer in enumerate(slow):
        feed.insert(writer, f"slow-{number}")
        feed.send([f"user-{number}"])
    first = follower.input.reached()
    follower.upto(first)
    for number in (0, 1, 3):
        feed.execute(slow[number], "COMMIT")
    second = follower.input.reached()
    assert follower.upto(second, blocks=2) == ["slow-0", "slow-1"]
    follower.input.close()
    feed.execute(feed.connection, "DELETE FROM " + feed.table + " WHERE id = 1")  # noqa: S608
    follower = Follower(feed.follow, follower.done, second)
    assert follower.upto(first) == []
    assert follower.upto(second) == ["slow-3"]
    feed.execute(slow[2], "COMMIT")
    assert follower.new() == ["slow-2"]
    follower.input.close()


@on(Postgres)
@pytest.mark.parametrize(
    ("made", "match"),
    [
        ("CREATE VIEW {name} AS SELECT * FROM {table}", "no view"),
        ("CREATE TABLE {name} () INHERITS ({table})", "INHERITS"),
        (
            "ALTER TABLE {table} ALTER id DROP IDENTITY; CREATE SEQUENCE {name}; "
            "ALTER TABLE {table} ALTER id SET DEFAULT nextval('{name}')",
            "OWNED",
        ),
        ("ALTER TABLE {table} ALTER COLUMN id SET CACHE 50", "CACHE 1"),
        ("ALTER TABLE {table} ALTER COLUMN id SET INCREMENT 2", "INCREMENT 1"),
    ],
)
def test_a_relation_whose_writers_are_not_seen_is_refused(feed: TableFeed, made: str, match: str) -> None:
    """Where a transaction that draws ids holds no lock on the table, or ids come out of order, rows would be lost."""
    name = f"{feed.table}_other"
    for statement in made.format(name=name, table=feed.table).split("; "):
        feed.execute(feed.connection, statement)
    if "VIEW" in made:
        feed.options = {"table": name}
    follower = Follower(feed.follow)
    with pytest.raises(dpi.StateError, match=match):
        follower.new()
    assert isinstance(follower.input, Table)
    assert not follower.input._snapshots  # nothing is left open
    follower.input.close()
    kind = next((kind for kind in ("VIEW", "SEQUENCE") if kind in made), "TABLE")
    feed.execute(
        feed.connection, f"ALTER TABLE {feed.table} ALTER id DROP DEFAULT" if kind == "SEQUENCE" else "SELECT 1"
    )
    feed.execute(feed.connection, f"DROP {kind} IF EXISTS {name}")


@on(Maria)
def test_a_column_of_mariadb_whose_ids_do_not_go_up_is_refused(feed: TableFeed, follower: Follower) -> None:
    """Only AUTO_INCREMENT gives ids in the order in which they are drawn."""
    feed.execute(feed.connection, f"ALTER TABLE {feed.table} MODIFY id bigint")
    with pytest.raises(dpi.StateError, match="AUTO_INCREMENT"):
        follower.new()


@on(Postgres)
def test_a_transaction_that_is_prepared_keeps_its_holes(feed: TableFeed, follower: Follower) -> None:
    """A commit in two phases gives a transaction another name: its rows count when the second phase comes."""
    with feed.connection.cursor() as cursor:
        (allowed,) = cursor.execute("SHOW max_prepared_transactions").fetchone()
    if int(allowed) == 0:
        pytest.skip("needs PostgreSQL with max_prepared_transactions above 0")
    slow = feed.other()
    feed.insert(slow, "slow")
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    feed.execute(slow, f"PREPARE TRANSACTION '{feed.table}'")
    for _ in range(5):
        assert follower.new() == []
    feed.execute(feed.connection, f"COMMIT PREPARED '{feed.table}'")
    assert follower.new() == ["slow"]


@on(Maria)
def test_a_prepared_transaction_of_mariadb_keeps_its_holes(feed: TableFeed, follower: Follower) -> None:
    """Also when its connection is gone."""
    slow = feed.other()
    feed.execute(slow, "COMMIT")
    feed.execute(slow, f"XA START '{feed.table}'")
    feed.insert(slow, "slow")
    feed.execute(slow, f"XA END '{feed.table}'")
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    feed.execute(slow, f"XA PREPARE '{feed.table}'")
    slow.close()
    feed.others.clear()
    try:
        for _ in range(5):
            assert follower.new() == []
            assert follower.input.reached()[0].holes
    finally:
        feed.execute(feed.connection, f"XA COMMIT '{feed.table}'")
    assert follower.new() == ["slow"]


@on(Postgres)
def test_transactions_elsewhere_keep_no_hole(feed: TableFeed, follower: Follower) -> None:
    """Only those that hold a lock to insert into the table are waited for."""
    other = Postgres()
    elsewhere = feed.other()
    other.insert(elsewhere, "elsewhere")
    undone = feed.other()
    feed.insert(undone, "never")
    feed.send(["bob"])
    assert follower.new() == ["bob"]
    feed.execute(undone, "ROLLBACK")
    forgotten(follower)
    feed.execute(elsewhere, "ROLLBACK")
    other.close()


@on(Maria)
def test_a_reader_that_may_not_see_transactions_is_refused_at_the_start(feed: TableFeed) -> None:
    """The refusal does not wait for a hole, so it does not depend on rows."""
    if "root@" not in MARIADB:
        pytest.skip("needs the root of a MariaDB, who may make a user")
    feed.send(["ada"])
    reader = f"{feed.table}_reader"
    feed.execute(feed.connection, f"CREATE USER {reader}@localhost")
    try:
        feed.execute(feed.connection, f"GRANT SELECT ON {feed.table} TO {reader}@localhost")
        feed.address = feed.address.replace("root@", f"{reader}@")
        follower = Follower(feed.follow)
        with pytest.raises(dpi.StateError, match="GRANT PROCESS"):
            follower.new()
        follower.input.close()
    finally:
        feed.execute(feed.connection, f"DROP USER {reader}@localhost")


@on(Maria)
def test_a_table_of_mariadb_without_snapshots_is_refused(feed: TableFeed, follower: Follower) -> None:
    """Other engines show rows that a transaction has not committed."""
    feed.execute(feed.connection, f"ALTER TABLE {feed.table} ENGINE = MyISAM")
    with pytest.raises(dpi.StateError, match="InnoDB"):
        follower.new()


@on(Postgres)
@pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="takes a minute: make test-all")
def test_a_backlog_of_millions_is_counted(feed: TableFeed, follower: Follower) -> None:
    """Four million rows lie in the table when it is followed first."""
    into = f'INSERT INTO {feed.table} ("user", time, value) '
    many = "SELECT 'u' || n, 1, 'x' FROM generate_series(1, 4000000) n"
    feed.execute(feed.connection, into + many)
    assert follower.input.reached()[0][2:] == (4_000_001, (), 0)


SECOND = 1_000_000


def kept_rows(feed: TableFeed, lateness: int, slow: bool, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Who is counted in which slot of ten seconds; with `slow`, one user's transactions are open over closing times."""
    store, kept, now = dpi.MemoryStore(), set[tuple[str, int]](), [0]
    options = {"domain": dpi.Categories(["x"]), "epsilon": 1, "slot": "10s", "lateness": f"{lateness}s"}
    stream = dpi.Stream(**options, start="1970-01-01", store=store)  # type: ignore[arg-type]

    def admit(events: Any, window: Window, *rest: object) -> None:
        for user, second in zip(events.users, map(int, events.times), strict=True):
            if window.first <= second // 10 and second * SECOND <= window.until:
                kept.add((user, second // 10))
        Stream.admit(stream, events, window, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(stream, "admit", admit)
    follower = Following(stream, dpi.broker(feed.address, unit="s", **feed.options))
    timer = Timer(follower.slots, follower.inputs, follower.journal, clock=lambda: now[0])

    def look(second: int) -> None:
        now[0] = second * SECOND
        if (noted := timer.look()) is not None:
            list(follower.reach(*noted))

    def write(connection: Any, second: int, *users: str) -> None:
        for user in users:
            feed.insert(connection, user, second)

    writers = [feed.other() for _ in range(2)] if slow else []
    look(0)
    for writer in writers:
        write(writer, 1, "slow")
    write(feed.connection, 3, *(f"early-{number}" for number in range(20)))
    look(5)
    write(feed.connection, 8, *(f"user-{number}" for number in range(20)))
    look(10 + lateness)
    for writer in writers[:1]:
        write(writer, 11, "slow again")
        feed.execute(writer, "COMMIT")
    write(feed.connection, 8, "late")
    write(feed.connection, 12, *(f"user-{number}" for number in range(20)))
    look(20 + lateness)
    for writer in writers[1:]:
        feed.execute(writer, "ROLLBACK")
    look(30 + lateness)
    follower.close()
    return kept


@BOTH
@pytest.mark.parametrize("lateness", [0, 7])
def test_open_transactions_of_one_user_change_no_slot_of_another(
    feed: TableFeed, lateness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From table to slots, the rows of others count alike with and without the user; the user's own row may be late."""
    without = kept_rows(feed, lateness, False, monkeypatch)
    feed.cut()
    with_user = kept_rows(feed, lateness, True, monkeypatch)
    everybody = {(f"early-{n}", 0) for n in range(20)} | {(f"user-{n}", slot) for n in range(20) for slot in (0, 1)}
    assert without == everybody
    assert with_user == everybody | {("slow again", 1)}


@BOTH
def test_decimal_numbers_are_read_by_their_digits(feed: TableFeed) -> None:
    """A price of a table is the text that a file would have."""
    feed.execute(feed.connection, f"ALTER TABLE {feed.table} ADD COLUMN price numeric(10, 2) DEFAULT 2.50")
    feed.options = {**feed.options, "value": "price"}
    feed.send(["ada"])
    follower = Follower(feed.follow)
    (block,) = follower.input.read(follower.input.reached())
    assert block.events.rows() == [("ada", "1", "2.50")]
    follower.input.close()
