"""What every store must do, as a list of small checks to run on one's own.

The checks play small streams of made-up users on the store. Each needs a store of its own, and the means to find out
what a later process would find of it: a `Reopen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Protocol, Unpack

import numpy as np

from dpi.budget.accounts import Accounts
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Converging, Ledger
from dpi.budget.policy import fade, spend_first
from dpi.budget.series import Zeta
from dpi.domain import Categories
from dpi.errors import OptionError
from dpi.events.rows import Rows
from dpi.noise import UnsafeSeededSource
from dpi.store import MemoryStore, Store
from dpi.store.base import PaidSlot
from dpi.stream import Stream
from dpi.testing._checking import refused, require, run_checks
from dpi.testing.workload import CLOCK, DOMAIN, Options, close_slot, open_streams, outcome, run
from dpi.verification import verify

BUDGET = Ledger(per_slot="0.4", policy=spend_first)
NOW, LATER = "2026-01-01T00:10", "2026-01-01T01:00"


class Reopen(Protocol):
    """Without a store: opens one that is new and empty. With it: closes it, and opens what a later process finds."""

    def __call__(self, store: Store | None = None, /) -> Store:
        """Return the store."""
        ...


StoreCheck = Callable[[Reopen], None]


def check_store(fresh: Callable[[], Reopen]) -> None:
    """Run `STORE_CHECKS`, each on a store of its own; raises `AssertionError` that names the check that fails.

    >>> import tempfile, pathlib
    >>> from dpi.store import MemoryStore
    >>> def fresh():
    ...     path = pathlib.Path(tempfile.mkdtemp()) / "saved"
    ...     def reopen(store=None):
    ...         if store is None:
    ...             return MemoryStore()
    ...         store.save(path)
    ...         return MemoryStore.load(path)
    ...     return reopen
    >>> check_store(fresh)
    """
    for check in STORE_CHECKS:
        run_checks((check,), fresh())


def all_stores_give_the_same_ledger_releases_and_certificates(reopen: Reopen) -> None:
    """Check that a workload ends in the bytes that it has in memory, stopped after each slot or not."""
    store = reopen()
    expected, resumed = MemoryStore(store.key), list[str]()
    releases = [release.to_json() for release in run(expected)]
    for slots in (1, 1, 2, 4):
        resumed += [release.to_json() for release in run(store, slots)]
        store = reopen(store)
    require(resumed == releases, "releases differ from those of a store in memory, or were made twice.")
    actual, wanted = outcome(store), outcome(expected)
    for part, content in wanted.items():
        require(actual[part] == content, f"the {part} differ from those of a store in memory.")
    require(not actual["problems"], f"the store does not verify: {actual['problems']}")
    store.close()


def a_paid_slot_is_released_with_the_bytes_it_would_have_had(reopen: Reopen) -> None:
    """Check that a slot that was paid for and not released is released on opening, from the stored measurement."""
    store = reopen()
    whole = MemoryStore(store.key)
    close_slot(open_streams(whole)[1], 0)
    with _killed(store, "publish", after=False):
        close_slot(open_streams(store)[1], 0)
    pending = store.pending("orders")
    require(pending is not None and pending.slot == 0, "a slot that was paid for and not released is not pending.")
    if store.durable:  # what is saved of a store in memory has no interrupted slot
        store = reopen(store)
    open_streams(store)
    require(outcome(store) == outcome(whole), "a slot that was released after a stop is another one.")
    store.close()


def a_pending_slot_of_one_stream_binds_the_others(reopen: Reopen) -> None:
    """Check that between a payment and its doubtful end no other stream goes on with accounts that lack the payment."""
    store, budget = reopen(), Ledger(per_slot="0.6")
    one, two = (_stream(store, name=name, budget=budget) for name in ("one", "two"))
    with _killed(store, "pay", after=True):
        one.release(["ada"], ["DE"])
    two.release(["ada"], ["DE"])
    store = reopen(store)
    require(abs(_spent(store, "", "ada") - 1) < 1e-6, "a payment whose end nobody heard is forgotten.")
    store.close()


def no_account_goes_beyond_epsilon(reopen: Reopen) -> None:
    """Check that streams that share a ledger spend one ε, over restarts; an empty slot is released too."""
    store = reopen()
    for _ in range(3):
        for name, users, values in (("one", ["ada", "ada", "bob"], ["DE", "FR", "IT"]), ("two", [], [])):
            _stream(store, name=name).release(users, values)
            require(_accounts(store, "").within, "an account has spent more than ε.")
        store = reopen(store)
    require(abs(_spent(store, "", "ada") - 1) < 1e-6, "after three slots of 0.4 an account is not empty.")
    for name in ("one", "two"):
        require(len([*store.releases(name)]) == 3, "a slot was not released.")
    require(verify(store).intact, "the store does not verify.")
    store.close()


def separate_pools_are_separate(reopen: Reopen) -> None:
    """Check that a stream with an ε of its own leaves the shared accounts alone, and states the sum."""
    store = reopen()
    _stream(store, name="shared")
    alone = _stream(store, name="alone", separate=True)
    alone.release(["ada"], ["DE"])
    require(_spent(store, "", "ada") == 0, "a stream with accounts of its own has debited shared ones.")
    require("sum to 2" in alone.guarantee, "the guarantee of two separate streams does not name the sum.")
    store.close()


def appended_events_count_once(reopen: Reopen) -> None:
    """Check that a batch whose (producer, sequence) is known is not counted again, also by another process."""
    store = reopen()
    for sequence, fresh in ((0, True), (0, False), (1, True), (1, False)):
        stream = _stream(store, **CLOCK)
        for producer in ("p", "q"):
            kept = stream.append(["ada"], [NOW], ["DE"], now=NOW, producer=producer, sequence=sequence)
            require(kept is fresh, "a batch is not distinguished from its repetition.")
        store = reopen(store)
    stream = _stream(store, **CLOCK)
    counts = store.events("", stream.next_slot).counts
    require(int(counts.sum()) == 4, "events of an open slot were lost, or counted twice.")
    require(len([*stream.advance(now=LATER)]) == 1, "a slot whose time is over is not released.")
    require(store.events("", stream.next_slot - 1).counts.size == 0, "events outlive their slot.")
    store.close()


def marks_are_kept_until_they_are_forgotten(reopen: Reopen) -> None:
    """Check that they come in order, for one stream, also noted by another thread and read by another process."""
    store = reopen()
    for name in ("a", "b"):
        _stream(store, **(CLOCK | {"name": name}))
    noting = Thread(target=lambda: [store.note("a", number, f"mark {number}") for number in (0, 1, 2)])
    noting.start()
    noting.join()
    store = reopen(store)
    all_ = [(0, "mark 0"), (1, "mark 1"), (2, "mark 2")]
    require(store.marks("a") == all_, "marks are lost, or out of order.")
    require(store.marks("b") == [], "a stream has the marks of another.")
    store.forget_marks("b", 9)
    store.forget_marks("a", 1)
    store = reopen(store)
    require(store.marks("a") == all_[1:], "other marks than those before a number were forgotten.")
    store.close()


def a_payment_erases_the_events_of_all_slots_until_then(reopen: Reopen) -> None:
    """Check that events kept for a slot before the one that is paid are erased with it, and that later ones stay."""
    store = reopen()
    _stream(store, **CLOCK)
    slots, names = np.arange(3, 7), np.arange(8, dtype=np.uint64).reshape(-1, 2)
    store.append("", Rows(names, slots, np.zeros(4, np.int64), np.ones(4, np.int64)), "p", 0)
    store.pay(PaidSlot("", 5, 1, False, bytes(8), "{}"), "", b"")
    left = [store.events("", slot).counts.size for slot in slots.tolist()]
    require(left == [0, 0, 0, 1], "a payment erases too much or too little of the events.")
    store.close()


def a_change_loses_no_event(reopen: Reopen) -> None:
    """Check that events of slots that are open when options change are released under their own slot's options."""
    store, wider = reopen(), Categories(["FR", "ES"], other="elsewhere")
    first = _stream(store, **CLOCK)
    first.append(["ada", "bob"], [NOW, NOW], ["DE", "FR"], now=NOW)
    new: Options = {**CLOCK, "domain": wider}
    number = _stream(store, **(new | Options(change=LATER))).next_slot
    store = reopen(store)
    stated = store.options("")
    require(stated.at(number) == first.setting.text, "an open slot has lost its options.")
    require(stated.at(number + 1) != stated.at(number), "a slot that has not begun has options of those before it.")
    later = "2026-01-01T01:10"
    again = _stream(store, **new)
    again.append(["dora"], [NOW], ["IT"], now=NOW, sequence=1)
    again.append(["cy", "ada"], [NOW, later], ["DE", "ES"], now=later, sequence=2)  # cy comes too late
    again.append(["cy"], [later], ["XX"], now=later, sequence=3)
    kept = [store.events("", slot) for slot in (number, number + 1)]
    require(sorted(kept[0].bins.tolist()) == [0, 1, 2], "a change has lost or moved an event.")
    require(sorted(kept[1].bins.tolist()) == [1, 2], "an event is not told by the domain of its own slot.")
    released = [release.domain for release in again.advance(now="2026-01-01T02:00")]
    require(released == [DOMAIN, wider], "a slot is not released under its own domain.")
    require(verify(store).intact, "a store over a change does not verify.")
    store.close()


