from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.domain.overlap import Overlap
from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi.stream.prefix_tree import PrefixSums, PrefixTree


@dataclass(frozen=True)
class Clean(PrefixTree):
    """A tree without noise, which shows what its nodes hold."""

    def noisy(self, grains, source):
        """The grains themselves."""
        return grains


@dataclass(frozen=True)
class Recording(Boosted):
    """A mechanism that remembers the budgets it measured with."""

    asked: list = field(default_factory=list, compare=False)

    def measure(self, state, histogram, epsilon, slot, source):
        """Measure and remember."""
        self.asked.append(epsilon)
        return super().measure(state, histogram, epsilon, slot, source)


def histogram(grains):
    """A histogram of these grains."""
    return Histogram(np.asarray(grains, dtype=np.int64), GRAINS)


def nodes(slots, arity, levels):
    """All finished nodes' sums, level by level."""
    return [
        np.sum(slots[first : first + arity**level], axis=0)
        for level in range(levels)
        for first in range(0, len(slots) - arity**level + 1, arity**level)
    ]


grown = st.tuples(st.integers(2, 4), st.integers(1, 4), st.integers(0, 40))


@given(grown, st.randoms(use_true_random=False))
def test_sums_are_those_of_the_slots(shape, random):
    """Without noise the sums are exactly the prefix sums, made of as many nodes as the digits of the time say."""
    arity, levels, length = shape
    tree = Clean(1, arity, levels)
    slots = [[random.randint(0, 9) * GRAINS for _ in range(3)] for _ in range(length)]
    sums = tree.planted(3, UnsafeSeededSource(0))
    for slot in slots:
        sums = sums.added(histogram(slot), UnsafeSeededSource(0))
    assert (sums.sums() * GRAINS).tolist() == np.sum([[0, 0, 0], *slots], axis=0).tolist()
    digits, rest = 0, length
    for _ in range(levels - 1):
        rest, digit = divmod(rest, arity)
        digits += digit
    assert sums.nodes == digits + rest


@given(grown, st.integers(0, 40), st.randoms(use_true_random=False))
def test_sums_go_on_over_a_change_of_the_domain(shape, changed, random):
    """Without noise they are the prefix sums of all slots, whenever the domain changes: what was counted stays."""
    arity, levels, length = shape
    tree, old, new = Clean(1, arity, levels), dpi.Categories(["a", "b"]), dpi.Categories(["b", "c"])
    sums, expected = tree.planted(3, UnsafeSeededSource(0)), np.zeros(3)
    for number in range(length):
        if number == changed:
            sums = sums.adapt_to_domain(Overlap.of(old, new), 3, UnsafeSeededSource(0))
            expected = np.array([expected[1], 0, expected[0] + expected[2]])
        slot = [random.randint(0, 9) for _ in range(3)]
        expected = expected + slot
        sums = sums.added(histogram(np.array(slot) * GRAINS), UnsafeSeededSource(0))
    assert sums.sums().tolist() == expected.tolist()


def test_what_was_open_is_in_nothing_that_goes_on_after_a_change():
    """Two trees with the same finished nodes are the same tree after it, whatever they were adding up."""
    tree, old, new = PrefixTree("0.1", 4, 3), dpi.Categories(["a", "b"]), dpi.Categories(["b", "c"])
    sums = tree.planted(3, UnsafeSeededSource(1)).added(histogram([GRAINS, 0, 0]), UnsafeSeededSource(2))
    other = replace(sums, opened=sums.opened + 5 * GRAINS)
    moved = [each.adapt_to_domain(Overlap.of(old, new), 3, UnsafeSeededSource(3)).to_bytes() for each in (sums, other)]
    assert moved[0] == moved[1]


