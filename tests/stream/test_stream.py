import stat
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpi
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.errors import ClockError, OptionError, SchemaError, StateError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi.options.schedule import Schedule
from dpi.release import Release, from_frame, to_frame
from dpi.sources import Admission, Events

DOMAIN = dpi.Categories(["a", "b", "c"], other=None)


def stream(**options):
    """A small stream with a reproducible source and an hourly clock."""
    defaults = {
        "domain": DOMAIN, "epsilon": 1, "slot": "1h", "budget": dpi.Ledger(per_slot=0.1),
        "unsafe_source": UnsafeSeededSource(1),
    }  # fmt: skip
    return dpi.Stream(**(defaults | options))


def events(slots=4, users=30):
    """Rows of users who visit at their own minute of every hour."""
    rows = [(f"u{u}", f"2026-01-01T{s:02d}:{u % 60:02d}:00", "abc"[u % 3]) for s in range(slots) for u in range(users)]
    return {"user": [r[0] for r in rows], "time": [r[1] for r in rows], "value": [r[2] for r in rows]}


PERIOD = {"start": "2026-01-01T00:00", "end": "2026-01-01T04:00"}
FORMS = {
    "columns": dict,
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "arrow": pa.table,
    "rows": lambda t: [dict(zip(t, row, strict=True)) for row in zip(*t.values(), strict=True)],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_kind_of_table_gives_the_same_releases(form):
    """With the test generator the releases do not depend on the library that holds the events."""
    expected = [r.to_json() for r in stream().replay(events(), **PERIOD)]
    assert [r.to_json() for r in stream().replay(form(events()), **PERIOD)] == expected


def test_every_slot_is_released_in_any_order_of_rows():
    """Empty slots too, and the order of a file does not matter."""
    table = pl.DataFrame(events(slots=2))
    mixed = table.sample(fraction=1.0, shuffle=True, seed=3)
    ordered, shuffled = ([*stream().replay(t, **PERIOD)] for t in (table, mixed))
    assert [r.slot for r in ordered] == list(range(ordered[0].slot, ordered[0].slot + 4))
    assert ordered == shuffled
    assert ordered[0].start == datetime(2026, 1, 1, tzinfo=UTC)
    assert ordered[0].start_text == "2026-01-01T00:00:00+00:00"


def test_the_start_of_a_slot_is_a_moment():
    """A datetime with the offset of the stream's zone, also of a release that was written and read.

    As text it is the same as ever, and so are the bytes that a certificate vouches for.
    """
    berlin = stream(zone="Europe/Berlin", start="2026-03-29T01:00:00+01:00")
    found = [berlin.release(["ada"], ["a"]) for _ in range(2)]
    assert [release.start_text for release in found] == ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"]
    for release in found:
        for again in (Release.from_json(release.to_json(), DOMAIN), *from_frame(to_frame([release]), DOMAIN)):
            assert again.start == release.start == datetime.fromisoformat(release.start_text)
            assert again.start.utcoffset() == release.start.utcoffset()
            assert again.content() == release.content()
            assert again.digest == release.certificate["release"]
        assert f'"start":"{release.start_text}"'.encode() in release.content()
    assert found[1].start - found[0].start == timedelta(hours=1)
    assert dpi.Stream(domain=DOMAIN, epsilon=1).release(["ada"], ["a"]).start is None


def test_slots_may_be_an_object():
    """`slot=dpi.Slots(…)` is the same stream as its words; words beside it are refused."""
    words = {"slot": "1h", "origin": "2026-01-01T00:30", "zone": "Europe/Berlin", "lateness": "5m"}
    slots = dpi.Slots("1h", origin="2026-01-01T00:30", zone="Europe/Berlin", lateness="5m")
    assert stream(slot=slots).digest == stream(**words).digest
    assert stream(slot=slots).slots == slots
    assert stream(slot=dpi.Slots("1h")).digest == stream().digest
    for beside in ({"origin": "2026-01-01"}, {"zone": "Europe/Berlin"}, {"lateness": "5m"}):
        with pytest.raises(OptionError, match=r"say them in dpi.Slots"):
            stream(slot=slots, **beside)


def test_a_far_future_event_changes_nothing():
    """An event outside the public period is dropped by its own time."""
    table = events()
    more = {k: [*v, x] for (k, v), x in zip(table.items(), ["u0", "9999-01-01", "a"], strict=True)}
    assert [*stream().replay(table, **PERIOD)] == [*stream().replay(more, **PERIOD)]


def test_accounts_run_dry_and_no_further():
    """A fixed population pays ten slots of 0.1; after that histograms are empty, and spent is the public maximum."""
    s = stream(epsilon="0.25")
    spent = [s.release(["u"], ["a"]).epsilon_spent for _ in range(4)]
    assert spent == pytest.approx([0.1, 0.2, 0.25, 0.25], abs=1e-9)
    assert 0 <= s._accounts.remaining(pl.Series(["u"]), 3)[0] < Fraction(1, 10**6)


@pytest.mark.parametrize(
    "budget", [dpi.Ledger(per_slot=0.1), dpi.Ledger(), dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10))], ids=repr
)
def test_resumed_equals_never_interrupted(budget, tmp_path):
    """A stream that was saved and loaded releases the bytes of one that was never stopped."""
    source, other = UnsafeSeededSource(5), UnsafeSeededSource(5)
    plain = stream(budget=budget, unsafe_source=source)
    expected = [plain.release(["x", "y"], ["a", "b"]).to_json() for _ in range(8)]
    first = stream(budget=budget, unsafe_source=other)
    got = [first.release(["x", "y"], ["a", "b"]).to_json() for _ in range(4)]
    first.save(tmp_path / "saved")
    second = stream(budget=budget, unsafe_source=other)
    second.load(tmp_path / "saved")
    got += [second.release(["x", "y"], ["a", "b"]).to_json() for _ in range(4)]
    assert got == expected


