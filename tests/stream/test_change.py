"""A change of options in mid-stream: from which slot on it holds, what goes on, and that nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.certificates.chain import canonical, extend
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import OptionError, StateError
from dpi.events.rows import Rows
from dpi.noise import UnsafeSeededSource
from dpi.store._rollback import charge
from dpi.store.witness import Seen
from dpi.stream import registration
from dpi.stream._option_history import OptionHistory
from dpi.verification import verify
from dpi.verification.releases import verify_releases

OLD = dpi.Categories(["DE", "FR", "IT"], other="elsewhere")
NEW = dpi.Categories(["FR", "ES", "DE"], other="elsewhere")
CLOCK = {"slot": "1h", "start": "2026-01-01"}
LEDGER = dpi.Ledger(per_slot="0.05")


def stream(store, **options):
    """A small stream in a store, with reproducible noise."""
    default = {"domain": OLD, "epsilon": 1, "budget": LEDGER, "unsafe_source": UnsafeSeededSource(4)}
    return dpi.Stream(store=store, **(default | options))


def crowd(slot, size=60):
    """Users and values of a slot; half of those who are in `elsewhere` are from ES."""
    values = ["DE"] * 6 + ["FR"] * 3 + ["IT"] * 2 + ["ES", "XX"]
    return [f"{slot} {user}" for user in range(size)], [values[user % len(values)] for user in range(size)]


def append(opened, hour, size=60):
    """The events of an hour, in its middle."""
    users, values = crowd(hour, size)
    now = f"2026-01-01T{hour:02d}:30"
    opened.append(users, [now] * size, values, now=now)


def begins(store):
    """The first slots that the entries of options state."""
    return [link.entry.get("from") for link in store.links() if link.entry["kind"] == "options"]


@pytest.fixture
def clock(monkeypatch):
    """Sets the system's clock, as far as declarations ask for it."""

    def at(time):
        class Clock(datetime):
            @classmethod
            def now(cls, zone=None):
                return datetime.fromisoformat(time).replace(tzinfo=UTC).astimezone(zone)

        monkeypatch.setattr(registration, "datetime", Clock)

    return at


# From which slot on.


@pytest.mark.parametrize(
    ("now", "change", "later"),
    [
        ("2026-01-01T02:30", True, 3),  # the slot after the one that has begun …
        ("2026-01-01T02:00", True, 3),
        ("2026-01-01T01:59:59.999999", True, 2),
        ("2025-06-01T00:00", True, 0),  # … and none that was released
        ("2026-01-01T02:30", "next", 0),
        ("2026-01-01T02:30", "2026-01-01T05:00", 5),
        ("2026-01-01T02:30", datetime(2026, 1, 1, 7, tzinfo=UTC), 7),
    ],
)
@pytest.mark.parametrize("released", [0, 1])
def test_a_change_begins_with_a_slot_that_the_clock_or_the_caller_says(clock, now, change, later, released):
    """Never before the next slot; that is where a stream which is played goes on with it."""
    clock(now)
    store = dpi.MemoryStore()
    first = stream(store, **CLOCK)
    append(first, 0)
    list(first.close_before(first.next_slot + released))
    changed = stream(store, domain=NEW, change=change, **CLOCK)
    start = first.setting.start
    assert begins(store) == [None, max(start + later, changed.next_slot)]
    assert changed.domain == (NEW if begins(store)[-1] == changed.next_slot else OLD)


def test_which_events_are_kept_says_nothing_of_when_a_change_begins(clock):
    """With and without somebody's events, of this slot or (the clock was set back) of later ones: the same entry."""
    clock("2026-01-01T02:30")
    entries = set()
    for hours in ([], [0], [0, 1, 2], [5]):
        store = dpi.MemoryStore(bytes(32))
        first = stream(store, **CLOCK)
        for hour in hours:
            append(first, hour)
        stream(store, domain=NEW, change=True, **CLOCK)
        entries.add([*store.links()][-1].text)
    assert len(entries) == 1


def test_a_change_does_not_begin_in_the_past_or_within_a_slot():
    """What was released keeps its options, and a slot has one set of them."""
    store = dpi.MemoryStore()
    first = stream(store, **CLOCK)
    first.release(*crowd(0))
    for change, said in (("2026-01-01T00:00", "must not be before the slot"), ("2026-01-01T02:30", "`change`")):
        with pytest.raises(OptionError, match=said):
            stream(store, domain=NEW, change=change, **CLOCK)
    assert begins(store) == [None]