def test_a_tree_over_bins_that_are_split_is_planted_anew():
    """Nobody knows which part of a sum lies in which part of its bin."""
    tree = PrefixTree("0.1", 4, 3)
    sums = tree.planted(3, UnsafeSeededSource(1)).added(histogram([GRAINS, 0, 0]), UnsafeSeededSource(2))
    moved = sums.adapt_to_domain(Overlap.of(dpi.Bins([0, 2]), dpi.Bins([0, 1, 2])), 4, UnsafeSeededSource(3))
    assert moved.to_bytes() == tree.planted(4, UnsafeSeededSource(3)).to_bytes()


@given(grown, st.fractions(Fraction(1, 100), 8, max_denominator=100), st.randoms(use_true_random=False))
def test_the_loss_is_the_tree_budget_of_every_contribution(shape, epsilon, random):
    """The exact log likelihoods of all nodes of neighbouring streams differ by at most Σ_t ε·grains/2^24."""
    arity, levels, length = shape
    tree = PrefixTree(epsilon, arity, levels)
    scale = float(levels * tree.epsilon.scale)
    slots = np.array([[random.randint(5, 40) for _ in range(3)] for _ in range(length)]).reshape(length, 3)
    user = np.array([[random.randint(0, 2) for _ in range(3)] for _ in range(length)]).reshape(length, 3)
    with_user, without = nodes(slots, arity, levels), nodes(slots - user, arity, levels)
    outputs = [without, with_user, [node + np.array([random.randint(-30, 30) for _ in range(3)]) for node in without]]
    for output in outputs:
        terms = (np.abs(y - a).sum() - np.abs(y - b).sum() for y, a, b in zip(output, with_user, without, strict=True))
        loss = sum(terms) / scale
        assert abs(loss) <= float(tree.epsilon) * user.sum() / GRAINS * (1 + 1e-9) + 1e-30


def test_a_node_has_laplace_noise_of_all_levels():
    """Each node's noise is discrete Laplace of scale levels·G/ε, drawn once."""
    tree, grains = PrefixTree("0.025", arity=4, levels=3), np.arange(50) * GRAINS
    expected = add_laplace(grains, 3 * Fraction(GRAINS) / tree.epsilon.fraction, UnsafeSeededSource(2))
    assert tree.noisy(grains, UnsafeSeededSource(2)).tolist() == expected.tolist()


def test_the_sums_have_the_stated_variance():
    """Over 3,000 bins the errors' mean square is within 20 % of the variance after each of 30 slots.

    False alarm below 10^-6: the mean square of 3,000 Laplace errors varies by at most 4.1 %.
    """
    tree, source = PrefixTree("0.5", arity=4, levels=3), UnsafeSeededSource(3)
    sums = tree.planted(3_000, source)
    for slot in range(1, 31):
        sums = sums.added(histogram(np.full(3_000, 2 * GRAINS)), source)
        assert np.mean((sums.sums() - 2 * slot) ** 2) == pytest.approx(sums.variance, rel=0.2)


def test_ten_thousand_slots_are_summed_better_than_flat_at_half_the_price():
    """With half of each slot's budget, sums of 10,000 slots have a fourth of the variance of flat sums with all."""
    tree = Clean("0.025")
    sums = tree.planted(1, UnsafeSeededSource(0))
    for _ in range(10_000):
        sums = sums.added(histogram([0]), UnsafeSeededSource(0))
    assert sums.variance < 0.25 * 10_000 * 2 / 0.05**2


@given(st.integers(0, 25))
@settings(max_examples=26)
def test_a_resumed_tree_is_the_uninterrupted_one(slots):
    """After a round trip through bytes the tree goes on, bit for bit; adding leaves the old one as it was."""
    tree = PrefixTree("0.5", arity=3, levels=3)
    sums = tree.planted(4, UnsafeSeededSource(0))
    for slot in range(slots):
        sums = sums.added(histogram([GRAINS] * 4), UnsafeSeededSource(slot))
    before = sums.to_bytes()
    resumed = PrefixSums.from_bytes(tree, 4, before)
    one, other = (s.added(histogram([GRAINS] * 4), UnsafeSeededSource(99)) for s in (sums, resumed))
    assert one.to_bytes() == other.to_bytes()
    assert sums.to_bytes() == before
    for bins, data in ((5, before), (4, before[:-1]), (4, b"")):
        with pytest.raises(StateError, match="tree of sums"):
            PrefixSums.from_bytes(tree, bins, data)


