"""Two processes that write to one store: the second is kept out, and where it is not, no payment is made twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from contender import USERS

import dpi
from dpi.certificates.chain import extend
from dpi.errors import StateError, StoreBusy, StoreError
from dpi.noise import UnsafeSeededSource
from dpi.store import Store
from dpi.testing.workload import CLOCK, DOMAIN, outcome
from dpi.verification import check_accounts, verify

CONTENDER = Path(__file__).with_name("contender.py")
RANDOM = dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0))


def stream(store: Store, **options) -> dpi.Stream:
    """A small stream that takes 0.6 of an account of 1."""
    default = {"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.6")}
    return dpi.Stream(store=store, **(default | {"unsafe_source": UnsafeSeededSource(1)} | options))


def spent(store: Store, user: str) -> float:
    """What the stored ledger says that a user has spent."""
    accounts = dpi.Ledger(policy=dpi.budget.spend_first).accounts(dpi.budget.Epsilon.at_most(1), store.key)
    accounts.resume(store.load_ledger("", accounts.description)[0], {}, [])
    return 1 - float(accounts.remaining(pl.Series([user]), 0)[0])


@pytest.fixture
def both(durable) -> Callable[[], Store]:
    """Opens the store for writing, for as many writers as one likes: each loses its right as soon as it has it."""
    opened: list[Store] = []

    def another() -> Store:
        opened.append(durable())
        opened[-1].engine.give_up()
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.mark.parametrize("way", ["no lock file", "hard link", "soft link, no lock file"])
def test_a_file_has_one_writer_by_whatever_name(sqlite, key_file, tmp_path, way) -> None:
    """A removed lock file, or another name of the database, lets no second process write."""
    other = str(tmp_path / "other.db") if "link" in way else sqlite
    with dpi.open_store(sqlite, key_file=key_file, witness=False) as store:
        stream(store)
        if "link" in way:
            (os.link if way == "hard link" else os.symlink)(sqlite, other)
        if "lock" in way:
            Path(sqlite + ".lock").unlink()
        for _ in range(2):
            with pytest.raises(StoreBusy, match="another process writes"):
                dpi.open_store(other, key_file=key_file)
        dpi.open_store(other, read_only=True).close()
    dpi.open_store(other, key_file=key_file).close()


def locks(path: str) -> int:
    """How many POSIX locks this process has on a file."""
    inode, process = os.stat(path).st_ino, os.getpid()
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(row[1] == "POSIX" and row[4] == str(process) and row[5].endswith(f":{inode}") for row in rows)


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")


@linux
@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_a_refused_writer_leaves_the_locks_of_sqlite_alone(sqlite, key_file, read_only) -> None:
    """Whoever is refused closes no descriptor of a file that this process has a connection to."""
    dpi.open_store(sqlite, key_file=key_file).close()
    script = "import sys, dpi\nif sys.argv[3:]:\n    opened = dpi.open_store(sys.argv[1], key_file=sys.argv[2])\n"
    command = [sys.executable, "-c", script + "print('open', flush=True)\ninput()", sqlite, str(key_file)]
    with dpi.open_store(sqlite, key_file=key_file, read_only=read_only) as store:
        store.streams()
        other = subprocess.Popen(
            [*command, "write"] if read_only else command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
        )  # fmt: skip
        assert other.stdout.readline() == "open\n"
        before = locks(sqlite)
        assert before > 0
        with pytest.raises(StoreBusy):
            dpi.open_store(sqlite, key_file=key_file)
        assert locks(sqlite) == before
        other.communicate("\n")


@linux
def test_a_writer_that_is_closed_leaves_a_readers_locks_alone(sqlite, key_file) -> None:
    """What was opened for the writer is closed with the last connection of the process, and then can be opened anew."""
    store = dpi.open_store(sqlite, key_file=key_file)
    with dpi.open_store(sqlite, read_only=True) as reader:
        reader.streams()
        store.close()
        assert locks(sqlite) > 0
        dpi.open_store(sqlite, key_file=key_file).close()
        assert locks(sqlite) > 0
    assert locks(sqlite) == 0
    assert not any(os.path.realpath(f"/proc/self/fd/{number}") == sqlite for number in os.listdir("/proc/self/fd"))


def test_accounts_that_another_has_debited_do_not_pay(both) -> None:
    """The second of two writers is refused, writes nothing, reads the accounts anew, and takes what is left."""
    first = both()
    one, _ = (stream(first, name=name) for name in ("one", "two"))
    second = both()
    two = stream(second, name="two")
    one.release(["ada"], ["DE"])
    before = outcome(first)
    with pytest.raises(StoreBusy, match="another process has written"):
        two.release(["ada"], ["DE"])
    assert outcome(first) == before
    two.release(["ada"], ["DE"])
    assert spent(first, "ada") == pytest.approx(1, abs=1e-6)
    with pytest.raises(StoreBusy):
        one.release(["ada"], ["DE"])
    one.release(["ada"], ["DE"])
    assert check_accounts(first) == ()
    assert verify(first).problems == ()


def test_accounts_that_nobody_holds_any_more_refuse_no_payment(both) -> None:
    """A stream without accounts is refused once, and not for ever, if another has debited those of a stream gone by."""
    first = both()
    one, other = (
        stream(first, name="one"),
        stream(first, name="other", budget=dpi.Converging(dpi.budget.Zeta(2)), separate=True),
    )
    one.release(["ada"], ["DE"])
    del one, other
    other = stream(first, name="other", budget=dpi.Converging(dpi.budget.Zeta(2)), separate=True)
    stream(both(), name="one").release(["ada"], ["DE"])
    with pytest.raises(StoreBusy):
        other.release(["ada"], ["DE"])
    assert other.release(["ada"], ["DE"]).slot == 0


@pytest.mark.parametrize("users", [[], ["ada"]], ids=["nobody", "somebody"])
def test_a_refusal_does_not_tell_whether_anybody_has_paid(both, monkeypatch, users) -> None:
    """A payment by another that is not published yet is noticed, also if no account was debited."""
    first = both()
    one, _ = (stream(first, name=name) for name in ("one", "two"))
    second = both()
    two = stream(second, name="two")
    monkeypatch.setattr(first, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        one.release(users, ["DE"] * len(users))
    with pytest.raises(StoreBusy):
        two.release(["ada"], ["DE"])
    two.release(["ada"], ["DE"])
    assert spent(second, "ada") == pytest.approx(1 if users else 0.6, abs=1e-6)


def test_a_seal_that_is_not_the_one_read_is_refused(both) -> None:
    """Accounts that changed without a payment or an entry of the chain are not paid from."""
    store = both()
    opened = stream(store)
    opened.release(["ada"], ["DE"])
    store.engine.execute("UPDATE ledgers SET seal = ?", (bytes(32),))
    with pytest.raises(StoreBusy):
        opened.release(["ada"], ["DE"])
    with pytest.raises(StateError, match="seal does not match"):
        opened.release(["ada"], ["DE"])
    assert [paid.slot for paid in store.measurements("")] == [0]


def test_an_element_of_a_series_is_drawn_once(both) -> None:
    """Two writers on a random series take turns: whoever is behind is refused, and no element is given twice."""
    writers = [stream(both(), budget=RANDOM, unsafe_source=UnsafeSeededSource(seed)) for seed in (1, 2)]
    drawn = []
    for slot in range(8):
        writer, other = writers if slot % 2 else reversed(writers)
        drawn.append(writer.release([], [], slot=slot).epsilon)
        with pytest.raises(StoreBusy):
            other.release([], [], slot=slot)
        assert other.next_slot == slot + 1
    assert max(Counter(drawn).values()) == 1
    assert sum(drawn) <= 1
    assert verify(writers[0].store).problems == ()


def test_a_series_that_another_has_moved_on_does_not_pay(both) -> None:
    """Slots that another process has skipped, as after a restored copy, are not paid for by a writer that is behind."""
    first = both()
    opened = stream(first, budget=RANDOM)
    opened.release([], [])
    second = both()
    facts = {"kind": "restored", "format": 1, "last": {"": 5}, "spent_units": {}, "charged_units": {}}
    second.restored({}, {"": replace(second.progress(""), last=5)}, extend(second.head(), facts))
    with pytest.raises(StoreBusy):
        opened.release([], [], slot=1)
    assert opened.next_slot == 6


def test_whoever_is_behind_declares_appends_and_changes_nothing(both) -> None:
    """Every kind of write by a process that is behind is refused once, and then goes on from what is stored."""
    first, second = both(), both()
    one = stream(first, name="one", **CLOCK)
    now, later = "2026-01-01T00:10", "2026-01-01T01:00"
    with pytest.raises(StoreBusy):
        stream(second, name="two")
    two = stream(second, name="two")
    with pytest.raises(StoreBusy):
        one.append(["ada"], [now], ["DE"], now=now)
    assert one.append(["ada"], [now], ["DE"], now=now)
    two.release(["ada"], ["DE"])
    with pytest.raises(StoreBusy):
        next(one.advance(now=later))
    assert next(one.advance(now=later)).slot == one.setting.start
    assert [link.entry["stream"] for link in first.links()] == ["one", "two", "two", "one"]
    assert verify(first).problems == ()


def test_options_that_another_has_changed_are_not_paid_under(both) -> None:
    """A stream whose options were changed by another process does not go on under its old ones."""
    first = both()
    opened = stream(first)
    stream(both(), budget=dpi.Ledger(per_slot="0.1"), change=True)
    with pytest.raises(StoreBusy):
        opened.release(["ada"], ["DE"])
    with pytest.raises(StateError, match="options were changed"):
        opened.release(["ada"], ["DE"])
    assert spent(first, "ada") == 0


def test_every_stream_of_a_process_that_was_refused_reads_anew(both) -> None:
    """After one stream was refused, no other of the same store goes on from what it had read before."""
    first = both()
    one, two = stream(first, name="one", budget=RANDOM), stream(first, name="two", budget=RANDOM, separate=True)
    two.release([], [])
    second = both()
    facts = {"kind": "restored", "format": 1, "last": {"two": 5}, "spent_units": {}, "charged_units": {}}
    second.restored({}, {"two": replace(second.progress("two"), last=5)}, extend(second.head(), facts))
    with pytest.raises(StoreBusy):
        one.release([], [])
    one.release([], [])
    assert two.next_slot == 6


@pytest.mark.parametrize("lost", ["chain", "payments"])
def test_a_store_that_went_back_is_not_read_anew(both, lost) -> None:
    """A writer that was interrupted does not go on from a store that has lost what this writer wrote to it."""
    store = both()
    opened = stream(store)
    opened.release(["ada"], ["DE"])
    if lost == "chain":
        store.engine.execute("DELETE FROM chain WHERE entry = 1")
    else:
        store.engine.execute("DELETE FROM measurements")
    with pytest.raises(StoreBusy):
        opened.release(["ada"], ["DE"])
    for _ in range(2):
        with pytest.raises(StateError, match="gone back"):
            opened.release(["ada"], ["DE"])


def test_a_session_that_the_server_ended_pays_nothing(postgres, key_file) -> None:
    """When the server ends a session and gives the right to another, the first one writes no more."""
    import psycopg

    first = dpi.open_store(postgres, key_file=key_file)
    one = stream(first, name="one")
    stream(first, name="two")
    process = first.engine.rows("SELECT pg_backend_pid()")[0][0]
    with psycopg.connect(os.environ.get("DPI_TEST_POSTGRES", "postgresql:///postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (process,))
    with dpi.open_store(postgres, key_file=key_file, wait=10) as second:
        stream(second, name="two").release(["ada"], ["DE"])
        for _ in range(2):
            with pytest.raises(StoreError):
                one.release(["ada"], ["DE"])
        assert spent(second, "ada") == pytest.approx(0.6, abs=1e-6)
    first.close()
    with dpi.open_store(postgres, key_file=key_file) as third:
        stream(third, name="one").release(["ada"], ["DE"])
        assert spent(third, "ada") == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("budget", [dpi.Ledger(per_slot="0.6"), RANDOM], ids=["ledger", "series"])
def test_of_two_transactions_at_the_same_time_one_happens(postgres, key_file, monkeypatch, budget) -> None:
    """A payment that another one overtakes between its comparison and its end is refused by the server."""
    first = dpi.open_store(postgres, key_file=key_file)
    options = {"budget": budget, "separate": budget is RANDOM}
    one, _ = (stream(first, name=name, **options) for name in ("one", "two"))
    first.engine.execute("SELECT pg_advisory_unlock_all()")
    second = dpi.open_store(postgres, key_file=key_file)
    two, compare = stream(second, name="two", **options), first._compare

    def overtaken(ledger: str | None) -> None:
        compare(ledger)
        two.release(["ada"], ["DE"])

    with monkeypatch.context() as patch:
        patch.setattr(first, "_compare", overtaken)
        with pytest.raises(StoreBusy, match="another process has written"):
            one.release(["ada"], ["DE"])
    assert one.next_slot == 0
    one.release(["ada"], ["DE"])
    assert verify(first).problems == ()
    first.close()
    second.close()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


def test_what_another_releases_meanwhile_is_no_damage(both, monkeypatch) -> None:
    """One that asks what is pending while slots are released and paid for is told of none that is released by then."""
    store = both()
    with stream(store, budget=dpi.Ledger(per_slot="0.1")) as one:
        one.release(["a"], [0])
        before = store.reached("")
        for _ in range(2):
            one.release(["a"], [0])
        told = iter([before])
        now = store.reached
        monkeypatch.setattr(store, "reached", lambda name: next(told, None) or now(name))
        assert store.pending("") is None


def test_two_processes_on_the_same_accounts_take_no_more_than_epsilon(sqlite, key_file) -> None:
    """Two processes without a lock release at the same time: what both have taken from each user is at most ε."""
    path = sqlite
    dpi.open_store(path, key_file=key_file).close()
    contenders = []
    for name in ("one", "two"):
        command = [sys.executable, str(CONTENDER), path, str(key_file), name, "12"]
        contender = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert contender.stdout.readline() == "open\n"
        Path(path + ".lock").unlink()
        contenders.append(contender)
    for contender in contenders:
        contender.stdin.write("go\n")
        contender.stdin.flush()
    said = [json.loads(contender.communicate()[0]) for contender in contenders]
    assert all(contender.returncode == 0 for contender in contenders)
    assert sum(result["refused"] for result in said) > 0
    for user in USERS:
        assert 0.99 * 2**40 < sum(result["taken"][user] for result in said) <= 2**40
    with dpi.open_store(path, key_file=key_file) as store:
        assert [len([*store.releases(name)]) for name in ("one", "two")] == [12, 12]
        assert [*verify(store).problems, *check_accounts(store)] == []


def test_a_snapshot_within_another_is_part_of_it(sqlite, key_file) -> None:
    """What another process writes meanwhile is seen by neither, and by whoever asks after the outer one."""
    with dpi.open_store(sqlite, key_file=key_file) as store, dpi.open_store(sqlite, read_only=True) as reader:
        with reader.snapshot():
            before = reader.streams()
            dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store, name="visits")
            with reader.snapshot():
                assert reader.streams() == before == {}
            assert reader.streams() == before
        assert set(reader.streams()) == {"visits"}