@pytest.mark.parametrize("change", [True, "next"])
def test_a_stream_without_a_clock_changes_with_its_next_slot(change):
    """And one that has released nothing yet from its beginning on, whatever number that will have."""
    store = dpi.MemoryStore()
    stream(store)
    stream(store, domain=NEW, change=change).release(*crowd(0), slot=-7)
    stream(store, domain=OLD, change=change).release(*crowd(1))
    assert begins(store) == [None, None, -6]
    assert [release.domain for release in dpi.open(store)] == [NEW, OLD]
    assert verify(store).whole


def test_a_stream_without_a_clock_has_no_times():
    """A change that names one is refused."""
    store = dpi.MemoryStore()
    stream(store).release(*crowd(0))
    with pytest.raises(OptionError, match="has no clock"):
        stream(store, domain=NEW, change="2026-01-01")
    assert begins(store) == [None]


def test_a_later_declaration_holds_from_its_own_slot_on():
    """A change that was planned is dropped by one that begins before it, and followed by one that begins after."""
    store = dpi.MemoryStore()
    third = dpi.Categories(["IT"], other="elsewhere")
    stream(store, **CLOCK)
    stream(store, domain=NEW, change="2026-01-01T03:00", **CLOCK)
    stream(store, domain=third, change="2026-01-01T02:00", **CLOCK)
    opened = stream(store, domain=NEW, change="2026-01-01T04:00", **CLOCK)
    releases = [opened.release(*crowd(hour)) for hour in range(5)]
    assert [release.domain for release in releases] == [OLD, OLD, third, third, NEW]
    assert verify(store).whole


# Nothing is lost.


def test_open_slots_are_released_as_if_nothing_had_changed():
    """The slots before the change have the same releases, but for the chain, as in a stream without one."""
    releases = []
    for changed in (False, True):
        store = dpi.MemoryStore(bytes(32))
        opened = stream(store, **CLOCK)
        for hour in range(3):
            append(opened, hour)
        if changed:
            opened = stream(store, domain=NEW, change="2026-01-01T03:00", **CLOCK)
        append(opened, 2, size=90)
        opened.driver.source = UnsafeSeededSource(8)
        releases.append([json.loads(release.to_json()) for release in opened.advance(now="2026-01-01T03:00")])
    for one, other in zip(*releases, strict=True):
        one.pop("certificate"), other.pop("certificate")
        assert one == other
    assert len(releases[0]) == 3


@pytest.mark.parametrize("restarted", [False, True])
def test_values_of_both_domains_keep_their_estimate(restarted):
    """What the mechanism knows of them after the last slot is what it begins the next one with."""
    store = dpi.MemoryStore()
    opened = stream(store)
    for slot in range(6):
        opened.release(*crowd(slot))
    before = opened.driver.state
    changed = stream(store, domain=NEW, change="next")
    if restarted:
        changed = stream(store, domain=NEW)
    after = changed.driver.state
    for value in ("DE", "FR"):
        old, new = OLD.index(value), NEW.index(value)
        mine, theirs = (state.state.laws.mean for state in (before, after))
        assert np.allclose(theirs[:, new], mine[:, old] / mine.sum(1), rtol=1e-5)
        assert before.accumulation.released[old] == after.accumulation.released[new]
    assert after.accumulation.released[NEW.index("ES")] == 0
    assert after.accumulation.released.sum() == pytest.approx(before.accumulation.released.sum())
    assert (after.first, after.last, after.spent) == (before.first, before.last, before.spent)


def test_the_estimate_after_a_change_is_far_better_than_a_new_beginning():
    """A quiet slot after the change is forecast from memory; a stream that starts anew knows nothing of it."""
    store = dpi.MemoryStore()
    opened = stream(store, budget=dpi.Ledger(per_slot="0.15"))
    for slot in range(6):
        opened.release(*crowd(slot, 3000))
    truth = np.bincount(NEW.encode(crowd(9, 3000)[1]), minlength=NEW.size) / 3000
    found = stream(store, domain=NEW, budget=dpi.Ledger(per_slot="0.001"), change="next").release(*crowd(9, 3000))
    anew = stream(None, domain=NEW, budget=dpi.Ledger(per_slot="0.001")).release(*crowd(9, 3000))
    listed = [NEW.index("DE"), NEW.index("FR")]
    assert np.abs(found.pdf - truth)[listed].max() < 0.05
    assert np.abs(anew.pdf - truth)[listed].max() > 0.15