def test_saturated_noise_says_nothing_of_the_counts():
    """At budgets whose noise exceeds every integer, finished nodes are the same for all counts."""
    tree = PrefixTree(Fraction(1, 2**40), arity=2, levels=2)
    found = []
    for grains in ([0] * 200, [GRAINS] * 200):
        sums = tree.planted(200, UnsafeSeededSource(1))
        for slot in range(4):
            sums = sums.added(histogram(grains), UnsafeSeededSource(slot))
        found.append(sums.sums())
    ceiling = 2**60 / GRAINS
    full = np.abs(found[0]) == ceiling * 2
    assert full.sum() > 40
    assert (found[0][full] == found[1][full]).all()


def stream(mechanism="boosted", **options):
    """A stream of two bins with a tree of 0.04 of the 0.1 of each slot."""
    options = {"budget": dpi.Ledger(per_slot="0.1"), "accumulate": PrefixTree("0.04", 3, 2)} | options
    source = options.pop("unsafe_source", UnsafeSeededSource(7))
    return dpi.Stream(
        domain=dpi.Categories(["a"], other="b"), epsilon=1, mechanism=mechanism, unsafe_source=source, **options
    )


def test_tree_and_mechanism_share_the_slots_budget():
    """The mechanism gets what the tree leaves, the price is the slot's; a slot too poor is the mechanism's alone."""
    mechanism = Recording()
    release = stream(mechanism).release(["u", "v"], ["a", "a"])
    assert mechanism.asked == [Epsilon(Epsilon.at_most("0.1").units - Epsilon.at_most("0.04").units)]
    assert release.epsilon == pytest.approx(0.1)
    poor = Recording()
    s = stream(poor, budget=dpi.Ledger(per_slot="0.01"))
    assert s.release(["u"], ["a"]).accumulated.sum() == pytest.approx(1)
    assert poor.asked == [Epsilon.at_most("0.01")]
    assert s.driver.state.tree.nodes == 0


def test_a_resumed_stream_keeps_its_tree(tmp_path):
    """A stream that was saved and loaded releases the bytes of one that was never stopped."""
    source, other = UnsafeSeededSource(5), UnsafeSeededSource(5)
    plain = stream(unsafe_source=source)
    expected = [plain.release(["x", "y"], ["a", "b"]).to_json() for _ in range(8)]
    first = stream(unsafe_source=other)
    got = [first.release(["x", "y"], ["a", "b"]).to_json() for _ in range(4)]
    first.save(tmp_path / "saved")
    second = stream(unsafe_source=UnsafeSeededSource(6))
    second._source = other
    second.load(tmp_path / "saved")
    got += [second.release(["x", "y"], ["a", "b"]).to_json() for _ in range(4)]
    assert got == expected
    with pytest.raises(StateError, match="other options"):
        stream(accumulate=None).load(tmp_path / "saved")


def test_bad_options_are_refused():
    """Every wrong option raises an error that says what is expected."""
    for options in ({"per_slot": 0}, {"per_slot": -1}, {"arity": 1}, {"arity": 2.0}, {"levels": 0}, {"levels": True}):
        with pytest.raises(OptionError):
            PrefixTree(**({"per_slot": 0.1} | options))
    with pytest.raises(OptionError, match="at most 2\\^20 slots"):
        PrefixTree(0.1, arity=1000, levels=4)
    with pytest.raises(OptionError, match="None or a PrefixTree"):
        stream(accumulate=0.1)
    with pytest.raises(OptionError, match="one unit"):
        stream(compression=dpi.histogram.whole_pdf)
    with pytest.raises(OptionError, match="one unit"):
        PrefixTree(1).planted(1, UnsafeSeededSource(0)).added(
            Histogram(np.zeros(1, dtype=np.int64), 2 * GRAINS), UnsafeSeededSource(0)
        )
