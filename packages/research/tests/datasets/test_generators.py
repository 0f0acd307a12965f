import numpy as np
import pytest

from dpi.errors import OptionError
from dpi_research.datasets.generators import PAGES, STREAMS, populate, published, stream_named

SMALL = [name for name, stream in STREAMS.items() if stream.rows <= 50_000 and stream.bins <= 1000]


@pytest.mark.parametrize("name", SMALL)
def test_users_get_every_record_and_no_more(name):
    """The records of a slot are the generator's counts, and no user has more than the stated number in a slot."""
    stream = STREAMS[name]
    clean = stream.make(np.random.default_rng([7, 0]), 3)
    for slot, (counts, pdf) in zip(stream.slots(7, 3), clean, strict=True):
        assert slot.users.size == slot.values.size
        np.testing.assert_array_equal(np.bincount(slot.values, minlength=stream.bins), counts)
        np.testing.assert_array_equal(slot.pdf, pdf)
        assert pdf.size == stream.bins
        assert pdf.sum() == pytest.approx(1)
        if slot.users.size:
            assert np.unique(slot.users, return_counts=True)[1].max() <= stream.records


def test_churn_is_what_it_says():
    """Without churn the same users return; with all of it none does; else about that share leaves (six deviations)."""
    for churn, low, high in ((0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.1, 0.88, 0.92)):
        counts = ((np.full(10, 1000), np.full(10, 0.1)) for _ in range(2))
        one, two = populate(counts, np.random.default_rng(1), churn=churn)
        assert low <= np.isin(two.users, one.users).mean() <= high
    with pytest.raises(OptionError, match="churn"):
        next(populate(iter([]), np.random.default_rng(0), churn=2.0))


def test_ids_are_never_used_again():
    """Newcomers are new: an id that left does not come back."""
    counts = ((np.full(5, n), np.full(5, 0.2)) for n in (20, 40, 10, 40, 40))
    present: list[set[int]] = []
    for slot in populate(counts, np.random.default_rng(3), churn=1.0):
        present.append(set(slot.users.tolist()))
        assert all(present[-1].isdisjoint(before) for before in present[:-1])


def test_the_same_seed_gives_the_same_stream():
    """So that systems are compared on equal data."""
    one, two, other = (list(stream_named("shop").slots(seed, 3)) for seed in (1, 1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.users, b.users)
        np.testing.assert_array_equal(a.values, b.values)
    assert one[2].values.size != other[2].values.size or (one[2].values != other[2].values).any()


def test_the_published_stream_is_nearly_uniform():
    """100 items around 100: the uniform guess is within a KL of 0.01 of every slot."""
    for counts, pdf in published(np.random.default_rng(0), 50):
        assert counts.sum() == pytest.approx(10_000, rel=0.05)
        assert float(pdf @ np.log(pdf * 100)) < 0.01


def test_the_shop_has_crowds():
    """On the tenth evening the offer leads; a day before it does not."""
    shares = [pdf[PAGES.index("offer")] for _, pdf in STREAMS["shop"].make(np.random.default_rng(0), 240)]
    assert shares[9 * 24 + 19] > 0.25 > shares[8 * 24 + 19]


def test_unknown_streams_are_refused():
    """The error lists what there is."""
    with pytest.raises(OptionError, match="known are published"):
        stream_named("nowhere")
