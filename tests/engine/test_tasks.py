"""The slot job: buckets together are the slot, whichever way rows were cut, doubled or shuffled."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.budget.account_records import Buckets, merged
from dpi.engine.tasks import Closing, close_rows, presum
from dpi.errors import OptionError, StateError
from dpi.events.identity import by_name, digests
from dpi.events.rows import Rows
from dpi.events.slots import FOR_EVER, Window
from dpi.exact.integers import MOST
from dpi.histogram.grouping import Groups
from dpi.noise import UnsafeSeededSource
from dpi.sources import Admission, Events
from dpi.store.base import Levy
from dpi.stream.closing import Counting, Offer
from dpi.stream.state import StreamState
from dpi.testing.class_sums import SharedSums
from played_rows import weighed

KEY = bytes(range(32))
DOMAIN = dpi.Categories([f"v{n}" for n in range(7)], other="else")
SLOTS = dpi.Slots("1h")
BITS = [0, 1, 3, 8]
OPTIONS = {
    "shares": {},
    "shared histograms": {"budget": dpi.Ledger(policy=dpi.budget.clocked(3)), "mechanism": SharedSums()},
    "per slot": {"budget": dpi.Ledger(per_slot="0.3")},
    "truncate": {"budget": dpi.Ledger(per_slot="0.3"), "compression": dpi.histogram.truncate(2, KEY)},
    "whole pdf": {
        "budget": dpi.Ledger(per_slot="0.3"),
        "compression": dpi.histogram.whole_pdf,
        "mechanism": dpi.Published(dpi.mechanism.published.Multinomial(8, 6)),
    },
    "series": {"budget": dpi.Converging(dpi.budget.Zeta(2))},
}


def arrivals(
    events: Events, bits: int, window: Window = FOR_EVER, last: int | None = 4
) -> tuple[Rows, list[tuple[int, ...]]]:
    """The rows of some events by slot and bucket, and as tuples of slot, bucket, name, bin and count."""
    rows, buckets = presum(Admission(SLOTS, DOMAIN, KEY, 0, last).admit(events, window), Buckets(bits))
    columns = (rows.slots, buckets, *rows.names.T, rows.bins, rows.counts)
    return rows, list(zip(*(column.tolist() for column in columns), strict=True))


def made_events(seed: int, rows: int = 400) -> Events:
    """Events of text and integer ids, some without user, time or value, and one user with very many."""
    rng = np.random.default_rng(seed)
    ids = [None, "busy", *(str(n) for n in range(40)), *(f"name {n}" for n in range(40))]
    users = [ids[n] for n in rng.integers(0, len(ids), rows)] + ["busy"] * rows
    times = rng.integers(-3600, 6 * 3600, 2 * rows).astype(object)
    times[rng.integers(0, rows, 9)] = None
    values = [None if n == 9 else f"v{n}" for n in rng.integers(0, 10, 2 * rows)]
    return Events(users, pl.Series(times.tolist(), dtype=pl.Int64), values, "s")


def parts(events: Events, cuts: int) -> list[Events]:
    """The same events in several batches."""
    size = -(-len(events.users) // cuts)
    at = [slice(start, start + size) for start in range(0, len(events.users), size)]
    return [Events(events.users[s], events.times[s], events.values[s], events.unit) for s in at]


@pytest.mark.parametrize("bits", BITS)
def test_arrivals_are_the_admitted_events_by_the_first_bits_of_their_names(bits):
    """Each row is in the bucket of its account, each slot of the period, and together they are all events."""
    _, rows = arrivals(made_events(1), bits)
    assert all(bucket == high >> (64 - bits) for _, bucket, high, *_ in rows)
    assert {slot for slot, *_ in rows} == {0, 1, 2, 3}
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    _, same = arrivals(made_events(1), 0)
    assert sorted((slot, *rest) for slot, _, *rest in rows) == sorted((slot, *rest) for slot, _, *rest in same)


def test_a_name_above_two_to_the_63_is_in_an_upper_bucket():
    """The first word of a name is unsigned: as a signed number half of the names would be in negative buckets."""
    names = digests(pl.Series([f"user {n}" for n in range(500)]), KEY)
    found = Buckets(3).of(names)
    assert set(found.tolist()) == set(range(8))
    assert ((names[:, 0] >= 2**63) == (found >= 4)).all()


def test_an_event_far_in_the_future_changes_no_other_row():
    """An attacker's event of the year 9999 is dropped by itself, in a period with or without an end."""
    plain = made_events(2)
    for last, window in ((4, FOR_EVER), (None, dpi.events.slots.Clock(SLOTS, "1970-01-01T04:00").window)):
        far = Events(
            [*plain.users, "eve"], pl.concat([plain.times, pl.Series([253_000_000_000])]), [*plain.values, "v1"], "s"
        )
        with_it, without = (arrivals(each, 2, window, last)[1] for each in (far, plain))
        assert sorted(with_it) == sorted(without)


