import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.domain import Bins, Categories, Hashed, Product
from dpi.domain.partition import Blocks, Marginal
from dpi.errors import OptionError
from dpi.exact.integers import capped_sums
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.view_layout import Layout, automatic_partitions

THREE = Product(a=Categories([*"xyz"], other=None), b=Bins([0, 1]), c=Categories([*"pq"], other=None))


@given(st.integers(3, 300), st.data())
def test_blocks_are_runs_of_equal_length(bins, data):
    """Every bin is in one block, blocks are runs, none is empty, and their lengths differ by at most one."""
    count = data.draw(st.integers(2, bins - 1))
    labels = Blocks(count).labels(Hashed(bins, bytes(32)))
    sizes = np.bincount(labels, minlength=count)
    assert (np.diff(labels) >= 0).all()
    assert sizes.size == count
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("names", [("a",), ("b",), ("c",), ("a", "c"), ("c", "a"), ("b", "c")])
def test_marginals_group_by_the_named_parts(names):
    """Two bins are in one block exactly if they agree in the named parts."""
    labels = Marginal(*names).labels(THREE)
    parts = [tuple(THREE.codes(i)[name] for name in names) for i in range(THREE.size)]
    for i in range(THREE.size):
        for j in range(THREE.size):
            assert (labels[i] == labels[j]) == (parts[i] == parts[j])
    assert sorted(set(labels.tolist())) == list(range(len(set(parts))))


@given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(-(2**24), 2**24)), min_size=4, max_size=40), st.data())
def test_block_sums_move_by_no_more_than_the_bins(bins, data):
    """The sums are exact, and what one user moves in ℓ₁ they move at most as far."""
    count = data.draw(st.integers(2, len(bins) - 1))
    view = Layout.of((Blocks(count),), Hashed(len(bins), bytes(32))).views[0]
    before, moved = (np.array(column, dtype=np.int64) for column in zip(*bins, strict=True))
    sums, after = view.counts(before), view.counts(before + moved)
    assert sums.tolist() == [sum(before[view.labels == b].tolist()) for b in range(count)]
    assert np.abs(after - sums).sum() <= np.abs(moved).sum()


def test_huge_domains_with_structure_are_measured_coarsely_too():
    """Ordered domains have nested blocks and products their marginals, from 10,000 bins on; others have none."""
    assert automatic_partitions(Bins(range(1, 9_999))) == ()
    assert automatic_partitions(Hashed(10**6, bytes(32))) == ()
    assert automatic_partitions(Bins(range(1, 10_000))) == (Blocks(16), Blocks(128), Blocks(1024))
    part = Categories(range(100), other=None)
    assert automatic_partitions(Product(a=part, b=part)) == (Marginal("a"), Marginal("b"))
    assert automatic_partitions(Product(a=Bins(range(1, 20_000)))) == ()
    assert parents(Bins(range(1, 12_345))) == [None, 0, 1, 2]
    assert parents(Product(a=part, b=part)) == [None, None, 1]


def parents(domain):
    """The number of each view's parent, which has the same sums as a partition of blocks as of bins."""
    layout = Layout.of(automatic_partitions(domain), domain)
    for parent, view in zip(layout.parents, layout.views, strict=True):
        if parent is not None:
            whole, counts = layout.views[parent[0]], np.arange(layout.bins)
            assert (parent[1].sums(view.sums(counts)) == whole.sums(counts)).all()
    return [None if parent is None else parent[0] for parent in layout.parents]


def test_bad_partitions_are_refused():
    """Every wrong option raises an error that says what is expected."""
    for wrong in (1, 0, -3, 2.0, True, "2"):
        with pytest.raises(OptionError, match="whole number from 2"):
            Blocks(wrong)
    for names in ((), (1,), ("a", "a")):
        with pytest.raises(OptionError, match="different names"):
            Marginal(*names)
    with pytest.raises(OptionError, match="fewer blocks"):
        Boosted(partitions=(Blocks(4),)).initial(Bins([0, 1, 2]))
    for names, domain in ((("a", "b", "c"), THREE), (("d",), THREE), (("a",), Bins([0]))):
        with pytest.raises(OptionError, match="some parts of a Product"):
            Boosted(partitions=(Marginal(*names),)).initial(domain)
    with pytest.raises(OptionError, match="coarser than the domain"):
        Boosted(partitions=(Marginal("a"),)).initial(Product(a=Bins([0]), b=Categories(["x"], other=None)))
    for wrong in ("none", [Blocks(2)], (2,), None):
        with pytest.raises(OptionError, match="'auto' or a tuple"):
            Boosted(partitions=wrong)
    with pytest.raises(OptionError, match="differ from each other"):
        Boosted(partitions=(Blocks(2), Blocks(2)))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), st.data())
def test_sums_over_blocks_are_exact_and_cut_at_the_cap(values, data):
    """Where 64 bits would overflow, a block's sum is that of whole numbers of any size, cut to ± 2^60."""
    labels = [data.draw(st.integers(0, 2)) for _ in values]
    sums = capped_sums(np.array(values, dtype=np.int64), np.array(labels, dtype=np.int64), 3, 60)
    exact = [sum(v for v, label in zip(values, labels, strict=True) if label == block) for block in range(3)]
    assert sums.tolist() == [max(-(2**60), min(2**60, total)) for total in exact]
