"""Discovery in a store: what is found, who pays, what neighbours can tell, interruptions, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.discovery.text_slot_closer import SeenTexts, TextEngine
from dpi.errors import OptionError, SchemaError, StateError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import TextHistogram
from dpi.mechanism.text_histogram import FoundTexts, SparseHistogram, unpacked
from dpi.noise import UnsafeSeededSource
from dpi.store.ledger_session import stored_accounts
from dpi.testing.laws import Shown
from dpi.verification import verify
from dpi_audit import neighbours
from dpi_audit.exact import worst_of
from dpi_audit.session import SeveralStreams, StreamSession
from dpi_audit.small import EPSILON, VALUES, discovery_session, discovery_stream, stream
from played_rows import play, users_of

USERS = [f"user {number}" for number in range(1800)]
WORDS = ["red", "blue", "yellow"]
ONE = Epsilon.at_most(1)


def discovery(store, **options):
    """One that pays a quarter of ε in a slot."""
    default = {"texts": dpi.Texts(8), "epsilon": 1, "quota": "0.25", "unsafe_source": UnsafeSeededSource(1)}
    return dpi.Discovery(store=store, **(default | options))


def rows(users=USERS):
    """A third of the users has each word, and everybody a second event of their own."""
    return [*users, *users], [*(WORDS[n % 3] for n in range(len(users))), *(f"own {n}" for n in range(len(users)))]


def paid(store, user="user 0"):
    """What a user has paid from each set of accounts: private."""
    accounts = {name: stored_accounts(store, name) for name in store.ledgers()}
    return {name: each.held.fraction - each.remaining(pl.Series([user]), 10)[0] for name, each in accounts.items()}


# What is found.


def test_frequent_values_are_found_and_rare_ones_are_not():
    """Words of six hundred users with half of their weight; what one user alone has stays unseen."""
    found = discovery(dpi.MemoryStore()).release(*rows())
    assert found.values == sorted(WORDS)
    # Noise of scale 1/0.25: ± 100 has a probability of e^-25.
    assert all(abs(users - 300) < 100 for users in found.users.values())
    assert found.domain("rest").values == sorted(WORDS)


def test_values_that_nobody_has_look_like_any_other():
    """With an expected number of one, empty texts are shown, with sums of their threshold and above, sorted in."""
    mechanism, universe = SparseHistogram(failure=1), dpi.Texts(4)
    state = mechanism.initial(universe)
    clean = TextHistogram(np.array([500 * GRAINS]), GRAINS, texts=["red"])
    source, shown = UnsafeSeededSource(4), []
    for slot in range(30):
        state, _ = mechanism.update(state, mechanism.measure(state, clean, ONE, slot, source))
        least = mechanism.thresholds(universe, ONE)
        assert all(grains >= least[len(text.encode())] for text, grains in state.last.items())
        assert list(state.last) == sorted(state.last)
        shown += [text for text in state.last if text != "red"]
    assert len(set(shown)) == len(shown) > 3  # 15 on average, e^-15·(1 + 15 + 15²/2 + 15³/6) < 10^-3 of a bad seed
    assert set(state.all) == {"red", *shown}


def test_the_thresholds_sum_to_the_failure_that_is_stated():
    """Over all texts of all lengths, P(noise reaches the threshold) is at most β, and above β/2.1."""
    for epsilon in ("0.01", "1", "7"):
        amount, universe = Epsilon.at_most(epsilon), dpi.Texts(32)
        rate = 1 / float(amount.scale)
        total = sum(
            math.exp(math.log(ranks.stop - ranks.start) - grains * rate) / (1 + math.exp(-rate))
            for grains, ranks in zip(
                SparseHistogram().thresholds(universe, amount).values(), universe.lengths.values(), strict=True
            )
        )
        assert 0.001 / 2.1 < total < 0.001


def test_the_size_of_what_is_stored_says_nothing_of_what_was_drawn():
    """A measurement has room for all that may be shown, whether much was found or nothing, and no more than that."""
    mechanism, universe = SparseHistogram(most=2), dpi.Texts(9)
    state = mechanism.initial(universe)
    sizes = set()
    for texts in ([], WORDS):
        clean = TextHistogram(np.full(len(texts), 900 * GRAINS) + np.arange(len(texts)), GRAINS, texts=texts)
        values = mechanism.measure(state, clean, ONE, 0, UnsafeSeededSource(2)).values
        sizes.add(values.size)
        assert len(unpacked(universe, values)) == min(2, len(texts))
    assert sizes == {2 * 3}


def test_numbers_and_texts_are_values_alike():
    """7, 7.0 and "7.0" are one value, as in every domain; its text is what is found."""
    found = discovery(dpi.MemoryStore()).release(USERS, [7, 7.0, "7.0"] * 600)
    assert found.values == ["7"]
    assert found.domain().encode([7, "7"]).tolist() == [0, 0]


def test_a_value_that_is_called_as_other_goes_there():
    """The domain can be made all the same."""
    found = discovery(dpi.MemoryStore()).release(USERS, ["other", "red", "blue"] * 600)
    assert "other" in found.values
    assert found.domain().values == ["blue", "red"]
    assert found.domain(other=None).values == ["blue", "other", "red"]


# Rows.


def test_neither_the_order_of_rows_nor_batches_change_what_is_found():
    """With the same noise, rows in another order and in other batches give the same measurement."""
    users, values = rows()
    order = np.random.default_rng(3).permutation(len(users))
    found = [
        discovery(dpi.MemoryStore()).release([users[i] for i in at], [values[i] for i in at]).users
        for at in (range(len(users)), order)
    ]
    assert found[0] == found[1]


def test_what_is_no_value_of_the_universe_costs_its_own_user_alone():
    """Values that are too long, of other characters or missing: a user's other weight shrinks, nobody else's moves."""
    seen = SeenTexts(dpi.Texts(5))
    codes = seen.encode(["red", "much too long", "x" * 2000, "", None, "a\nb", "red"])
    assert codes.tolist() == [1, 0, -1, -1, -1, 0, 1]
    texts, places = seen.numbered(codes)
    assert (texts, places.tolist()) == (["red"], [1, 0, -1, -1, -1, 0, 1])
    base = discovery(dpi.MemoryStore(), texts=dpi.Texts(3)).release(USERS, ["red"] * 1800).users["red"]
    half = discovery(dpi.MemoryStore(), texts=dpi.Texts(3)).release(USERS * 2, ["red"] * 1800 + ["yellow"] * 1800)
    assert half.users["red"] == pytest.approx(base - 900)  # the same noise


def test_no_row_is_an_error():
    """Odd rows are dropped, each by itself; a column that holds no values at all is refused before anybody pays."""
    store = dpi.MemoryStore()
    opened = discovery(store)
    with pytest.raises(SchemaError):
        opened.release(["a"], pl.Series([[1, 2]]))
    with pytest.raises(SchemaError):
        opened.release(["a", "b"], ["red"])
    found = opened.release([*USERS, None, "x", "y"], [*["red"] * 1800, "red", float("nan"), b"\xff"])
    assert found.values == ["red"]


def test_rows_that_are_no_events_leave_no_text_in_memory(tmp_path):
    """Of a file, neither texts outside of the period nor those of rows without a user or a time are held."""
    lines = ["user,time,value", "a,2026-01-05T10:00,red", "b,2026-01-18T10:00,blue", "b,2026-01-18T11:00,much too long"]
    lines += ["a,2026-01-04T23:59,before", "a,2026-01-19T00:00,after", "a,never,timeless", ",2026-01-06T10:00,nobodys"]
    (tmp_path / "visits.csv").write_text("\n".join([*lines, f"{'x' * 2000},2026-01-06T10:00,giants"]) + "\n")
    opened = discovery(dpi.MemoryStore(), slot="week", start="2026-01-05")
    driver = opened.stream.driver
    seen, slots = driver.seen(), opened.stream.slots
    first, last = slots.boundary("2026-01-05", "start"), slots.boundary("2026-01-19", "end")
    given = [rows for _, rows in play(dpi.read(tmp_path / "visits.csv"), slots, seen, first, last)]
    assert sorted(seen._texts) == ["", "blue", "red"]
    assert sorted(user for rows in given for user in users_of(rows, "ab")) == ["a", "b", "b"]


def test_a_histogram_of_texts_has_each_of_them_once():
    """A text that stands there twice, or is none of the universe, would be shown beside the law."""
    for texts in (["red", "red"], ["red"]):
        with pytest.raises(OptionError, match="different texts"):
            TextHistogram(np.array([1, 2]), GRAINS, texts=texts)
    mechanism, universe = SparseHistogram(), dpi.Texts(3)
    for outside in ("blue", "a\n", ""):
        clean = TextHistogram(np.array([900 * GRAINS]), GRAINS, texts=[outside])
        with pytest.raises(OptionError, match="universe"):
            mechanism.measure(mechanism.initial(universe), clean, ONE, 0, UnsafeSeededSource(1))


def test_what_was_seen_is_shown_by_nothing():
    """Neither the texts nor how many there are stand in what objects print; they have no label and no digest."""
    seen = SeenTexts(dpi.Texts(5))
    seen.encode(["red"])
    assert repr(TextHistogram(np.array([1]), GRAINS, texts=["red"])) == "TextHistogram(private)"
    assert "red" not in repr(seen)
    for ask in (lambda: seen.label(1), lambda: seen.digest):
        with pytest.raises(OptionError):
            ask()


# Who pays.


def test_discovery_and_the_stream_that_uses_it_cost_epsilon_together(tmp_path):
    """Accounts of both, in one store on disk: who is in every slot of both pays at most ε; the chain is whole."""
    path = tmp_path / "visits.db"
    with dpi.open_store(path) as store:
        found = discovery(store).release(*rows())
    with dpi.open_store(path) as store:
        visits = dpi.Stream(domain=found.domain(), epsilon=1, store=store, budget=dpi.Ledger(per_slot="0.3"))
        for _ in range(4):
            last = visits.release(*rows())
        again = discovery(store)
        again.release(*rows())
        payments = paid(store)
        assert payments["quota discovery"] == Fraction(1, 4)
        assert Fraction(7, 10) < sum(payments.values()) <= 1
        assert last.epsilon_spent <= 0.75
        assert verify(store).problems == ()
        assert again.found.values == sorted(WORDS)
        assert dpi.open(store).name == ""  # beside a discovery the stream of releases is meant


def test_who_has_paid_is_not_looked_at_again():
    """A second slot shows what newcomers have, and nothing of those whose quota is spent."""
    opened = discovery(dpi.MemoryStore(), slots=1)
    opened.release(USERS, ["red"] * 1800)
    again = opened.release([*USERS, *(f"new {n}" for n in range(1800))], ["blue"] * 1800 + ["yellow"] * 1800)
    assert again.values == ["yellow"]
    assert opened.found.values == ["red", "yellow"]


def test_a_quota_can_be_paid_in_several_slots():
    """With `slots=2` a user takes part twice, with half of the quota each."""
    store = dpi.MemoryStore()
    opened = discovery(store, slots=2)
    for value in ("red", "blue", "green"):
        opened.release(USERS, [value] * 1800)
    assert opened.found.values == ["blue", "red"]
    assert opened.cost == 0.125
    assert paid(store)["quota discovery"] == Fraction(1, 4)


def test_found_values_enter_a_stream_by_a_change():
    """A stream that runs takes them over in a later slot; what it knows of its old values stays."""
    store = dpi.MemoryStore()
    budget = dpi.Ledger(per_slot="0.1", quota="0.5")
    options = {"epsilon": 1, "store": store, "budget": budget, "name": "visits"}
    visits = dpi.Stream(domain=dpi.Categories(["red"]), **options)
    visits.release(*rows())
    found = discovery(store).release(*rows())
    visits = dpi.Stream(domain=found.domain(), change="next", **options)
    assert visits.release(*rows()).domain.values == sorted(WORDS)
    assert verify(store).problems == ()


# Neighbours.


def test_neighbours_lose_what_is_claimed_and_no_more():
    """The exact loss of a stream of discovery until accounts are empty, both ways, and where transcripts show much."""
    families, budget = (neighbours.alone, neighbours.rounding, neighbours.broken_rows), dpi.Ledger(per_slot="0.3")
    found = worst_of(discovery_session(budget=budget), [family(5, VALUES) for family in families])
    assert not found.violates
    assert found.ratio > 0.99


def test_every_output_of_a_slot_keeps_the_bound():
    """All outputs of a universe of three texts, shown or not, low or high: none is beyond e^(ε·w) in either way."""
    mechanism, universe = SparseHistogram(most=3), dpi.Texts(1, characters="abc")
    state = FoundTexts(universe, {}, {})
    one = {"a": 12 * GRAINS, "b": GRAINS // 3, "c": 2 * GRAINS}
    two = {"a": 12 * GRAINS - GRAINS // 2, "c": 2 * GRAINS + GRAINS // 2}
    laws = [
        Shown(mechanism, state, TextHistogram(np.array([*h.values()]), GRAINS, texts=[*h]), ONE) for h in (one, two)
    ]
    moved = sum(abs(one.get(t, 0) - two.get(t, 0)) for t in "abc") / GRAINS
    least = mechanism.thresholds(universe, ONE)[1]
    heights = [None, least, 11 * GRAINS, 12 * GRAINS, 40 * GRAINS]
    for a in heights:
        for b in heights:
            for c in heights:
                shown = {t: y for t, y in zip("abc", (a, b, c), strict=True) if y is not None and y >= least}
                output = mechanism.packed(universe, shown)
                for this, that in (laws, laws[::-1]):
                    assert float(this.log_ratio(that, output)) <= moved + 1e-12


def test_two_streams_of_a_store_lose_epsilon_together():
    """A user who is alone, in a discovery with a quota and in a stream that has the rest, in turns."""

    def both():
        store = dpi.MemoryStore(secret=bytes(range(32)))
        streams = SeveralStreams([], EPSILON)
        first = discovery_stream(budget=dpi.Ledger(slots=2, quota="0.25"), store=store, name="discovery")
        second = stream(budget=dpi.Ledger(per_slot="0.2"), store=store)
        streams._sessions = [StreamSession(first), StreamSession(second)]
        return streams

    found = worst_of(both, [neighbours.alone(16, VALUES)])
    assert not found.violates
    assert found.ratio > 0.9


# Life.


def test_a_slot_that_was_paid_for_is_shown_and_not_drawn_again(tmp_path, monkeypatch):
    """The process ends between paying and publishing: the next one shows the same, and nobody pays twice."""
    path = tmp_path / "visits.db"
    with monkeypatch.context() as patched, dpi.open_store(path) as store:
        opened = discovery(store)
        patched.setattr(type(store), "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            opened.release(*rows())
    with dpi.open_store(path) as store:
        again = discovery(store, unsafe_source=UnsafeSeededSource(77))
        assert again.found.values == sorted(WORDS)
        assert again.stream.next_slot == 1
        assert paid(store)["quota discovery"] == Fraction(1, 4)


def test_files_and_tables_give_the_same(tmp_path):
    """Slots of a period, read from a file in any order, from a table, and one by one."""
    users, values = rows(USERS[:600])
    days = ["2026-01-05", "2026-01-12", "2025-01-01"]
    frame = pl.DataFrame({"user": users, "time": [f"{days[n % 3]}T10:00" for n in range(len(users))], "value": values})
    frame.reverse().write_csv(tmp_path / "visits.csv")
    period = {"start": "2026-01-05", "end": "2026-01-19"}

    def found(events):
        opened = discovery(dpi.MemoryStore(), slot="week", start="2026-01-05", texts=dpi.Texts(4))
        return [each.users for each in opened.replay(events, **period)]

    assert found(dpi.read(tmp_path / "visits.csv")) == found(frame)
    one_by_one = discovery(dpi.MemoryStore(), texts=dpi.Texts(4))
    expected = []
    for day in days[:2]:
        part = frame.filter(pl.col("time").str.starts_with(day))
        expected.append(one_by_one.release(part["user"], part["value"]).users)
    assert found(frame) == expected


def test_saved_state_is_read_back():
    """What was found is kept in the store to the bit; anything else is refused."""
    mechanism, universe = SparseHistogram(), dpi.Texts(8)
    state = FoundTexts(universe, {"é": 3 << 60}, {"é": 3 << 60, "b": 7})
    again = mechanism.from_bytes(universe, mechanism.to_bytes(state))
    assert (again.last, again.all) == (state.last, state.all)
    for damaged in (b"", b"[]", b"[1, 2]", b'[{"a": "b"}, {}]'):
        with pytest.raises(StateError):
            mechanism.from_bytes(universe, damaged)


# What is refused.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"store": None}, "give `store`"),
        ({"texts": dpi.Categories(["a"])}, "`texts`"),
        ({"quota": 0}, "`quota`"),
        ({"quota": 2}, "`quota`"),
        ({"quota": "1e-11", "epsilon": "0.001"}, "larger `quota`|at least 2\\^-40"),
        ({"slots": 10**9}, "larger `quota`"),
        ({"slots": 0}, "`slots`"),
        ({"failure": 0}, "`failure`"),
        ({"failure": 1.5}, "`failure`"),
        ({"most": 0}, "`most`"),
        ({"most": 1 << 20}, "`most`"),
        ({"epsilon": 0}, "`epsilon`"),
    ],
    ids=str,
)
def test_options_that_find_nothing_are_refused_before_anything_is_made(options, said):
    """Each with what was expected; the store stays empty."""
    store = options.pop("store", dpi.MemoryStore())
    with pytest.raises(OptionError, match=said):
        discovery(store, **options)
    assert store is None or store.streams() == {}


def test_streams_that_know_no_texts_are_refused():
    """Another mechanism's domain, a stream that counts bins, or one that keeps events as they arrive."""
    with pytest.raises(OptionError, match=r"dpi\.Texts"):
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, mechanism=SparseHistogram())
    plain = dpi.Stream(domain=dpi.Texts(4), epsilon=1, mechanism=SparseHistogram())
    with pytest.raises(OptionError, match="discovery"):
        plain.release(["a"], ["b"])
    options = {"domain": dpi.Texts(4), "epsilon": 1, "mechanism": SparseHistogram(), "engine": TextEngine()}
    live = dpi.Stream(slot="1h", start="2026-01-01", **options)
    with pytest.raises(OptionError, match="live"):
        live.append(["a"], ["2026-01-01T00:10"], ["b"], now="2026-01-01T00:20")


