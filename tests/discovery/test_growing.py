"""A stream whose domain grows: what one user can lose, what enters and leaves, and what a flood takes."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.domain import Discovered
from dpi.domain.file import describe, from_description
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS
from dpi.mechanism import base, text_histogram
from dpi.mechanism.value_discovery import FAILURE, LONG, Discovering
from dpi.noise import UnsafeSeededSource
from dpi.stream.slot_closer import SlotCloser
from dpi.stream.texts import MOST_TEXTS, SeenTexts
from dpi.verification import verify

TEXTS = dpi.Texts(3, characters="abc")
KEY = bytes(range(32))


def opened(seed=1, texts=TEXTS, **options):
    """A stream of a small universe, whose noise is the same each time."""
    store = options.pop("store", None) or dpi.MemoryStore(secret=KEY)
    return dpi.Stream(
        domain=Discovered(texts), epsilon=1, store=store, unsafe_source=UnsafeSeededSource(seed), **options
    )


def noised(slots, **options):
    """All that noise is added to, by name, with the scale. Noise is none, so that neighbours have the same past."""
    seen = []

    def laplace(grains, scale, source):
        seen.append(({str(place): int(each) for place, each in enumerate(grains)}, Fraction(scale)))
        return np.zeros_like(grains)

    def texts(self, state, histogram, epsilon, source):
        seen.append((dict(zip(histogram.texts, histogram.grains.tolist(), strict=True)), Fraction(epsilon.scale)))
        return {}

    with (
        mock.patch.object(base, "add_laplace", laplace),
        mock.patch.object(text_histogram.SparseHistogram, "_passed", texts),
    ):
        stream = opened(**options)
        for rows in slots:
            stream.release([user for user, _ in rows], [value for _, value in rows])
    return seen


def loss(one, other):
    """Σ |shift|/scale: the largest log-likelihood ratio of Laplace noise over all outputs."""
    total = Fraction(0)
    for (ours, scale), (theirs, same) in zip(one, other, strict=True):
        assert scale == same
        shift = sum(abs(ours.get(text, 0) - theirs.get(text, 0)) for text in {*ours, *theirs})
        total += Fraction(shift) / scale
    return total


VALUES = st.text("abcd", min_size=1, max_size=4)
SLOTS = st.lists(st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=8), min_size=1, max_size=6)


@settings(deadline=None, max_examples=40)
@given(SLOTS, st.lists(st.lists(VALUES, max_size=30), min_size=6, max_size=6))
def test_a_user_loses_at_most_epsilon_by_both_histograms(others, mine):
    """With and without all rows of a user, over slots of users by class: bins and texts together lose at most ε."""
    with_user = [[*rows, *(("me", value) for value in own)] for rows, own in zip(others, mine, strict=False)]
    found = loss(noised(with_user), noised(others))
    assert found <= 1
    assert (found > 0) == any(own for rows, own in zip(others, mine, strict=False))


def test_both_histograms_are_paid_for():
    """A user alone in a first slot: all of the price is lost, half of it by texts."""
    one, other = noised([[("me", "a")]]), noised([[]])
    by_bins, by_texts = (loss(one[at::2], other[at::2]) for at in (0, 1))
    assert by_bins > 0
    assert by_texts > 0
    price = opened().release(["me"], ["a"]).epsilon
    assert float(by_bins + by_texts) == pytest.approx(price, rel=1e-6)
    assert float(by_texts) == pytest.approx(price / 2, rel=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=200), st.data())
def test_which_texts_stay_is_the_users_own_matter(events, data):
    """At most so many of a user stay, the same in any order, in any batches, and whoever else is there."""
    texts = [f"t{number}" for number in range(41)]
    universe = dpi.Texts(8)

    def kept(rows):
        seen = SeenTexts(universe)
        found = seen.kept(Rows.of([user for user, _ in rows], seen.encode([texts[n] for _, n in rows]), KEY), KEY)
        names = {tuple(name): [] for name in found.names.tolist()}
        for name, number in zip(found.names.tolist(), found.bins.tolist(), strict=True):
            names[tuple(name)].append(seen._texts[number])
        return {name: sorted(each) for name, each in names.items()}

    whole = kept(events)
    assert all(len(each) <= MOST_TEXTS for each in whole.values())
    assert kept(data.draw(st.permutations(events))) == whole
    alone = kept([event for event in events if event[0] == 0])
    assert all(whole[name] == each for name, each in alone.items())


def test_found_values_enter_and_quiet_ones_leave():
    """What many users have is listed from the next slot on, and leaves when nobody has it for long."""
    stream = opened(texts=dpi.Texts(8), budget=dpi.Ledger(per_slot="0.9", policy=dpi.spend_first))
    assert stream.domain.values == []
    for slot in range(3 + LONG + 6):
        users = [f"{slot}-{n}" for n in range(400)]
        values = ["old" if n % 2 else "keep" for n in range(400)] if slot < 3 else ["keep"] * 400
        release = stream.release(users, values)
        if slot == 0:
            assert release.domain.values == []
            assert stream.domain.values == ["keep", "old"]
        if slot == 2:
            assert float(release.probability("old")) == pytest.approx(0.5, abs=0.05)
    assert stream.domain.values == ["keep"]
    assert [entry[0] for entry in stream.store.options("").entries][1:] == [1, 1 + 2 + LONG]


def test_false_values_are_as_rare_as_promised():
    """By calculation: over all texts of all lengths, of all groups, noise passes with at most 10^-6 a slot."""
    universe, epsilon, groups = dpi.Texts(32), Epsilon.at_most("0.05"), 3
    finder = Discovering(dpi.Boosted()).sparse(groups)
    passing = 0.0
    for length, grains in finder.thresholds(universe, epsilon).items():
        rate = 1 / float(epsilon.scale)
        texts = universe.lengths[length]
        passing += float(texts.stop - texts.start) * np.exp(-grains * rate) / (1 + np.exp(-rate))
    assert groups * passing <= float(FAILURE)
    assert 10_000 * groups * passing <= 0.01


def test_a_flood_of_texts_takes_little_memory():
    """200,000 different texts of one user in one slot: what is held of a batch afterwards is a few texts."""
    seen, batch = SeenTexts(dpi.Texts(16)), SeenTexts(dpi.Texts(16))
    size = 200_000
    rows = Rows.of(["me"] * size, batch.encode([f"x{n}" for n in range(size)]), KEY)
    tracemalloc.start()
    moved = batch.renumber(batch.kept(rows, KEY), seen)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(moved) == MOST_TEXTS
    assert len(seen._texts) == 1 + MOST_TEXTS
    assert held < 100_000


def test_a_flood_moves_its_user_alone():
    """Others' values are found as without the flood, to the bit."""
    crowd = [(f"u{n}", "abc") for n in range(600)]
    flood = [("me", f"{n:x}"[-3:]) for n in range(5000)]
    options = {"budget": dpi.Ledger(per_slot="0.9", policy=dpi.spend_first), "texts": dpi.Texts(3)}
    one, other = (opened(**options) for _ in range(2))
    one.release([u for u, _ in (*flood, *crowd)], [v for _, v in (*flood, *crowd)])
    other.release([u for u, _ in crowd], [v for _, v in crowd])
    assert one.domain.values == other.domain.values == ["abc"]