def slot_of(option: str, slots: int = 2, cuts: int = 1, bits: int = 3):
    """A stream after some slots, and what its next slot would be, whole and by buckets."""
    opened = dpi.Stream(
        domain=DOMAIN, epsilon=1, unsafe_source=UnsafeSeededSource(1), store=dpi.MemoryStore(KEY), **OPTIONS[option]
    )
    for slot in range(slots):
        opened.release([f"name {n}" for n in range(20 + slot)] * 2, [f"v{n % 7}" for n in range(40 + 2 * slot)])
    options, accounts = opened.setting, opened._accounts
    offer = Offer.draw(opened.driver.state, opened.driver._allocation, slots, UnsafeSeededSource(5))
    batches = [arrivals(part, bits)[0] for part in parts(made_events(3), cuts)]
    frames = [batch.only(batch.slots == slots) for batch in batches]
    return opened, options, accounts, offer, Rows.sum([Rows.empty(), *frames]), frames


def closing_of(options, offer: Offer, slot: int, levies: tuple[Levy, ...] = ()) -> Closing:
    """What tasks are told of a slot."""
    budget = options.budget if isinstance(options.budget, dpi.Ledger) else None
    return Closing(Counting.of(options), offer, slot, budget, options.epsilon, levies)


def in_bucket(records: bytes, buckets: Buckets, bucket: int) -> bytes:
    """The records of one bucket."""
    rows = np.frombuffer(records, np.uint8).reshape(-1, 36)
    return rows[buckets.of(np.ascontiguousarray(rows[:, :16]).view(np.uint64)) == bucket].tobytes()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(("bits", "cuts"), [(0, 1), (3, 1), (3, 5), (8, 3)])
def test_buckets_together_are_the_slot(option, bits, cuts):
    """Grains and charged accounts of all buckets are those of the whole slot, however its rows were cut."""
    opened, options, accounts, offer, whole, frames = slot_of(option, cuts=cuts, bits=bits)
    clean, charge = weighed(options, whole, accounts, offer, 2)
    records = b"" if accounts is None else opened.store.load_ledger("", accounts.description)[0]
    payments = opened.store.payments("")
    buckets, results = Buckets(bits), []
    closing = closing_of(options, offer, 2)
    for bucket in range(buckets.number):
        together = Rows.join([frame.only(buckets.of(frame.names) == bucket) for frame in frames])
        held = in_bucket(records, buckets, bucket), in_bucket(payments, buckets, bucket)
        results.append(close_rows(together, bucket, buckets, closing, *held))
    total = np.sum([grains for grains, _ in results], axis=0)
    assert (options.compression.finish(total) == clean.grains).all()
    if charge is not None:
        assert merged(b"".join(part.records() for _, part in results)) == merged(charge.records())
        assert merged(b"".join(part.payments() for _, part in results)) == merged(charge.payments())