@pytest.mark.parametrize(
    "options",
    [
        {"compression": dpi.histogram.truncate(1, bytes(32))},
        {"compression": dpi.histogram.whole_pdf},
        {"accumulate": dpi.stream.PrefixTree(per_slot="0.01")},
    ],
    ids=["truncate", "whole_pdf", "tree"],
)
def test_a_slot_of_texts_is_counted_in_one_way(options):
    """The bins are the texts of all users: a choice by a bin's number, or a sum over slots, would mix users up."""
    store = dpi.MemoryStore()
    kept = {"store": store, "mechanism": SparseHistogram(), "engine": TextEngine(), "budget": dpi.Ledger(slots=1)}
    with pytest.raises(OptionError, match="normalise"):
        dpi.Stream(domain=dpi.Texts(8), epsilon=1, **kept, **options)
    assert store.streams() == {}


def test_another_discovery_in_the_same_store_looks_again():
    """What can be done when nothing was found: another name, with a quota of its own, which the same users pay."""
    store = dpi.MemoryStore()
    discovery(store, quota="0.01").release(*rows())
    with pytest.raises(StateError, match="another `name`") as refused:
        discovery(store, quota="0.25")
    assert "change" not in str(refused.value)
    assert discovery(store, quota="0.25", name="again").release(*rows()).values == sorted(WORDS)
    assert paid(store) == {
        "quota discovery": Fraction(Epsilon.at_most("0.01").units, UNITS),
        "quota again": Fraction(1, 4),
    }
    assert verify(store).problems == ()


def test_nothing_found_is_no_domain():
    """And the error says what helps; what was spent is spent."""
    store = dpi.MemoryStore()
    found = discovery(store).release(["a"], ["red"])
    assert found.values == []
    with pytest.raises(OptionError, match=r"no value was found.*another `name`.*never with a new store"):
        found.domain()
    assert paid(store, "a")["quota discovery"] * UNITS == UNITS // 4