def test_a_saved_stream_is_the_owners(tmp_path):
    """It holds accounts and a key, so only the owner may read it."""
    stream().save(tmp_path / "saved")
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


def test_a_damaged_or_foreign_file_is_refused(tmp_path):
    """Any flipped byte, other options, or a file that is none of ours is refused, and the stream stays as it was."""
    s = stream()
    s.release(["x"], ["a"])
    s.save(tmp_path / "saved")
    data = (tmp_path / "saved").read_bytes()
    for position in range(0, len(data), max(1, len(data) // 60)):
        broken = bytearray(data)
        broken[position] ^= 4
        (tmp_path / "broken").write_bytes(broken)
        fresh = stream()
        with pytest.raises(StateError):
            fresh.load(tmp_path / "broken")
        assert fresh.next_slot == 0
    with pytest.raises(StateError, match="other options"):
        stream(epsilon=2).load(tmp_path / "saved")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(StateError):
        stream().load(tmp_path / "empty")


@pytest.mark.parametrize(
    "budget", [dpi.Ledger(per_slot=0.1), dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10))], ids=repr
)
def test_an_older_save_does_not_refill(budget, tmp_path):
    """A stream that went on since it was saved does not go back; where it is, or fresh, it takes the save."""
    s = stream(budget=budget)
    for name in ("old", "new"):
        s.release(["x"], ["a"])
        s.save(tmp_path / name)
    s.load(tmp_path / "new")
    with pytest.raises(StateError, match="refill"):
        s.load(tmp_path / "old")
    assert s.next_slot == 2
    fresh = stream(budget=budget)
    fresh.load(tmp_path / "old")
    assert fresh.next_slot == 1


def test_a_save_of_another_way_does_not_refill(tmp_path):
    """A save that has more slots, but not the ones that this stream has released, is refused."""
    one, other = stream(), stream()
    one.release(["x"], ["a"])
    for _ in range(3):
        other.release(["y"], ["a"])
    other.save(tmp_path / "saved")
    with pytest.raises(StateError, match="refill"):
        one.load(tmp_path / "saved")
    assert one.next_slot == 1