def test_a_tree_keeps_its_finished_sums_and_no_open_node():
    """Sums of all slots stay, those of new values begin at none, and the nodes that were open are thrown away."""
    store, tree = dpi.MemoryStore(), dpi.stream.PrefixTree(per_slot="0.02", arity=2, levels=3)
    opened = stream(store, accumulate=tree)
    for slot in range(7):
        opened.release(*crowd(slot))
    before = opened.driver.state.tree
    changed = stream(store, domain=NEW, accumulate=tree, change="next")
    after = changed.driver.state.tree
    assert after.sums()[NEW.index("DE")] == before.sums()[OLD.index("DE")]
    assert after.sums()[NEW.index("ES")] == 0
    assert after.sums().sum() == pytest.approx(before.sums().sum())
    assert (after.nodes, after.variance) == (before.nodes, before.variance)
    assert not set(before.opened.ravel().tolist()) & set(after.opened.ravel().tolist())
    for slot in range(7, 12):
        changed.release(*crowd(slot))
    assert changed.driver.state.tree.nodes <= before.nodes + 4
    assert verify(store).whole


def test_a_budget_of_another_size_begins_with_its_slot():
    """Slots before it cost what they were declared to cost; the ledger is the same."""
    store = dpi.MemoryStore()
    stream(store, **CLOCK)
    changed = stream(store, budget=dpi.Ledger(per_slot="0.2"), change="2026-01-01T02:00", **CLOCK)
    spent = [changed.release(*crowd(hour)).epsilon for hour in range(4)]
    assert spent == pytest.approx([0.05, 0.05, 0.2, 0.2])
    assert dpi.open(store).newest.epsilon_spent == pytest.approx(0.5)
    assert verify(store).whole


def test_a_budget_that_is_chosen_by_what_was_released_goes_on_choosing():
    """Of another number of bins it is not a new beginning, which takes a quarter of ε."""
    store = dpi.MemoryStore()
    opened = stream(store, budget=dpi.Ledger(policy=dpi.budget.spend_first))
    for slot in range(4):
        last = opened.release(*crowd(slot, 5000))
    changed = stream(store, budget=dpi.Ledger(), domain=dpi.Categories(["DE"]), change="next")
    assert changed.release(*crowd(5, 5000)).epsilon < 2 * last.epsilon < 0.25


@pytest.mark.parametrize("given", [True, False])
def test_compression_and_mechanism_change_with_their_slot(given):
    """Slots before keep those they had, also where a new process has to make them of what the store states."""
    store = dpi.MemoryStore()
    old = {"compression": dpi.histogram.truncate(2, bytes(range(32))), "mechanism": dpi.Boosted(season=3)}
    stream(store, **old, **CLOCK)
    new = {"mechanism": dpi.Boosted(season=7), **CLOCK}
    changed = stream(store, change="2026-01-01T02:00", **new)
    changed = changed if given else stream(store, **new)
    assert repr(changed.setting.compression) == "truncate(2, key=…)"
    releases = [changed.release(*crowd(hour)) for hour in range(4)]
    stated = [release.certificate["parameters"]["season"] for release in releases]
    assert stated[0] == stated[1] != stated[2] == stated[3]
    assert changed.setting.compression == dpi.histogram.normalise
    assert verify(store).whole


def test_a_hashed_domain_of_an_open_slot_needs_its_key():
    """The newest domain has it, or it cannot be found: then open slots are released first, or the change is theirs too.

    It is refused when it is declared, for then every event would be refused until the open slots are released.
    """
    store, key = dpi.MemoryStore(), bytes(range(32))
    stream(store, domain=dpi.Hashed(8, key), **CLOCK)
    changed = stream(store, domain=dpi.Hashed(16, key), change="2026-01-01T01:00", **CLOCK)
    append(changed, 0)
    assert changed.domain.index("DE") == dpi.Hashed(8, key).index("DE")
    for other in (dpi.Hashed(4, bytes(32)), dpi.Product(page=dpi.Hashed(4, bytes(32)), land=OLD)):
        with pytest.raises(StateError, match="whose key is not here"):
            stream(store, domain=other, change="2026-01-01T01:00", **CLOCK)
    assert begins(store) == [None, changed.next_slot + 1]
    later = stream(store, domain=dpi.Hashed(4, bytes(32)), change="next", **CLOCK)
    append(later, 0)
    assert verify(store).whole


