"""What texts, names and reprs of a store let out: nothing private."""

from __future__ import annotations

import pytest

import dpi
from dpi.certificates.chain import Head
from dpi.errors import StoreError
from dpi.events.rows import Rows
from dpi.store.base import PaidSlot
from dpi.testing.workload import CLOCK, DOMAIN, KEY, close_slot, events, open_streams, run
from dpi.verification import verify

PRIVATE_TEXT = "postgres-would-quote-this"


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("INSERT INTO facts (name, value) VALUES ('schema', ?)", (PRIVATE_TEXT,)),
        ("INSERT INTO events (stream, slot, block, data) VALUES (?, 0, 0, ?)", (PRIVATE_TEXT, None)),
        ("INSERT INTO sequences (stream, producer, sequence) VALUES ('', '', ?)", (PRIVATE_TEXT,)),
        ("SELECT nothing FROM facts WHERE name = ?", (PRIVATE_TEXT,)),
        ("SELECT ?::int", (PRIVATE_TEXT,)),
    ],
)
def test_errors_never_quote_a_row(durable, statement, values) -> None:
    """A database's own message may hold the values of a row; ours says the kind of error, with nothing behind it."""
    with durable() as store:
        if "::" in statement and store.engine.path is not None:
            pytest.skip("a cast of PostgreSQL")
        if "sequence)" in statement and store.engine.path is not None:
            pytest.skip("SQLite takes any value in any column")
        with pytest.raises(StoreError) as raised:
            store.engine.rows(statement, values)
    error: BaseException | None = raised.value
    assert PRIVATE_TEXT not in str(error)
    assert PRIVATE_TEXT not in repr(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_password_is_not_in_what_is_said() -> None:
    """Neither an address that cannot be read nor a server that refuses gives the password away."""
    for url in ("postgresql://u:hunter2@localhost:1/x?connect_timeout=1", "postgresql://u:a:hunter2@localhost:x/y"):
        with pytest.raises(StoreError) as raised:
            dpi.open_store(url)
        assert "hunter2" not in str(raised.value)


def test_reprs_say_nothing_private(durable) -> None:
    """The key, ids, accounts, events and charges are not in the repr of anything that holds them."""
    store = durable()
    stream = dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Ledger(per_slot="0.1"), store=store, **CLOCK)
    stream.append(["zq-private-zq"], ["2026-01-01T00:10"], ["DE"], now="2026-01-01T00:10")
    kept = store.events("", stream.next_slot)
    bill = stream._accounts.bill(
        stream._accounts.names(dpi.events.identity.users(["zq-private-zq"])), stream.epsilon, 0
    )
    things = [store, store.engine, stream, stream._accounts, kept, bill, stream._accounts.charge(bill), store._accounts]
    text = " ".join(repr(thing) for thing in [*things, dpi.MemoryStore(KEY), Rows.empty()])
    for private in (
        KEY.hex(),
        repr(KEY)[2:20],
        "zq-private-zq",
        str(int(kept.names[0, 0])),
        kept.names.tobytes().hex(),
    ):
        assert private not in text
    store.close()


def test_the_chain_holds_public_facts_only(durable) -> None:
    """Two stores whose users differ, with the same noisy measurements, have the same chain: no digest of an account."""
    with durable() as store:
        for _ in run(store, 2):
            pass
        links = [link.entry for link in store.links()]
    names = {"parameters", "epsilon", "epsilon_spent", "epsilon_total", "first"}
    names |= {"adjacency", "epsilon_spent_units", "epsilon_total_units", "epsilon_units", "format", "kind"}
    names |= {"measurement", "mechanism", "options", "previous", "program", "release", "sequence", "slot", "stream"}
    assert {name for entry in links for name in entry} == names | {"classes"}
    due = {name for entry in links for each in entry.get("classes", ()) for name in each}
    assert due == {"class", "group", "epsilon", "epsilon_units", "share_steps", "most_left_units"}
    users = {
        user for name in ("visits", "orders", "alone", "members") for slot in range(2) for user in events(name, slot)[0]
    }
    assert not any(user in str(links) for user in users)


def test_what_a_payment_writes_has_a_size_that_no_drawn_value_changes(sqlite, key_file) -> None:
    """Measurements of very different values take the same bytes, so that a full disk cannot depend on them."""
    sizes = set()
    with dpi.open_store(sqlite, key_file=key_file) as store:
        stream = open_streams(store)[1]
        close_slot(stream, 0)
        for slot, value in enumerate((0, 1, -(2**62), 2**62), stream.next_slot):
            paid = PaidSlot(stream.name, slot, 1, False, value.to_bytes(8, "little", signed=True) * 4, "{}")
            store.pay(paid, "", b"")
            row = "SELECT length(CAST(data AS BLOB)) + length(seal) FROM measurements WHERE stream = ? AND slot = ?"
            sizes.add(store.engine.rows(row, (stream.name, slot))[0][0])
        assert store.head() != Head()
    assert len(sizes) == 1


def test_an_analyst_with_rights_on_public_tables_can_verify_and_sees_no_account(postgres, server, key_file) -> None:
    """PostgreSQL can let a role read and verify what is public; the private tables stay closed to it."""
    import psycopg

    with dpi.open_store(postgres, key_file=key_file) as store:
        for _ in run(store, 2):
            pass
        schema = store.engine.schema
    role = f"{schema}_analyst"
    with psycopg.connect(server, autocommit=True) as connection:
        try:
            connection.execute(f"CREATE ROLE {role}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the user of the test server may not create roles")
        try:
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            for table in ("facts", "chain", "releases", "measurements", "progress", "streams", "domains"):
                connection.execute(f"GRANT SELECT ON {schema}.{table} TO {role}")
            with dpi.open_store(f"{postgres}&options=-c%20role%3D{role}", read_only=True) as analyst:
                assert verify(analyst).intact
                for table in ("account_runs", "ledgers", "levies", "events", "sequences", "trees"):
                    with pytest.raises(StoreError, match="InsufficientPrivilege"):
                        analyst.engine.rows(f"SELECT * FROM {table}")  # noqa: S608 - a fixed list
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