def test_a_slot_that_is_paid_and_not_released_counts_as_gone_on(tmp_path, monkeypatch):
    """A save from before a slot that was interrupted after its payment is refused."""
    s = stream()
    s.save(tmp_path / "saved")
    with monkeypatch.context() as patch:
        patch.setattr(s.store, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            s.release(["x"], ["a"])
    with pytest.raises(StateError, match="refill"):
        s.load(tmp_path / "saved")
    assert s.next_slot == 1


def test_streams_that_share_accounts_are_not_loaded_one_by_one(tmp_path):
    """Each would go on with accounts of its own, and spend ε twice: the store is loaded as a whole."""
    store = dpi.MemoryStore()
    one, two = (stream(store=store, name=name) for name in ("one", "two"))
    one.release(["x"], ["a"])
    one.save(tmp_path / "both")
    for loading in (one, two, stream(name="two")):
        with pytest.raises(OptionError, match=r"MemoryStore\.load"):
            loading.load(tmp_path / "both")
    assert two._accounts is one._accounts


def test_slots_follow_each_other():
    """An older slot, the same slot again, or a gap is refused before anything is paid."""
    s = stream()
    s.release(["x"], ["a"], slot=7)
    for slot in (6, 7, 9):
        with pytest.raises(ClockError, match="8 is next"):
            s.release(["x"], ["a"], slot=slot)
    assert s.release(["x"], ["a"]).slot == 8


def test_a_column_that_cannot_be_read_leaves_everything_as_it_was():
    """After a schema error the slot can be closed with the same budget, and nobody has paid."""
    s, clean = (
        stream(budget=dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10))),
        stream(budget=dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10))),
    )
    with pytest.raises(SchemaError):
        s.release(["x"], 5)
    assert s.release(["x"], ["a"]).to_json() == clean.release(["x"], ["a"]).to_json()


@pytest.mark.parametrize("budget", [dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10)), dpi.Ledger()], ids=repr)
def test_a_retry_has_the_budget_of_the_first_try(budget, monkeypatch):
    """A slot that could not be measured is tried again with the budget that was drawn for it, and with no other."""
    failing, clean = stream(budget=budget), stream(budget=budget)
    with monkeypatch.context() as patch:
        for measure in ("measure", "measure_classes"):
            patch.setattr(dpi.Boosted, measure, lambda *_: (_ for _ in ()).throw(MemoryError))
        for _ in range(3):
            with pytest.raises(MemoryError):
                failing.release(["x"], ["a"])
    for _ in range(2):
        assert failing.release(["x"], ["a"]).epsilon == clean.release(["x"], ["a"]).epsilon


def test_streams_share_one_ledger():
    """Two streams on one set of accounts cost ε together: what one spends the other does not have."""
    store = dpi.MemoryStore()
    one = stream(store=store, name="visits", budget=dpi.Ledger(per_slot=0.6))
    two = stream(store=store, name="orders", budget=dpi.Ledger(per_slot=0.6))
    one.release(["x"], ["a"])
    two.release(["x"], ["a"])
    assert one._accounts.remaining(pl.Series(["x"]), 0)[0] < Fraction(1, 10**6)
    assert "all streams of this store together" in one.guarantee
    assert one.guarantee == two.guarantee


@pytest.mark.parametrize("budget", [dpi.Ledger(per_slot=0.2), dpi.Converging(dpi.budget.Zeta(2))], ids=repr)
def test_an_epsilon_of_its_own_is_named_and_added_up(budget):
    """A second pool of budget in one store needs `separate`, and from then on every statement names the sum."""
    store = dpi.MemoryStore()
    shared = stream(store=store)
    if isinstance(budget, dpi.Converging):
        with pytest.raises(OptionError, match="separate"):
            stream(store=store, name="other", budget=budget)
    alone = stream(store=store, name="other", budget=budget, epsilon=2, separate=True)
    assert "this stream alone" in alone.guarantee
    for one in (shared, alone):
        assert "sum to 3 per user" in one.release(["x"], ["a"]).guarantee