def test_played_from_a_table_it_goes_on_after_a_stop(tmp_path):
    """Slot by slot from a file, stopped and opened again: the same values, and a chain that holds."""
    rows = {
        "user": [f"u{n}" for n in range(3000)],
        "time": [f"2026-01-{1 + n % 3:02d}T10:00" for n in range(3000)],
        "value": ["/home" if n % 2 else "/shop" for n in range(3000)],
    }
    options = {"domain": "discover", "epsilon": 4, "slot": "1d", "start": "2026-01-01"}
    path = tmp_path / "pages.db"
    with dpi.Stream(**options, store=path) as stream:
        list(stream.replay(rows, start="2026-01-01", end="2026-01-03"))
        found = stream.domain.values
    with dpi.Stream(**options, store=path) as stream:
        assert stream.domain.values == found == ["/home", "/shop"]
        (release,) = stream.replay(rows, start="2026-01-03", end="2026-01-04")
    assert release.domain.values == ["/home", "/shop"]
    with dpi.open_store(path) as store:
        assert verify(store).problems == ()
        assert verify(store).spent[""] <= 4


def test_what_is_remembered_is_stored_bit_by_bit():
    """A state is read again as it was; a damaged one, or one of another domain, is refused."""
    mechanism, domain = Discovering(dpi.Boosted()), Discovered(TEXTS, ["a"])
    state = replace(mechanism.initial(domain), found=("b", "ccc"), quiet={"a": 3})
    data = mechanism.to_bytes(state)
    again = mechanism.from_bytes(domain, data)
    assert mechanism.to_bytes(again) == data
    assert (again.found, again.quiet, again.values) == (state.found, state.quiet, state.values)
    for damaged in (b"", b"[1]" + data, data[:40], data.replace(b'"ccc"', b"7"), data.replace(b"3", b"x", 1)):
        with pytest.raises(dpi.StateError):
            mechanism.from_bytes(domain, damaged)
    with pytest.raises(dpi.StateError):
        mechanism.from_bytes(dpi.Categories(["a"]), data)


def test_interrupted_before_a_value_was_listed(monkeypatch):
    """Killed between a release and the entry of the values that it found: the next to open the store enters them."""
    store, budget = dpi.MemoryStore(secret=KEY), dpi.Ledger(per_slot="0.9", policy=dpi.spend_first)
    stream = opened(store=store, budget=budget)
    with monkeypatch.context() as patched:
        patched.setattr(SlotCloser, "_refine", lambda *_: None)
        stream.release(range(300), ["abc"] * 300)
    assert stream.domain.values == []
    assert opened(store=store, budget=budget).domain.values == ["abc"]


def test_a_domain_that_grows_is_written_and_read():
    """Before and after values were found."""
    for values in ([], ["a", "b"]):
        domain = Discovered(TEXTS, values)
        assert from_description(describe(domain)) == domain


@pytest.mark.parametrize(
    "options",
    [
        {"compression": dpi.histogram.truncate(2, KEY)},
        {"accumulate": dpi.stream.prefix_tree.PrefixTree(per_slot="0.1")},
        {"engine": object()},
    ],
)
def test_what_does_not_go_with_it_is_refused(options):
    """Each by the options alone."""
    with pytest.raises(dpi.OptionError):
        opened(**options)


def test_live_events_are_refused():
    """A store keeps no text."""
    stream = opened(slot="1h", start="2026-01-01")
    with pytest.raises(dpi.OptionError, match="all there"):
        stream.append(["a"], ["2026-01-01T00:10"], ["a"], now="2026-01-01T00:20")


def test_other_mechanisms_and_domains_do_not_discover():
    """The mechanism is for this domain alone."""
    with pytest.raises(dpi.OptionError, match="discover"):
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, mechanism=Discovering(dpi.Boosted()))
    assert Discovering(dpi.Boosted()).largest_sensitivity == GRAINS