def test_a_paid_slot_is_released_under_its_own_options(monkeypatch):
    """Whoever opens the stream with other options releases it first, as it would have been."""
    results = []
    for interrupted in (True, False):
        store = dpi.MemoryStore(bytes(32))
        opened = stream(store)
        opened.release(*crowd(0))
        opened.driver.source = UnsafeSeededSource(6)
        if interrupted:
            with monkeypatch.context() as patch:
                patch.setattr(type(store), "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    opened.release(*crowd(1))
        else:
            opened.release(*crowd(1))
        changed = stream(store, domain=NEW, budget=dpi.Ledger(per_slot="0.1"), change="next")
        results.append(changed.released(1))
        assert begins(store)[-1] == changed.next_slot == 2
        assert changed.release(*crowd(2), slot=2).domain == NEW
        assert verify(store).whole
    assert results[0].content() == results[1].content()
    assert results[0].domain == OLD


# Played streams.


@pytest.mark.parametrize("files", [False, True])
def test_a_period_is_played_over_a_change(tmp_path, files):
    """Every slot of a table or of files is told by its own domain, in one pass."""
    store = dpi.MemoryStore()
    stream(store, **CLOCK)
    changed = stream(store, domain=NEW, change="2026-01-01T02:00", **CLOCK)
    hours = [hour for hour in range(4) for _ in range(60)]
    columns = [crowd(hour) for hour in range(4)]
    table = pl.DataFrame(
        {
            "user": [user for users, _ in columns for user in users],
            "time": [f"2026-01-01T{hour:02d}:10" for hour in hours],
            "value": [value for _, values in columns for value in values],
        }
    )
    events = table
    if files:
        table.write_csv(tmp_path / "visits.csv")
        events = dpi.read(tmp_path / "visits.csv")
    releases = list(changed.replay(events, start="2026-01-01", end="2026-01-01T04:00"))
    assert [release.domain for release in releases] == [OLD, OLD, NEW, NEW]
    assert all(abs(release.total - 60) < 400 for release in releases)


def test_rows_of_another_slots_domain_are_refused():
    """A bin that the slot's own domain does not have would be another account's, and refuses the slot."""
    store = dpi.MemoryStore()
    opened = stream(store, **CLOCK)
    for bin in (OLD.size, -1):
        rows = Rows(np.zeros((1, 2), np.uint64), np.zeros(1, np.int64), np.array([bin]), np.ones(1, np.int64))
        with pytest.raises(OptionError, match="slot's own domain"):
            opened.driver.close(opened.next_slot, rows)
    assert opened.next_slot == opened.setting.start


# What is certified.


@pytest.fixture
def changed_store():
    """A store with a change behind it and one before it; and its releases."""
    store = dpi.MemoryStore()
    stream(store, **CLOCK)
    stream(store, domain=NEW, change="2026-01-01T02:00", **CLOCK)
    opened = stream(store, domain=OLD, change="2026-01-01T09:00", **CLOCK)
    return store, [opened.release(*crowd(hour)) for hour in range(4)]


def test_releases_that_span_a_change_are_verified(changed_store):
    """As objects, and read back from text and tables; each certificate states the options of its slot."""
    store, releases = changed_store
    assert verify(store).whole
    assert verify_releases(releases, store=store).whole
    assert [release.domain for release in dpi.open(store)] == [OLD, OLD, NEW, NEW]
    texts = [release.to_json() for release in releases]
    again = [dpi.Release.from_json(text, release.domain) for text, release in zip(texts, releases, strict=True)]
    assert verify_releases(again).whole
    stated = [release.certificate["options"] for release in releases]
    options = store.options("").of_each(lambda text: DeclaredOptions.from_text(text).digest)
    assert stated == [options.at(release.slot) for release in releases]


def verified(store, entry):
    """What is found with one more entry, which is taken back."""
    content = store._content
    store._content = replace(content, links=(*content.links, extend(store.head(), entry)))
    try:
        return verify(store)
    finally:
        store._content = content


def test_a_release_under_the_options_of_another_slot_is_found(changed_store):
    """An entry that says so does not pass, nor does one that changes slots which were released."""
    store, _ = changed_store
    links = [*store.links()]
    last = links[-1].entry
    options = store.options("").of_each(lambda text: DeclaredOptions.from_text(text).digest)
    forged = {**last, "slot": last["slot"] + 1, "options": options.at(last["slot"] + 6)}
    assert any("other options than the stream declared" in problem for problem in verified(store, forged).problems)
    entry = next(link.entry for link in links if link.entry.get("from") is not None)
    late = verified(store, {**entry, "from": last["slot"]})
    assert any("slots that were released" in problem for problem in late.problems)
    for first in ("soon", 1.5, None):
        assert verified(store, {**entry, "from": first}).problems
    assert verify(store).whole


def test_options_that_the_chain_does_not_state_are_found(changed_store):
    """A change that only the store's table knows, or that begins elsewhere in it."""
    store, _ = changed_store
    kept, schedule = store._content.streams[""], store.options("")
    for other in (schedule.changed(10**6, schedule.newest), schedule.since(schedule.entries[1][0] - 1)):
        store._write({"": replace(kept, options=other)})
        assert any("not those of the chain" in problem for problem in verify(store).problems)
    store._write({"": kept})
    assert verify(store).whole


def test_an_entry_of_an_older_program_holds_for_all_that_is_kept():
    """Options without a first slot: what the slots before had is in their certificates, and nothing of it is kept."""
    store = dpi.MemoryStore()
    opened = stream(store)
    opened.release(*crowd(0))
    wider = stream(None, domain=NEW).setting
    facts = {"kind": "options", "stream": "", "options": wider.to_options(), "program": "dpi 0.2"}
    domain = (NEW.digest, canonical(dpi.domain.file.describe(NEW)))
    store.declare("", wider.text, domain, extend(store.head(), facts))
    assert verify(store).problems == ()


def test_lost_slots_over_a_change_start_the_estimator_anew(changed_store):
    """A copy from before the change, charged for slots on both sides of it, goes on under the options of after it."""
    store = dpi.MemoryStore()
    first = stream(store)
    first.release(*crowd(0))
    stream(store, domain=NEW, change="next")
    last, spent = store.reached("")
    charge(store, Seen(9, "lost", {"": last + 3}, {"": spent + 3 * (1 << 36)}))
    again = stream(store, domain=NEW)
    assert again.release(*crowd(4)).slot == last + 4
    assert verify(store).problems == ()


class Own(dpi.Boosted):
    """A mechanism of somebody's own, which no family has."""

    kind = "somebody's own"


def test_options_that_cannot_be_made_again_are_refused_before_anything_is_said(monkeypatch):
    """A class that no family has stays until no slot needs it; what comes after it starts anew, and sums go on."""
    store = dpi.MemoryStore()
    opened = stream(store, mechanism=Own(), **CLOCK)
    opened.release(*crowd(0))
    for change in ("2026-01-01T03:00", datetime(2026, 1, 1, 2, tzinfo=UTC)):
        with pytest.raises(StateError, match="cannot make again"):
            stream(store, change=change, **CLOCK)
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            opened.release(*crowd(1))
    with pytest.raises(StateError, match="cannot make again"):  # a slot is paid for
        stream(store, change="next", **CLOCK)
    assert begins(store) == [None]
    before = stream(store, mechanism=Own(), **CLOCK).driver.state
    after = stream(store, change="next", **CLOCK).driver.state
    assert not after.state.known
    assert after.accumulation.to_bytes() == before.accumulation.to_bytes()
    assert verify(store).whole


def test_a_mechanism_of_ones_own_goes_on_over_a_change_of_the_domain():
    """It is at hand, so that open slots have it."""
    store = dpi.MemoryStore()
    stream(store, mechanism=Own(), **CLOCK)
    changed = stream(store, mechanism=Own(), domain=NEW, change="2026-01-01T01:00", **CLOCK)
    assert [changed.release(*crowd(hour)).domain for hour in range(2)] == [OLD, NEW]


def test_a_course_is_read_where_it_is_needed():
    """Options of slots that nobody asks for are not made: what is past need not be known any more."""
    store = dpi.MemoryStore()
    stream(store, **CLOCK)
    newest = stream(store, domain=NEW, change="2026-01-01T01:00", **CLOCK)._newest
    course = OptionHistory(newest, store)
    store._content.domains.pop(OLD.digest)
    assert course.at(newest.start + 1) is course.newest
    with pytest.raises(KeyError):
        course.at(newest.start)
    with pytest.raises(StateError, match="open it anew"):
        OptionHistory(stream(None, **CLOCK)._newest, store)