def test_an_epsilon_per_epoch_is_not_added_up_as_if_it_were_for_ever():
    """Where one of several pools is refilled, the sum says what is lost for ever and what every epoch adds."""
    store, budget = dpi.MemoryStore(), dpi.Ledger(per_slot=0.5, period=24)
    shared = stream(store=store, epsilon=3)
    alone = stream(store=store, name="x", budget=budget, separate=True)
    for one in (shared, alone):
        assert "sum to 3 per user for ever, and 1 more per epoch of 24 slots of stream 'x'." in one.guarantee
    series = stream(store=store, name="y", budget=dpi.Converging(dpi.budget.Zeta(2)), epsilon=2, separate=True)
    assert "sum to 5 per user for ever, and 1 more per epoch of 24 slots of stream 'x'." in series.guarantee
    stream(store=store, name="z", budget=dpi.Ledger(per_slot=0.5, period=2), epsilon=4, separate=True)
    assert "of stream 'x', and 4 more per epoch of 2 slots of stream 'z'." in shared.guarantee


def test_pools_that_are_all_refilled_sum_to_nothing_for_ever():
    """Where every pool is refilled there is no sum for ever, and none is stated."""
    store = dpi.MemoryStore()
    one = stream(store=store, budget=dpi.Ledger(per_slot=0.5, period=24))
    stream(store=store, name="x", budget=dpi.Ledger(per_slot=0.5, period=2), epsilon=2, separate=True)
    assert "for ever" not in one.guarantee
    assert "sum to 1 per user per epoch of 24 slots of the stream without a name, and 2 more per" in one.guarantee


def test_a_saved_store_holds_what_every_stream_has_spent(tmp_path):
    """A saved store holds the accounts of all its streams, and each goes on where it was."""
    store, budget = dpi.MemoryStore(), dpi.Ledger(per_slot=0.4)
    one, two = (stream(store=store, name=name, budget=budget) for name in ("one", "two"))
    one.release(["x"], ["a"])
    two.release(["x"], ["a"])
    store.save(tmp_path / "both")
    loaded = dpi.MemoryStore.load(tmp_path / "both")
    again = [stream(store=loaded, name=name, budget=budget) for name in ("one", "two")]
    for restored in again:
        assert restored.next_slot == 1
        assert restored._accounts.remaining(pl.Series(["x"]), 0)[0] < Fraction(1, 4)


def test_epochs_are_named_in_the_guarantee():
    """A refilled account is another promise, and every release says so."""
    s = stream(budget=dpi.Ledger(per_slot=1, period=2))
    assert "per epoch of 2 slots" in s.release(["x"], ["a"]).guarantee


def test_declared_counts_need_a_converging_budget():
    """Counts have no ids: a ledger refuses them, a series takes them and prints the assumption."""
    h = dpi.histogram.counts([5, 3, 2], per_user=1, seen="once")
    with pytest.raises(OptionError, match="no ledger"):
        stream().release_counts(h)
    release = stream(budget=dpi.Converging(dpi.budget.LogSquared())).release_counts(h)
    assert "each user adds at most 1" in release.guarantee


@pytest.mark.parametrize(
    ("compression", "mechanism"),
    [
        (dpi.histogram.whole_pdf, dpi.Published()),
        (
            dpi.histogram.whole_pdf,
            dpi.Published(mu=1, n_min=40),
        ),  # the mechanism would take any weight, the compression does not
        (dpi.histogram.normalise, dpi.Published()),
    ],
    ids=["both", "the compression", "the mechanism"],
)
def test_who_cannot_pay_in_full_neither_takes_part_nor_pays(compression, mechanism):
    """Where a smaller weight would lose as much as a whole one, a half-empty account is left as it is, for ever."""
    s = stream(epsilon="0.25", compression=compression, mechanism=mechanism)
    for slot in range(5):
        assert s.release(["u", "v"], ["a", "b"]).slot == slot
        left = s._accounts.remaining(pl.Series(["u", "v"]), slot)
        rest = Epsilon.at_most("0.25").units - min(slot + 1, 2) * Epsilon.at_most("0.1").units
        assert left == [Fraction(rest, UNITS)] * 2