def test_doubled_rows_are_made_one_before_anything_is_rounded():
    """floor(w·1/3) twice is less than floor(w·2/3): rows of one account and bin are added before they are weighed."""
    names = digests(pl.Series(["ada"]), KEY)
    one = Rows(names[[0, 0]], np.array([0, 0]), np.array([0, 1]), np.array([2, 1]))
    two = Rows(names[[0, 0, 0]], np.array([0, 0, 0]), np.array([0, 1, 0]), np.array([1, 1, 1]))
    opened = dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Converging(dpi.budget.Zeta(2)))
    offer = Offer.draw(
        StreamState.initial(opened.setting, opened._source), opened.setting.allocation(), 0, opened._source
    )
    closing, buckets = closing_of(opened.setting, offer, 0), Buckets(1)
    bucket = int(buckets.of(names)[0])
    results = [close_rows(rows, bucket, buckets, closing)[0].tolist() for rows in (one, two)]
    assert results[0] == results[1]
    assert results[0][:2] == [2 * 2**24 // 3, 2**24 // 3]


def test_a_flood_is_cut_at_the_most():
    """Counts of one (account, bin) stop at `MOST`, also where several batches have it."""
    names = digests(pl.Series(["ada"]), KEY)[[0, 0]]
    rows = Rows(names, np.zeros(2, np.int64), np.array([1, 1]), np.array([MOST, MOST]))
    (_, pairs), *more = Groups(rows, 2).pairs()
    assert not more
    assert pairs.counts.tolist() == pairs.rows.tolist() == [MOST]


@pytest.mark.parametrize("size", [0, 1, 2, 300])
@pytest.mark.parametrize("alike", [False, True])
def test_rows_are_sorted_by_name_and_bin_also_where_names_begin_alike(size, alike):
    """The fast order is that of the plain one, for names that differ in their last bits only as well."""
    rng = np.random.default_rng(size)
    names = rng.integers(0, 5 if alike else 2**63, (max(1, size // 3), 2)).astype(np.uint64)[
        rng.integers(0, max(1, size // 3), size)
    ]
    bins = rng.integers(0, 4, size)
    order, plain = by_name(names, bins), np.lexsort((bins, names[:, 1], names[:, 0]))
    assert sorted(order.tolist()) == list(range(size))
    assert (names[order] == names[plain]).all()
    assert (bins[order] == bins[plain]).all()


def test_rows_of_another_slot_or_bucket_are_refused():
    """A row that was moved would be weighed without its account: refused, not counted."""
    names = digests(pl.Series(["ada"]), KEY)
    rows = Rows(names, np.array([0]), np.array([0]), np.array([1]))
    opened = dpi.Stream(domain=DOMAIN, epsilon=1)
    offer = Offer.draw(opened.driver.state, opened.setting.allocation(), 0, opened._source)
    buckets = Buckets(1)
    bucket = int(buckets.of(names)[0])
    for slot, at in ((1, bucket), (0, 1 - bucket)):
        with pytest.raises(StateError, match="another slot or bucket"):
            close_rows(rows, at, buckets, closing_of(opened.setting, offer, slot))


def test_levies_are_charged_in_every_bucket():
    """Lost slots that cost all of ε leave nobody anything to pay with, in any bucket."""
    opened, options, _, offer, whole, _ = slot_of("per slot")
    buckets = Buckets(1)
    closing = closing_of(options, offer, 2, (Levy(0, opened.epsilon.units),))
    for bucket in range(2):
        grains, charge = close_rows(whole.only(buckets.of(whole.names) == bucket), bucket, buckets, closing)
        assert not grains.any()
        assert charge.records() == b""


@pytest.mark.parametrize("bits", [-1, 17, True, 2.0])
def test_a_number_of_bits_that_is_none_is_refused(bits):
    """Buckets are told by 0 to 16 bits."""
    with pytest.raises(OptionError, match="bits"):
        Buckets(bits)
