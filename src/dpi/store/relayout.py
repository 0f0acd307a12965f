"""Moving a store's accounts from one layout to another, without a refill.

All accounts are read with their seals checked, written in the new layout, and the one transaction that lists them there
forgets them here: before it nothing has changed, after it the old files are named by nobody. Names, amounts, levies and
events of open slots are the same, and so are the options and the chain.

**Guarantee.** No account has more left afterwards. *Why:* every record is read or the move is refused, a log is written
in its order, and what is sealed in the transaction is a ledger whose seal was as it had been read.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from dpi.budget.account_table import Buckets
from dpi.errors import StateError, StoreBusy
from dpi.events.rows import Rows
from dpi.store.arrival_files import read_segments, sorted_by_bucket, write_sections
from dpi.store.bank import Bank
from dpi.store.bucket_log import BucketLog
from dpi.store.engine import OTHER_WRITER
from dpi.store.folder import Folder
from dpi.store.layout import BITS, LAYOUT, Layout
from dpi.store.schema import fact, set_fact
from dpi.store.sql import SQLStore

BEGUN = "layout begun"
"""The fact by which a store remembers a folder that it has begun to fill."""


def lay_out(store: SQLStore, path: Path, bits: int = BITS) -> None:
    """Put the accounts of a store into 2^bits buckets of files in a new folder, wherever they are now.

    Memory has to hold what is one part now: a bucket, or all accounts that lie in the database.
    """
    buckets = Buckets(bits)
    store.key  # noqa: B018 - without it nothing is made
    folder = Folder.made(path, _mark(store, path))
    try:
        with folder.attempt() as attempt:
            _fill(store, folder, buckets, attempt)
    except BaseException:
        if store.folder is None or store.folder.path != folder.path:
            with suppress(Exception):
                folder.remove()
        raise


def _mark(store: SQLStore, path: Path) -> str:
    """The mark of a folder that is begun: known to the store before the folder is, so that a later process goes on."""
    begun = fact(store.engine, BEGUN)
    known = {} if not begun else json.loads(begun)
    if known.get("path") != str(path.absolute()):
        known = {"path": str(path.absolute()), "mark": secrets.token_hex(16)}
        with store._writing():
            set_fact(store.engine, BEGUN, json.dumps(known))
    return str(known["mark"])


def _fill(store: SQLStore, folder: Folder, buckets: Buckets, attempt: str) -> None:
    log, old, before = store._accounts, store.folder, _seals(store)
    names = log.names()
    target = BucketLog(store.engine, store.key, folder, buckets)
    runs = {}
    for name, options in names.items():
        log.check(name, options)
        runs[name] = target.lay_out(attempt, name, log.parts(name))
    sections = {
        (stream, slot): write_sections(folder, attempt, *sorted_by_bucket(events, buckets))
        for stream in store.streams()
        for slot in store.open_slots(stream, -(1 << 62))
        if (events := _in_files(store, stream, slot)).slots.size
    }
    with store._writing():
        _compare(store, before)
        set_fact(store.engine, LAYOUT, Layout(str(folder.path), folder.mark, buckets.bits).to_json())
        set_fact(store.engine, BEGUN, "")
        for name in names:
            log.clear(name)
            target.put(name, runs[name])
        store.engine.execute("DELETE FROM arrivals")
        for (stream, _), listed in sections.items():
            store._list(stream, listed)
    _settle(store, old)


def page(store: SQLStore, path: Path) -> None:
    """Put the accounts of a store into pages in a new folder, wherever they are now.

    Memory has to hold what is one part now: a bucket, or all accounts that lie in the database.
    """
    if store.in_pages is not None:
        return
    store.key  # noqa: B018 - without it nothing is made
    folder = Folder.made(path, _mark(store, path))
    try:
        _take_in(store, Layout(str(folder.path), folder.mark, None).to_json())
    except BaseException:
        if store.in_pages is None:
            with suppress(Exception):
                folder.remove()
        raise


def embed(store: SQLStore) -> None:
    """Put the accounts of a store back into its database; memory has to hold all of them when they are paid from."""
    if store.layout is not None:
        _take_in(store, "")


def _take_in(store: SQLStore, layout: str) -> None:
    """Move accounts and events from files to a layout that has events in the database."""
    log, old, before = store._accounts, store.folder, _seals(store)
    names = log.names()
    for name, options in names.items():
        log.check(name, options)
    events = [
        (stream, _in_files(store, stream, slot))
        for stream in store.streams()
        for slot in store.open_slots(stream, -(1 << 62))
    ]
    with store._writing():
        _compare(store, before)
        set_fact(store.engine, LAYOUT, layout)
        set_fact(store.engine, BEGUN, "")
        target = store._accounts
        for name in names:
            parts = log.parts(name)
            first = next(parts, b"")  # which has read the list of files
            log.clear(name)
            target.append_each(name, chain([first], parts))
            target.reseal(name)
        store.engine.execute("DELETE FROM arrivals")
        for stream, kept in events:
            store._log.add(stream, [kept])
    _settle(store, old)


def _in_files(store: SQLStore, stream: str, slot: int) -> Rows:
    """The events of an open slot that lie in files."""
    if store.folder is None:
        return Rows.empty()
    sections = store.sections(stream, slot)
    parts = [part for section in sections for part in read_segments(store.folder, section)]
    return Rows.sum([Rows.empty(), *parts])


def _seals(store: SQLStore) -> dict[str, bytes]:
    return {str(name): bytes(seal) for name, seal in store.engine.rows("SELECT ledger, seal FROM ledgers")}


def _compare(store: SQLStore, before: Mapping[str, bytes]) -> None:
    """Refuse to go on if a ledger was paid from since it was read."""
    if _seals(store) != before:
        raise StoreBusy(OTHER_WRITER)


def _settle(store: SQLStore, old: Folder | None) -> None:
    """What this process knows of ledgers is read anew; what is left of the old layout goes."""
    store._known.seals = {name: seal for name, seal in _seals(store).items() if name in store._known.seals}
    Bank.of(store).doubt()
    store.erase()
    if old is not None:
        with suppress(StateError):  # it is another's, or not there: nothing of ours is in it
            old.remove()