def test_who_cannot_pay_in_full_takes_part_by_what_is_left():
    """Where a smaller weight loses less, an account is used up, but for less than what one grain costs."""
    s = stream(epsilon="0.25", mechanism=dpi.Published(mu=1, n_min=40))
    for _ in range(3):
        s.release(["u"], ["a"])
    assert s._accounts.remaining(pl.Series(["u"]), 2)[0] < Fraction(1, 10 * GRAINS)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0}, {"domain": ["a"]}, {"slot": "1 year"}, {"mechanism": "clever"},
        {"budget": dpi.Ledger(per_slot=2)},
        {"compression": dpi.histogram.whole_pdf}, {"start": "2026-01-01", "slot": None}, {"start": "2026-01-01T00:30"},
    ],
)  # fmt: skip
def test_contradicting_options_are_refused(options):
    """Each says in one sentence what is expected."""
    with pytest.raises(OptionError):
        stream(**options)


@pytest.mark.parametrize(
    ("period", "says"),
    [
        ({"start": "2026-01-01T00:30", "end": "2026-01-01T04:00"}, "boundary of a slot"),
        ({"start": "2026-01-01T04:00", "end": "2026-01-01T00:00"}, "after `start`"),
        ({"start": "soon", "end": "2026-01-01"}, "ISO 8601"),
    ],
)
def test_a_bad_period_is_refused(period, says):
    """The period is public: given, not read off the data."""
    with pytest.raises(OptionError, match=says):
        stream().replay(events(), **period)


def test_a_live_stream_needs_a_public_beginning():
    """Without `start` nothing is kept and nothing released: the first event would decide which slot is the first."""
    s = stream()
    with pytest.raises(OptionError, match="never read off the data"):
        s.append(["u"], ["2026-01-01T00:10"], ["a"], now="2026-01-01T00:10")
    with pytest.raises(OptionError, match="never read off the data"):
        list(s.advance())
    assert s.store.sequence("", "") == -1


def test_a_missing_column_is_named():
    """A table without the column of users is refused; rows without a key are rows without a user."""
    with pytest.raises(SchemaError, match="'user'"):
        list(stream().replay({"time": [], "value": []}, **PERIOD))
    assert len(list(stream().replay([{"time": "2026-01-01T00:10:00", "value": "a"}], **PERIOD))) == 4


def test_columns_of_different_length_are_refused():
    """A table whose columns do not match says so, and no more."""
    with pytest.raises(SchemaError, match="same length"):
        list(stream().replay(events() | {"user": ["u1"]}, **PERIOD))


def test_replay_needs_a_clock():
    """A stream without `slot` has no period."""
    with pytest.raises(OptionError, match="needs a stream with a clock"):
        stream(slot=None).replay(events(), **PERIOD)


def test_releases_go_round():
    """JSON and tables keep every bit; another domain or broken text is refused."""
    releases = [*stream().replay(events(), **PERIOD)]
    assert [Release.from_json(r.to_json(), DOMAIN) for r in releases] == releases
    assert from_frame(to_frame(releases), DOMAIN) == releases
    assert from_frame(pl.DataFrame(pa.table(to_frame(releases))), DOMAIN) == releases
    for text, domain in ((releases[0].to_json(), dpi.Bins([0])), ("{}", DOMAIN), ("x", DOMAIN), ("[]", DOMAIN)):
        with pytest.raises(StateError):
            Release.from_json(text, domain)