def events_of_slots_that_change_are_told_by_their_new_bins(reopen: Reopen) -> None:
    """Check that of events of the slot with which a change begins, those with a bin in the new domain stay."""
    store, other = reopen(), Categories(["FR", "DE"], other=None)
    first = _stream(store, **CLOCK)
    first.append(["ada", "bob", "cy", "cy"], [NOW] * 4, ["DE", "FR", "IT", "FR"], now=NOW)
    new: Options = {**CLOCK, "domain": other, "change": "next"}
    number = _stream(store, **new).next_slot
    store = reopen(store)
    kept = store.events("", number)
    require(sorted(kept.bins.tolist()) == [0, 0, 1], "events are not told by the bins of their slot's new domain.")
    require(kept.counts.tolist() == [1, 1, 1], "events were counted anew.")
    store.close()


def a_ledger_of_another_promise_is_refused_before_the_chain_says_anything(reopen: Reopen) -> None:
    """Check that a stream that cannot share the ledger leaves no trace in the store, nor does such a change of one."""
    store = reopen()
    _stream(store, name="one")
    others: tuple[Options, ...] = ({"epsilon": 2}, {"budget": Ledger(per_slot="0.4", policy=fade())})
    for options in others:
        with refused(OptionError, "a stream of another promise shares a ledger."):
            _stream(store, **(options | {"name": "two"}))
        with refused(OptionError, "a stream changes what a ledger promises."):
            _stream(store, **(options | {"name": "one", "change": True}))
    require([*store.streams()] == ["one"], "a stream that was refused is in the store.")
    require(len([*store.links()]) == 1, "a stream that was refused is in the chain.")
    store.close()