def test_a_release_does_not_change():
    """Fields and arrays are read-only."""
    release = stream().release(["x"], ["a"])
    with pytest.raises(ValueError, match="read-only"):
        release.pdf[0] = 1
    with pytest.raises(AttributeError):
        release.slot = 5


def test_a_release_is_readable():
    """What people see names values and amounts, escapes labels, and draws."""
    release = stream(domain=dpi.Categories(["<b>", "b"])).release(["x"], ["b"])
    assert repr(release).startswith("Release(slot=0, top=[")
    assert "&lt;b&gt;" in release._repr_html_()
    assert release.plot().axes[0].get_xlabel() == "share of users, with 95 % interval"
    with pytest.raises(OptionError, match="`level` must"):
        release.interval(1.0)


def test_the_series_of_releases_is_drawn():
    """Bands over time and the budget below; an empty series is refused."""
    figure = dpi.plot_series([*stream().replay(events(), **PERIOD)])
    assert len(figure.axes) == 2
    with pytest.raises(OptionError, match="no releases"):
        dpi.plot_series([])


def test_a_stream_prints_its_options_and_no_secret():
    """Neither key nor accounts appear."""
    assert "key" not in repr(stream())


def test_the_accumulated_pdf_is_the_mean_over_slots():
    """It weighs each slot's PDF by its estimated users."""
    s = stream()
    releases = [s.release([f"u{i}" for i in range(50)], ["a"] * 25 + ["b"] * 25) for _ in range(5)]
    weights = np.array([r.total for r in releases])
    expected = (weights[:, None] * np.stack([r.pdf for r in releases])).sum(axis=0) / weights.sum()
    assert releases[-1].accumulated == pytest.approx(expected)