def accounts_with_a_period_serve_one_stream(reopen: Reopen) -> None:
    """Check that a second stream on accounts with epochs is refused when it is opened."""
    store, budget = reopen(), Ledger(per_slot="0.4", period=10)
    _stream(store, name="one", budget=budget)
    with refused(OptionError, "two streams share accounts with a period."):
        _stream(store, name="two", budget=budget)
    require(len([*store.links()]) == 1, "a stream that was refused is in the chain.")
    store.close()


def a_stream_that_was_opened_twice_releases_a_slot_once(reopen: Reopen) -> None:
    """Check that of two objects of one stream the second to close a slot is refused, whatever its budget."""
    store, budget = reopen(), Converging(Zeta(2))
    one, two = _stream(store, budget=budget), _stream(store, budget=budget)
    one.release(["ada"], ["DE"])
    with refused(OSError, "one slot was released twice."):
        two.release(["ada"], ["DE"])
    require(two.next_slot == 1, "a stream that was refused does not see what the other has released.")
    require(len([*store.releases("")]) == 1, "one slot was released twice.")
    store.close()


STORE_CHECKS: tuple[StoreCheck, ...] = (
    all_stores_give_the_same_ledger_releases_and_certificates,
    a_paid_slot_is_released_with_the_bytes_it_would_have_had,
    a_pending_slot_of_one_stream_binds_the_others,
    no_account_goes_beyond_epsilon,
    separate_pools_are_separate,
    appended_events_count_once,
    marks_are_kept_until_they_are_forgotten,
    a_payment_erases_the_events_of_all_slots_until_then,
    a_change_loses_no_event,
    events_of_slots_that_change_are_told_by_their_new_bins,
    a_ledger_of_another_promise_is_refused_before_the_chain_says_anything,
    accounts_with_a_period_serve_one_stream,
    a_stream_that_was_opened_twice_releases_a_slot_once,
)


def _stream(store: Store, **options: Unpack[Options]) -> Stream:
    """Open a small stream with a reproducible source."""
    defaults: Options = {"domain": DOMAIN, "epsilon": 1, "budget": BUDGET, "unsafe_source": UnsafeSeededSource(1)}
    return Stream(store=store, **(defaults | options))


def _accounts(store: Store, ledger: str) -> Accounts:
    """Return the store's accounts of a ledger of ε = 1."""
    accounts = BUDGET.accounts(Epsilon.at_most(1), store.key)
    accounts.resume(store.load_ledger(ledger, store.ledgers()[ledger])[0], {}, [])
    return accounts


def _spent(store: Store, ledger: str, user: str) -> float:
    """Return what a user has spent."""
    import polars as pl

    return 1 - float(_accounts(store, ledger).remaining(pl.Series([user]), 0)[0])


@contextmanager
def _killed(store: Store, method: str, *, after: bool) -> Iterator[None]:
    """Interrupt what is done inside, as by Ctrl-C, before or after a method of the store has done its work."""
    real = getattr(store, method)

    def stop(*values: object, **named: object) -> None:
        if after:
            real(*values, **named)
        raise KeyboardInterrupt

    setattr(store, method, stop)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        delattr(store, method)
    raise AssertionError(f"`{method}` was not called.")