def test_an_interrupted_payment_leaves_one_set_of_accounts(monkeypatch):
    """After an interruption the streams of a store still pay from the same accounts: none of them is refilled."""
    store, budget = dpi.MemoryStore(), dpi.Ledger(per_slot=0.5)
    one, two = (stream(store=store, name=name, budget=budget) for name in ("one", "two"))
    with monkeypatch.context() as patch:
        patch.setattr(store, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            one.release(["x"], ["a"])
    assert one.next_slot == 1  # it was paid for, so it was released when the stream went on
    two.release(["x"], ["a"])
    assert one._accounts is two._accounts
    assert one._accounts.remaining(pl.Series(["x"]), 0)[0] < Fraction(1, 10**6)


@pytest.mark.parametrize("method", ["pay", "publish", "testify"])
def test_events_of_an_interrupted_slot_count_once(method, monkeypatch):
    """Whoever tries again without saying which slot counts nothing twice: the slot is open, or they are told."""
    s = stream(store=dpi.MemoryStore(), budget=dpi.Ledger(per_slot=0.4))
    with monkeypatch.context() as patch:
        patch.setattr(s.store, method, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            s.release(["x"], ["a"])
    if method != "pay":
        for _ in range(2):
            with pytest.raises(ClockError, match="slot 0 was paid for when it was interrupted, and is released"):
                s.release(["x"], ["a"])
        with pytest.raises(ClockError, match="1 is next"):
            s.release(["x"], ["a"], slot=0)
    else:
        assert s.release(["x"], ["a"]).slot == 0
    assert s.released(0).slot == 0
    assert 0.5 < s._accounts.remaining(pl.Series(["x"]), 0)[0] < 0.7
    assert s.next_slot == 1
    assert s.release(["x"], ["a"]).slot == 1


def test_after_an_interruption_a_named_slot_is_closed(monkeypatch):
    """Naming the slot is as good as asking for it."""
    s = stream(store=dpi.MemoryStore())
    with monkeypatch.context() as patch:
        patch.setattr(s.store, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            s.release(["x"], ["a"])
    assert s.release(["x"], ["a"], slot=1).slot == 1
    assert s.release(["x"], ["a"]).slot == 2


def test_users_who_do_not_return_leave_no_doubt():
    """Declared so, a slot of fewer users is believed as it is; the options say it, and the noise is the same."""
    sizes = (4000, 4000, 4000, 400)
    slots = [([f"{slot} {i}" for i in range(size)], ["a", "b"] * (size // 2)) for slot, size in enumerate(sizes)]
    found = {}
    for returning in (True, False):
        budget = dpi.Ledger(per_slot=1, returning=returning)
        s = stream(budget=budget, unsafe_source=UnsafeSeededSource(1))
        found[returning] = [s.release(users, values) for users, values in slots], s.digest
    (doubting, one), (sure, other) = found[True], found[False]
    assert one != other
    assert (doubting[0].pdf == sure[0].pdf).all()
    assert doubting[3].variance[0] > 2 * sure[3].variance[0]


def test_users_who_return_against_the_declaration_are_ignored():
    """Privacy does not rest on the declaration: who has paid everything has no weight."""
    found = []
    for back in ([], ["early"] * 3):
        s = stream(budget=dpi.Ledger(returning=False), unsafe_source=UnsafeSeededSource(1))
        s.release(["early"], ["a"])
        found.append(s.release(["late", *back], ["b", *["a"] * len(back)]))
    assert found[0].epsilon == found[0].epsilon_spent == 1
    assert (found[0].pdf == found[1].pdf).all()


def test_rows_are_closed_by_the_stream_that_has_played_them(tmp_path):
    """Another store has other accounts, another domain other bins: both are refused, whatever the rows are."""
    terms = {"epsilon": 1, "slot": "1h", "start": "1970-01-01T00:00"}
    letters, nine = dpi.Categories(["a", "b"]), dpi.Categories([f"v{number}" for number in range(9)])
    path = tmp_path / "events.csv"
    for value in ("a", "v0", "v8"):
        path.write_text(f"user,time,value\nada,1970-01-01T00:10,{value}\n")
        store = dpi.MemoryStore()
        stream = dpi.Stream(domain=letters, store=store, **terms)
        elsewhere = dpi.Stream(domain=letters, store=dpi.MemoryStore(), **terms)
        of_nine = dpi.Stream(domain=nine, store=store, name="nine", **terms)
        own, later = (rows for _, rows in stream.play(dpi.read(path), 0, 2))
        others = [rows for each in (elsewhere, of_nine) for _, rows in each.play(dpi.read(path), 0, 1)]
        for rows in (*others, later):
            with pytest.raises(OptionError, match="`play` of this stream"):
                stream.release_rows(rows, slot=0)
        assert stream.release_rows(own, slot=0).slot == 0


@pytest.mark.parametrize("table", [dict, pl.DataFrame, pa.table, pd.DataFrame])
def test_a_late_row_refuses_no_others(table):
    """The parts of a product are read alike, whether all rows count or not."""
    domain = dpi.Product(country=dpi.Categories(["DE"]), kind=dpi.Categories(["x"]))
    for last in ("00:30", "07:00"):
        stream = dpi.Stream(domain=domain, epsilon=1, slot="1h", start="2026-01-01T00:00")
        values = table({"country": ["DE", "DE"], "kind": ["x", "x"]})
        times = ["2026-01-01T00:10", f"2026-01-01T{last}"]
        assert stream.append(["ada", "bob"], times, values, now="2026-01-01T00:40")


def test_a_product_that_changes_its_parts_has_the_columns_of_both():
    """A slot before the change is read by the old parts, one after it by the new ones."""
    old, new = dpi.Product(country=dpi.Categories(["DE"])), dpi.Product(kind=dpi.Categories(["x"]))
    domains = Schedule.of(old).changed(1, new)
    events = Events(
        ["ada", "bob"], ["1970-01-01T00:10", "1970-01-01T01:10"], {"country": ["DE", "?"], "kind": ["?", "x"]}
    )
    rows = Admission(dpi.Slots("1h"), domains, bytes(32), first=0).admit(events)
    assert (rows.slots.tolist(), rows.bins.tolist()) == ([0, 1], [0, 0])
